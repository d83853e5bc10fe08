"""An audit of whole runs: with a canary among the samples of a client, and with another sample in its place.

The attacker knows all data but that label, and sees all that the coordinator ever saw of the client's data: its
reports, through many re-clusterings. From how often it is right and wrong follows an epsilon that the run has at least,
with 95 % confidence (Clopper and Pearson).
"""

from dataclasses import replace
from functools import cache
from math import log
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from fielding._typing import Counts, Json
from fielding.config.reader import config_from
from fielding.records.run_folder import read_run_reports
from fielding.reporting.numbers.run_record import read_run
from fielding.simulation.assembly import Own, assemble
from fielding.simulation.experiment import run
from fielding.traces.trace import Trace
from tests.simulation.run_cases import Table, small_trace

CANARY, OTHER = 3, 0  # labels
N_RUNS = 300
CLIENT, ROUNDS = "client-00", 12


def config_of(epsilon: float, seed: int) -> Table:
    privacy: dict[str, Json] = {"mode": "record", "epsilon": epsilon, "reports_per_window": 3}
    return {
        "seed": seed,
        "rounds": ROUNDS,
        "workers": 1,
        "trace": {"interval": "1d", "gap": 2, "window": 6},
        "model": {"name": "softmax"},
        "training": {"participants": 8, "local_steps": 1},
        "coordinator": {"trigger": "always"},
        "evaluation": {"every": ROUNDS},
        "privacy": privacy,
    }


@cache
def row_and_counts() -> tuple[int, dict[int, Counts]]:
    """Return the row of the trace that is the canary, and the client's label counts without it by round."""
    simulation = assemble(config_from(config_of(1.0, 1)), Own(samples=small_trace()), n_workers=1)
    simulation.clients.close()
    windows = simulation.clients.windows
    me = windows.schedule.client_ids.index(CLIENT)
    where = int(windows.training(0).of(np.array([me]))[0][-1])  # the newest sample: all reports of a window hold it
    counts = {}
    for at in range(ROUNDS):
        rows = windows.training(at).of(np.array([me]))[0]
        if where in rows:
            counts[at] = np.bincount(windows.labels(rows[rows != where]), minlength=4)
    features = small_trace().x
    assert features is not None
    alike = np.abs(features - windows.gather(np.array([where]))[0]).sum(axis=1)
    return int(np.argmin(alike)), counts


def trace_with(label: int) -> Trace:
    trace, row = small_trace(), row_and_counts()[0]
    y = trace.y.copy()
    y[row] = label
    return replace(trace, y=y)


def is_canary_said(folder: Path, label: int, epsilon: float, seed: int) -> tuple[bool, int]:
    """Return whether the attacker says "canary" of a run, rather sure, and how often all clients were grouped."""
    run(config_of(epsilon, seed), folder, own=Own(samples=trace_with(label)), page=False)
    reports, counts = read_run_reports(folder, "vector"), row_and_counts()[1]
    evidence, most = 0.0, 0.0
    for at, name in enumerate(reports.client[:].tolist()):
        step = int(reports.step[at])
        if reports.client_ids[name] != CLIENT or step not in counts:
            continue
        told = reports.representations[at].astype(np.float64) * (counts[step].sum() + 1)
        one, other = (counts[step] + np.eye(4)[label] for label in (CANARY, OTHER))
        evidence += float((np.abs(told - other) - np.abs(told - one)).sum())
        most += 2.0
    assert most > 0.0
    return evidence > most / 2.0, sum(bool(row["fired"]) for row in read_run(folder).events)


def count_said(folder: Path, epsilon: float, n_runs: int) -> tuple[int, int]:
    """Return how often the attacker says "canary" rightly and wrongly, in so many runs each."""
    found = {}
    for label in (CANARY, OTHER):
        said = [is_canary_said(folder / f"{epsilon}-{label}-{seed}", label, epsilon, seed) for seed in range(n_runs)]
        found[label] = sum(one for one, _ in said)
        assert min(n for _, n in said) > 2
    return found[CANARY], found[OTHER]


def least_epsilon(right: int, wrong: int, n_runs: int) -> float:
    """Return what the attack shows that runs tell at least."""
    surely_right = beta.ppf(0.025, right, n_runs - right + 1) if right else 1e-9
    at_most_wrong = beta.ppf(0.975, wrong + 1, n_runs - wrong)
    return log(surely_right / at_most_wrong)


def test_the_attack_sees_the_canary_where_there_is_hardly_any_noise(tmp_path: Path) -> None:
    assert count_said(tmp_path, 60.0, 3) == (3, 0)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_hundreds_of_runs_tell_no_more_of_a_canary_than_they_claim(tmp_path: Path, epsilon: float) -> None:
    right, wrong = count_said(tmp_path, epsilon, N_RUNS)

    assert least_epsilon(right, wrong, N_RUNS) <= epsilon


@pytest.mark.slow
def test_the_audit_finds_runs_with_too_little_noise(tmp_path: Path) -> None:
    assert least_epsilon(*count_said(tmp_path, 9.0, 60), 60) > 1.0
