"""Who takes turns on Flower's nodes, and the app of each: a folder as `flwr run` takes it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tomli_w

from fielding._typing import Json
from fielding.bench.fedavg_app import DEADLINE_S
from fielding.bench.shared_work import BATCH_SIZE, LEARNING_RATE, N_CLASSES, N_FEATURES, N_STEPS, SEED, SharedWork

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
    """

    name: str
    engine: Literal["fedavg", "fielding"]
    share: float = 1.0
    tests: bool = True
    is_lean: bool = False

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
        code = f"from fielding.bench.{contender.engine}_app import {side}_app\n\napp = {side}_app()\n"
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
