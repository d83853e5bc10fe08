"""The eight scenarios that ``auto`` was made on, six that nothing was chosen on, and what all runs on one share."""

import os
from dataclasses import dataclass
from pathlib import Path

from experiments.peers.benchmarks import SCENARIO
from experiments.tables import Table
from fielding._typing import Json

LOCAL: Table = {"local_steps": 10, "batch_size": 20, "momentum": 0.9, "learning_rate": 0.05, "participants": 20}
UNSEEN_FOLDER = Path(os.environ.get("FIELDING_UNSEEN", "runs/unseen"))
"""Folder that ``python -m experiments.beyond.unseen`` wrote its two traces to."""


FOLDS: Table = {"fold": "seed"}
"""Of natural traces: every seed tests other blocks of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Data that drift, and how clients train on them.

    Parameters
    ----------
    name
        For commands, folders and tables.
    trace, training
        Sections that all rows share.
    rounds, every
        How many, and how many from one evaluation to the next.
    model
        What is trained.
    takes_long
        Whether a run takes minutes: it is scored on fewer seeds.
    """

    name: str
    trace: Table
    training: Table
    rounds: int
    model: Table
    every: int = 10
    takes_long: bool = False


def _mlp(hidden: int) -> Table:
    return {"name": "mlp", "hidden": hidden}


def _fashion(name: str, **options: Json) -> Scenario:
    trace: Table = {"name": "fashion_mnist", "scenario": name, **SCENARIO, **options}
    return Scenario(name=name, trace=trace, training=LOCAL, rounds=160, model=_mlp(64))


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        _fashion("places"),
        _fashion("label-buckets"),
        _fashion("covariate"),
        _fashion("concept-swap", concepts=3, swaps=2, alpha=0.5, share=0.2),
        _fashion("mixed"),
        _fashion("static"),
        Scenario(
            name="zephyr",
            trace={
                "name": "zephyr",
                "interval": "7d",
                "gap": 2,
                "window": 52,
                "last": "1050d",
                "clients": 302,
                **FOLDS,
            },
            training={**LOCAL, "participants": 40, "learning_rate": 0.4},
            rounds=240,
            model=_mlp(32),
            takes_long=True,
        ),
        Scenario(
            name="extrasensory",
            trace={"name": "extrasensory", "interval": "6h", "gap": 10, "window": 40, "align": "client", **FOLDS},
            training={**LOCAL, "participants": 12},
            rounds=200,
            model=_mlp(64),
        ),
    )
}
"""By name; parts of ``auto`` and their constants were chosen by what other seeds showed on these."""
UNSEEN: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="flights",
            trace={"file": str(UNSEEN_FOLDER / "flights.npz"), "interval": "7d", "gap": 4, "window": 16, **FOLDS},
            training=LOCAL,
            rounds=180,
            model=_mlp(32),
            takes_long=True,
        ),
        Scenario(
            name="summer-time",
            trace={
                "file": str(UNSEEN_FOLDER / "summer_time.npz"),
                "interval": "365d",
                "gap": 4,
                "window": 16,
                "clients": 120,
                **FOLDS,
            },
            training=LOCAL,
            rounds=180,
            model=_mlp(32),
        ),
        Scenario(
            name="cifar-places",
            trace={"name": "cifar100", "scenario": "places", **SCENARIO, "clients": 50},
            training=LOCAL,
            rounds=160,
            model=_mlp(64),
        ),
        _fashion("dirichlet"),
    )
}
"""By name; nothing was chosen on these."""
_CIFAR: Table = {"name": "cifar100", "scenario": "places", **SCENARIO}
TORCH: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="cifar-cnn",
            trace={**_CIFAR, "clients": 50},
            training={**LOCAL, "trainer": "torch"},
            rounds=200,
            model={"name": "cnn"},
            takes_long=True,
        ),
        Scenario(
            name="cifar-resnet18",  # as many samples a round, and evaluations, as two cores can take
            trace={**_CIFAR, "clients": 30},
            training={**LOCAL, "trainer": "torch", "participants": 6, "local_steps": 3},
            rounds=200,
            model={"factory": "experiments.beyond.networks:resnet18"},
            every=20,
            takes_long=True,
        ),
    )
}
"""By name: images, and networks that only torch can train."""
ALL: dict[str, Scenario] = {**SCENARIOS, **UNSEEN, **TORCH}


def base_table(scenario: Scenario) -> Table:
    """Return what all runs on a scenario share; clients of every method are served by the best of their experts."""
    return {
        "rounds": scenario.rounds,
        "workers": 1,
        "trace": dict(scenario.trace),
        "model": dict(scenario.model),
        "evaluation": {"every": scenario.every},
        "training": dict(scenario.training),
        "serving": {"experts": "auto"},
    }
