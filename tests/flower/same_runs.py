"""What two run folders must have in common if their runs were the same, whatever engine they ran on."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.config.keys import Config
from fielding.records.run_checkpoint import RunCheckpoint, load_run
from fielding.records.run_folder import CLIENTS, EVENTS, MEMBERSHIPS, ROUNDS, RunFolder, newest_checkpoint
from fielding.simulation.experiment import run
from tests.flower.device_wire import Deployed, lines
from tests.simulation.run_cases import Crash

TOLERANCE = 1e-5
COSTS = ("time_s", "bytes_down", "bytes_up", "client_seconds")
"""Figures that hang on machines and wires."""
OMNISCIENT = (
    "ari",
    "measured_heterogeneity",
    "unclustered_heterogeneity",
    "first_time_s",
    "cluster_time_s",
    "shared_accuracy",
    "shared_baseline",
    "note",
)
"""Figures that only a simulator knows: it sees the data of all clients."""
ELSEWHERE = ("newest", "next", "prequential")
"""What names of figures hold that devices do not measure: they test models on their windows alone."""


def assert_same_runs(found: Path, wanted: Path, *, models_within: float = TOLERANCE) -> None:
    """Compare memberships, events, figures of all rounds, every test of every client and the models at the end."""
    assert lines(found, MEMBERSHIPS) == lines(wanted, MEMBERSHIPS)
    for name in (EVENTS, ROUNDS, CLIENTS):
        ours, theirs = _comparable(lines(found, name)), _comparable(lines(wanted, name))
        assert [line["round"] for line in ours] == [line["round"] for line in theirs]
        for our, their in zip(ours, theirs, strict=True):
            assert_alike(our, their, f"{name}, round {our['round']}")
    last, last_wanted = (load_run(newest_checkpoint(folder)) for folder in (found, wanted))
    assert last.client_ids == last_wanted.client_ids
    assert last.membership.tolist() == last_wanted.membership.tolist()
    np.testing.assert_allclose(last.models, last_wanted.models, rtol=0, atol=models_within)


def deployed_as_simulated(config: Config, folder: Path) -> Deployed:
    """Run a config on both engines, compare the runs, and return the deployed one."""
    deployed = Deployed(config, folder)
    run(config, folder / "simulated", page=False)
    assert deployed.run() is not None
    assert_same_runs(deployed.out, folder / "simulated")
    return deployed


def assert_stops_do_no_harm(config: Config, folder: Path) -> None:
    """Run a config whole, and once more with two stops; compare the runs."""
    whole, cut = Deployed(config, folder / "one"), Deployed(config, folder / "two")
    assert whole.run() is not None
    for last in (2, 6):
        assert cut.run(watch=lambda row, last=last: row["round"] != last) is None  # type: ignore[misc]
        cut.restarted()
    assert cut.run() is not None
    assert_same_runs(cut.out, whole.out)


def crash_after(deployed: Deployed, round_index: int) -> None:
    """Let a server crash when all of a round is done but its checkpoint; the devices then meet a new one."""
    real = RunFolder.commit

    def commit(folder: RunFolder, checkpoint: RunCheckpoint) -> None:
        if checkpoint.round_index == round_index:
            raise Crash
        real(folder, checkpoint)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "commit", commit)
        with pytest.raises(Crash):
            deployed.run()
    deployed.restarted()


def _comparable(rows: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
    """Return lines of a log without what may differ, and what is not known."""

    def is_compared(key: str) -> bool:
        return key not in (*COSTS, *OMNISCIENT) and not any(word in key for word in ELSEWHERE)

    return [{key: one for key, one in row.items() if is_compared(key) and one is not None} for row in rows]


def assert_alike(found: Json, wanted: Json, where: str) -> None:
    """Compare two values: measured numbers to float tolerance, all else exactly."""
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        assert sorted(found) == sorted(wanted), f"{where}: {set(found) ^ set(wanted)}"
        for key, one in found.items():
            assert_alike(one, wanted[key], f"{where}: {key}")
    elif isinstance(found, list) and isinstance(wanted, list):
        assert len(found) == len(wanted), where
        for at, (one, other) in enumerate(zip(found, wanted, strict=True)):
            assert_alike(one, other, f"{where}[{at}]")
    elif isinstance(found, float) or isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=TOLERANCE, abs=TOLERANCE), where
    else:
        assert found == wanted, where
