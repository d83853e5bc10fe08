"""Whole runs in which clients keep something for themselves: stopped anywhere, they end as if they never had been."""

from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.records.run_checkpoint import DRIVER
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import Result, run
from fielding.traces.trace import Trace
from tests.rotation import some_of
from tests.simulation.run_cases import N_ROUNDS, Table, left_behind, stop_and_resume, table

CLIENTS, MODELS = "previous.clients", "previous.models"
NEXT, ROW = "rehearsal.next", "rehearsal.memory_row"
"""Names in a checkpoint."""
METHODS = ("fielding", "global", "ifca")
N_CLIENTS, N_DAYS = 8, 13
KEEPING: dict[str, dict[str, Json]] = {
    "moon": {"moon": 1.0, "moon_temperature": 0.3},
    "rehearsal": {"rehearsal": True},
    "both": {"moon": 1.0, "rehearsal": True},
}


def changing_trace() -> Trace:
    """Return a natural trace of clients that all go over to other labels halfway, some samples a day."""
    rng = np.random.default_rng(3)
    n_rows = 20 * N_CLIENTS * N_DAYS
    client = np.tile(np.arange(N_CLIENTS, dtype=np.int32), n_rows // N_CLIENTS)
    time = np.sort(rng.uniform(0.0, 86400.0 * N_DAYS, n_rows))
    y = (2 * (time > 43200.0 * N_DAYS) + rng.integers(0, 2, n_rows)).astype(np.int32)
    x = (0.6 * rng.standard_normal((n_rows, 4)) + 2.0 * np.eye(4)[y]).astype(np.float32)
    return Trace(client_ids=tuple(range(N_CLIENTS)), client=client, time=time, y=y, classes=tuple("abcd"), x=x)


def config_of(training: dict[str, Json], method: str = "fielding") -> Table:
    steps: dict[str, Json] = {"local_steps": 10, "batch_size": 10, "learning_rate": 0.3, "participants": N_CLIENTS}
    config = table(training=steps | training, method={"name": method})
    config["trace"] = {"interval": "1d", "gap": 1, "window": 2}
    return config


def kept(result: Result, name: str) -> np.ndarray:
    return result.checkpoint.arrays[f"{DRIVER}{name}"]


@pytest.mark.parametrize(("name", "method"), some_of([(name, method) for name in KEEPING for method in METHODS], 3))
def test_a_run_stopped_after_every_round_ends_as_one_never_stopped(tmp_path: Path, name: str, method: str) -> None:
    config, own = config_of(KEEPING[name], method), Own(samples=changing_trace())
    whole = run(config, tmp_path / "whole", own=own, page=False)

    stop_and_resume(config, tmp_path / "cut", list(range(1, N_ROUNDS)), own)

    assert left_behind(tmp_path / "cut") == left_behind(tmp_path / "whole")
    if name != "rehearsal":
        assert kept(whole, CLIENTS).size > 0
        assert kept(whole, MODELS).shape == (kept(whole, CLIENTS).size, whole.checkpoint.models.shape[1])
    if name != "moon":
        assert kept(whole, ROW).size > 0


def test_what_is_kept_changes_the_run_and_nothing_is_kept_unless_it_is_asked_for() -> None:
    own = Own(samples=changing_trace())

    results = [run(config_of(training), own=own, page=False) for training in ({}, *KEEPING.values())]

    assert len({result.checkpoint.models.tobytes() for result in results}) == len(results)
    names = results[0].checkpoint.arrays.keys()
    assert not names & {f"{DRIVER}{name}" for name in (CLIENTS, MODELS, NEXT)}
