"""Runs on real federations of this machine: start one, wait for rounds, and what must be true of what is left."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

import fielding
from fielding.errors import CheckpointError, InputError
from fielding.flower.deploy.federation import LocalFederation
from fielding.flower.deploy.flower_program import RunState, Value
from fielding.records.logs import read_lines
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import LOGS, REPORTS, ROUNDS, SUMMARY, TIMINGS, newest_checkpoint

APP = Path(__file__).resolve().parent / "scripted_app"
PATIENCE_S, ASK_S, LOOK_S = 280.0, 20.0, 0.05
needs_flwr = pytest.mark.skipif(
    find_spec("flwr") is None, reason="flwr is not installed; run: pip install 'fielding[flower]'"
)


def here() -> dict[str, str]:
    """Return what processes of a federation must know to find the code under test, installed or not."""
    return {"PYTHONPATH": str(Path(fielding.__file__).resolve().parents[1])}


def scripted_federation(folder: Path, n_nodes: int, **script: Value) -> LocalFederation:
    """Return a federation whose nodes do what a script says; see ``scripted_app/scripted/client_app.py``."""
    return LocalFederation(folder, n_nodes, environment=here(), node_config={"script-dir": str(folder), **script})


def wait_until(is_true: Callable[[], bool], what: str, *, within_s: float = PATIENCE_S) -> None:
    """Wait for something that has to come."""
    give_up = time.monotonic() + within_s
    while not is_true():
        if time.monotonic() > give_up:
            raise TimeoutError(f"{what}: not within {within_s:g} s")
        time.sleep(LOOK_S)


def ended(federation: LocalFederation, run_id: str, out: Path) -> RunState:
    """Return the last state of a run; asking costs a second of a core, so the run folder is looked at instead."""
    give_up, asked = time.monotonic() + PATIENCE_S, time.monotonic()
    while time.monotonic() < give_up:
        if (out / SUMMARY).exists() or time.monotonic() - asked > ASK_S:
            state, asked = federation.state(run_id), time.monotonic()
            if state.is_ended:
                return state
        time.sleep(0.5)
    raise TimeoutError("\n".join(federation.log_lines(run_id)[-20:]))


def n_rounds(out: Path) -> int:
    """Return how many rounds a run has committed so far."""
    try:
        return int(newest_checkpoint(out).stem) + 1
    except InputError:
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What a run can never lose: the bytes of its logs, and of its files of reports, up to its last checkpoint."""

    n_rounds: int
    logs: Mapping[str, bytes]
    reports: Mapping[str, bytes]

    def lost_in(self, out: Path) -> list[str]:
        """Return the files of a folder that lack some of it."""
        lost = [name for name, known in self.logs.items() if not (out / name).read_bytes().startswith(known)]
        return lost + [name for name, known in self.reports.items() if (out / REPORTS / name).read_bytes() != known]


def committed(out: Path) -> Committed:
    """Return what a run has committed so far; it may be going on."""
    for _ in range(100):
        try:
            newest = load_run(newest_checkpoint(out))
        except (CheckpointError, InputError, OSError):  # a newer one took its place, or there is none yet
            if not n_rounds(out):
                return Committed(n_rounds=0, logs={}, reports={})
            continue
        sizes = {name: int(str(newest.progress[name])) for name in LOGS if name != TIMINGS}
        return Committed(
            n_rounds=newest.round_index + 1,
            logs={name: (out / name).read_bytes()[:size] for name, size in sizes.items()},
            reports={
                path.name: path.read_bytes()
                for path in (out / REPORTS).glob("*.npz")
                if int(path.stem) <= newest.round_index
            },
        )
    raise TimeoutError(f"no whole checkpoint in {out}")


def round_seconds(out: Path) -> float:
    """Return how long the last round of a run took, for those who want to disturb the next one in its middle."""
    ends = [0.0, *(float(str(row["time_s"])) for row in read_lines(out / ROUNDS))]
    return max(ends[-1] - ends[-2], 0.1) if len(ends) > 1 else 1.0
