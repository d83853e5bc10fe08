"""The eight scenarios, and what all runs on one share."""

from dataclasses import dataclass

from experiments.peers.benchmarks import SCENARIO
from experiments.tables import Table
from fielding._typing import Json

LOCAL: Table = {"local_steps": 10, "batch_size": 20, "momentum": 0.9, "learning_rate": 0.05, "participants": 20}
HELD_OUT: Table = {"held_out": 200}
"""Samples of each class that no client gets, whatever the method, so that all train and are tested on the same data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Data that drift, and how clients train on them.

    Parameters
    ----------
    name
        For commands, folders and tables.
    trace, training
        Sections that all rows share.
    rounds, hidden
        How many, and hidden units of the model.
    """

    name: str
    trace: Table
    training: Table
    rounds: int
    hidden: int


def _fashion(name: str, **options: Json) -> Scenario:
    trace: Table = {"name": "fashion_mnist", "scenario": name, **SCENARIO, **HELD_OUT, **options}
    return Scenario(name=name, trace=trace, training=LOCAL, rounds=160, hidden=64)


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
                **HELD_OUT,
            },
            training={**LOCAL, "participants": 40, "learning_rate": 0.4},
            rounds=240,
            hidden=32,
        ),
        Scenario(
            name="extrasensory",
            trace={
                "name": "extrasensory",
                "interval": "6h",
                "gap": 10,
                "window": 40,
                "align": "client",
                **HELD_OUT,
            },
            training={**LOCAL, "participants": 12},
            rounds=200,
            hidden=64,
        ),
    )
}
"""By name."""


def base_table(scenario: Scenario) -> Table:
    """Return what all runs on a scenario share.

    Every row keeps count of the label mixes that its models were trained on, so that the raw and the corrected accuracy
    come from the same run.
    """
    return {
        "rounds": scenario.rounds,
        "workers": 1,
        "trace": dict(scenario.trace),
        "model": {"name": "mlp", "hidden": scenario.hidden},
        "training": dict(scenario.training),
        "serving": {"correction": "prior"},
    }
