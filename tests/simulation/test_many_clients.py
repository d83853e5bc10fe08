"""What is done in parts, or for a sample, where clients are many: the same as at once, and said."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from fielding import run
from fielding._typing import Json
from fielding.config.keys import TraceSection
from fielding.reporting.report_page import report_page
from fielding.simulation import assembly, experiment
from fielding.traces import likeness, sliding
from fielding.traces.histograms import WindowPlan
from fielding.traces.scenarios import dealing
from fielding.traces.sliding import SlidingWindows
from fielding.traces.sources import Dealt, deal_samples
from fielding.traces.trace import Trace

SCENARIOS = ("concept-swap", "covariate", "dirichlet", "label-buckets", "mixed", "new-label", "places", "static")


def deal(scenario: str) -> Dealt:
    section = TraceSection(scenario=scenario, clients=7, samples=5, gap=2, window=4)
    return deal_samples(section, rounds=6, seed=3)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_samples_dealt_and_counted_in_parts_are_those_dealt_at_once(
    scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = deal(scenario)
    whole = SlidingWindows(at_once.pool, at_once.schedule, WindowPlan(gap=2, window=4))
    digest = experiment._data_digest(at_once)

    monkeypatch.setattr(dealing, "_DEALT_AT_ONCE", 60)
    monkeypatch.setattr(sliding, "_COUNTED_AT_ONCE", 3)
    monkeypatch.setattr(experiment, "_HASHED_ROWS", 4)
    in_parts = deal(scenario)
    windows = SlidingWindows(in_parts.pool, in_parts.schedule, WindowPlan(gap=2, window=4))

    for name in ("client", "interval", "sample", "y", "look"):
        np.testing.assert_array_equal(getattr(in_parts.schedule, name), getattr(at_once.schedule, name))
    everyone = np.arange(7)
    for one, other in ((windows.training(3), whole.training(3)), (windows.next(3), whole.next(3))):
        np.testing.assert_array_equal(one.of(everyone)[0], other.of(everyone)[0])
    assert experiment._data_digest(in_parts) == digest


def test_of_many_clients_a_sample_is_tested_and_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "MOST_TESTED", 5)
    table: Mapping[str, Json] = {
        "rounds": 2,
        "trace": {"clients": 12, "gap": 2, "window": 4},
        "training": {"participants": 4},
    }

    result = run(table, tmp_path / "run", page=False)

    assert [(row["n_tested"], row["n_testable"]) for row in result.rounds if "n_tested" in row][-1] == (5, 12)
    assert "5 of 12 clients were tested" in report_page([tmp_path / "run"])
    asked = run({**table, "evaluation": {"clients": 12}}, page=False)
    assert asked.rounds[-1]["n_tested"] == 12, "a number of one's own counts"


def test_of_many_clients_some_tell_how_alike_neighbours_are(monkeypatch: pytest.MonkeyPatch) -> None:
    minutes = np.tile(np.arange(3000), 8)
    trace = Trace(
        client_ids=tuple(range(8)),
        client=np.repeat(np.arange(8, dtype=np.int32), 3000),
        time=minutes.astype(np.float64) * 60.0,
        y=(minutes // 60 * 7 % 10).astype(np.int32),
        classes=tuple("abcdefghij"),
    )
    of_all = likeness.measure_likeness(trace, 86_400.0)

    monkeypatch.setattr(likeness, "MOST_COMPARED", 2)
    of_some = likeness.measure_likeness(trace, 86_400.0)

    assert of_some.block == of_all.block == "1h"
    assert of_some.lags["1h"].n_pairs * 4 == of_all.lags["1h"].n_pairs
