"""Who takes turns on Flower's nodes, and the app of each: a folder as `flwr run` takes it."""

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import tomli_w

from benchmarks.fedavg_app import DEADLINE_S
from benchmarks.shared_work import BATCH_SIZE, LEARNING_RATE, N_CLASSES, N_FEATURES, N_STEPS, SEED, SharedWork
from benchmarks.traffic import END, PUSH, Exchanges, cost_of, exchanges_of, ratio_of
from fielding import _version
from fielding._typing import Json
from fielding.flower.deploy.processes import ProcessError
from fielding.reporting.numbers.run_record import LogReader

_PACKAGE = "bench_app"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One of those that take turns.

    Parameters
    ----------
    name
        In tables.
    engine
        Whose app it is.
    share
        Of the nodes that train in a round.
    tests
        Whether models are tested on the nodes, after the rounds in which Fielding does that; Fielding always does.
    is_lean
        FedAvg: one array for the whole model, and replies asked for as often as Fielding does.
    method
        Fielding: as in configs.
    """

    name: str
    engine: Literal["fedavg", "fielding"]
    share: float = 1.0
    tests: bool = True
    is_lean: bool = False
    method: str = "fielding"

    def n_trained(self, n_nodes: int) -> int:
        """Return how many nodes train in a round."""
        return max(1, int(self.share * n_nodes))


FEDAVG = Contender(name="FedAvg", engine="fedavg")
LEAN = Contender(name="FedAvg, lean", engine="fedavg", is_lean=True)
UNTESTED = Contender(name="FedAvg, no tests", engine="fedavg", tests=False)
FIELDING = Contender(name="Fielding", engine="fielding")
FEDAVG_HALF = Contender(name="FedAvg, half", engine="fedavg", share=0.5)
FIELDING_HALF = Contender(name="Fielding, half", engine="fielding", share=0.5)
CONTENDERS = (FEDAVG, FIELDING, LEAN, FEDAVG_HALF, FIELDING_HALF, UNTESTED)
"""In the order of their turns."""
PAIRS = ((FIELDING, FEDAVG), (FIELDING, LEAN), (FIELDING_HALF, FEDAVG_HALF))
"""Who is held against whom: contenders that train and test as often as each other."""


def run_config(contender: Contender, work: SharedWork, n_nodes: int, out: Path) -> dict[str, Json]:
    """Return the run config of a contender, as tables.

    Parameters
    ----------
    contender
        Who runs.
    work
        What all do alike.
    n_nodes
        How many nodes there are.
    out
        The run folder, an absolute path; what goes over the grid is written beside it.
    """
    n_trained = contender.n_trained(n_nodes)
    return {
        "out": str(out),
        "log": str(log_of(out)),
        "classes": N_CLASSES,
        "shape": str(N_FEATURES),
        "min-nodes": n_nodes,
        "deadline": DEADLINE_S,
        "rounds": work.n_rounds,
        "seed": SEED,
        "tests": contender.tests,
        "lean": contender.is_lean,
        "trace": {"gap": work.gap, "window": work.gap},
        "method": {"name": contender.method},
        "model": {"hidden": work.hidden},
        "training": {
            "participants": n_trained,
            "local_steps": N_STEPS,
            "batch_size": BATCH_SIZE,
            "learning_rate": LEARNING_RATE,
            "prox": 0.0,
            "weighted": True,
        },
        "coordinator": {"k_max": 2, "participants_per_cluster": 1},
        "clock": {"overcommit": 1.0},
        "evaluation": {"every": work.gap},
    }


def log_of(out: Path) -> Path:
    """Return where a contender writes what went over its grid."""
    return out.with_name(f"{out.name}.jsonl")


def write_app(folder: Path, contender: Contender, config: dict[str, Json]) -> Path:
    """Write the app of a contender into a new folder and return it; its code is in this package, on every node."""
    package = folder / _PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    for side in ("server", "client"):
        code = f"from benchmarks.{contender.engine}_app import {side}_app\n\napp = {side}_app()\n"
        (package / f"{side}_app.py").write_text(code, encoding="utf-8")
    table = {
        "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
        "project": {"name": f"bench-{contender.engine}", "version": "1.0.0", "license": "Apache-2.0"},
        "tool": {
            "hatch": {"build": {"targets": {"wheel": {"packages": [_PACKAGE]}}}},
            "flwr": {
                "app": {
                    "publisher": "fielding",
                    "fab-include": [f"{_PACKAGE}/**/*.py"],
                    "components": {
                        "serverapp": f"{_PACKAGE}.server_app:app",
                        "clientapp": f"{_PACKAGE}.client_app:app",
                    },
                    "config": config,
                }
            },
        },
    }
    (folder / "pyproject.toml").write_text(tomli_w.dumps(table), encoding="utf-8")
    return folder


if TYPE_CHECKING:
    from fielding.flower.deploy.federation import LocalFederation
    from fielding.flower.deploy.flower_program import RunState


class Federation(Protocol):
    """Where apps run."""

    def state(self, run_id: str) -> "RunState":
        """Return how a run is doing."""
        ...

    def log_lines(self, run_id: str) -> list[str]:
        """Return what the server's side of a run has logged so far."""
        ...


Show = Callable[[str, int], None]
"""Told what is going on, and how many rounds more are done."""
_LOOK_S = 0.5
_PATIENCE_S = 60.0
"""Seconds without news after which the SuperLink is asked: that costs a second of a core, which rounds would feel."""
_LAST_LINES = 5


def compare_deployments(
    n_nodes: int,
    works: Sequence[SharedWork],
    *,
    repeat: int = 1,
    show: Show = lambda _words, _done: None,
    contenders: Sequence[Contender] = CONTENDERS,
) -> dict[str, Json]:
    """Let contenders take turns on a federation that lives as long as this call, and return what each one costs.

    Parameters
    ----------
    n_nodes
        SuperNodes on this machine.
    works
        What they do, one after the other: models of several sizes.
    repeat
        Turns of each contender with each of them.
    show
        Told how it comes along.
    contenders
        Who takes part.

    Returns
    -------
    ``costs`` and ``ratios``, a record for each contender or pair and each of the works.
    """
    from fielding.flower.deploy.federation import LocalFederation

    measured: dict[tuple[Contender, SharedWork], list[tuple[Exchanges, RunState]]] = {
        (contender, work): [] for work in works for contender in contenders
    }
    with tempfile.TemporaryDirectory(prefix="fielding-bench-") as scratch:
        show(f"starting a SuperLink and {n_nodes} nodes", 0)
        with LocalFederation(Path(scratch) / "federation", n_nodes, environment=code_paths()) as federation:
            for turn in range(repeat):
                for number, ((contender, work), turns) in enumerate(measured.items()):
                    place = Path(scratch).resolve() / f"turn-{turn}-{number}"
                    words = f"{contender.name}, {work.n_numbers} numbers, turn {turn + 1} of {repeat}"
                    turns.append(run_once(federation, contender, work, place=place, show=partial(show, words)))
            show("stopping", 0)
    return _record(measured)


def code_paths() -> dict[str, str]:
    """Return where the apps find this package, and the same Fielding as this process."""
    roots = [str(Path(file).resolve().parent.parent) for file in (__file__, _version.__file__)]
    return {"PYTHONPATH": os.pathsep.join(roots)}


def run_once(
    federation: "LocalFederation",
    contender: Contender,
    work: SharedWork,
    *,
    place: Path,
    show: Callable[[int], None] = lambda _done: None,
) -> "tuple[Exchanges, RunState]":
    """Run the app of a contender, and return what went over its grid and what the SuperLink counted.

    Parameters
    ----------
    federation
        Where it runs.
    contender
        Whose app it is.
    work
        What it does.
    place
        A new folder, by an absolute path.
    show
        Told how many rounds more have begun.
    """
    out = place / "run"
    config = run_config(contender, work, federation.n_nodes, out)
    run_id = federation.run_app(write_app(place / "app", contender, config))
    rows = wait_for_end(federation, run_id, log_of(out), show)
    return exchanges_of(rows), _ended(federation, run_id)


def wait_for_end(
    federation: Federation, run_id: str, log: Path, show: Callable[[int], None] = lambda _done: None
) -> Sequence[Mapping[str, Any]]:
    """Wait until a contender has written down its end, and return its log; raise if its run failed.

    ``show`` is told how many rounds more have begun.
    """
    reader, seen, heard_at = LogReader(), 0, time.monotonic()
    while True:
        rows = reader.lines(log).rows
        if len(rows) > seen:
            show(sum(row["what"] == PUSH and "train" in row["messages"] for row in rows[seen:]))
            seen, heard_at = len(rows), time.monotonic()
        elif time.monotonic() - heard_at > _PATIENCE_S:
            _checked_state(federation, run_id)
            heard_at = time.monotonic()
        if rows and rows[-1]["what"] == END:
            return rows
        time.sleep(_LOOK_S)


def _ended(federation: Federation, run_id: str) -> "RunState":
    """Return the last state of a run whose work is done."""
    while not (state := _checked_state(federation, run_id)).is_completed:
        time.sleep(_LOOK_S)
    return state


def _checked_state(federation: Federation, run_id: str) -> "RunState":
    """Return how a run is doing, or raise if it has failed; the message has the last lines of its log."""
    state = federation.state(run_id)
    if state.is_ended and not state.is_completed:
        said = " / ".join(federation.log_lines(run_id)[-_LAST_LINES:])
        raise ProcessError(f"the run ended as {state.status}; it said: {said}")
    return state


def _record(measured: "Mapping[tuple[Contender, SharedWork], Sequence[tuple[Exchanges, RunState]]]") -> dict[str, Json]:
    """Return what was measured, and who is how much above whom."""
    costs = {
        (contender, work): cost_of(contender.name, work.n_numbers, turns)
        for (contender, work), turns in measured.items()
    }
    ratios = [
        ratio_of(cost, costs[against, work])
        for (contender, work), cost in costs.items()
        for one, against in PAIRS
        if one == contender and (against, work) in costs
    ]
    return {"costs": [asdict(cost) for cost in costs.values()], "ratios": [asdict(ratio) for ratio in ratios]}
