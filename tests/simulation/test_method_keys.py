"""A key that a method is said not to use changes no line of its log."""

from functools import cache

import pytest

from fielding._typing import Json
from fielding.comparing.variants import Settings, uses_key, with_settings
from fielding.config.keys import KEYS
from fielding.methods import METHODS
from fielding.simulation.experiment import run

BASE: dict[str, Json] = {
    "rounds": 4,
    "trace": {"clients": 10, "gap": 2, "window": 4, "samples": 12},
    "model": {"hidden": 4},
    "training": {"participants": 8, "local_steps": 2, "batch_size": 5},
    "coordinator": {"participants_per_cluster": 2},
    "evaluation": {"every": 2},
}
OTHERWISE: Settings = {
    "coordinator.trigger": "pairwise",
    "coordinator.tau": 0.01,
    "coordinator.reference": "last-global",
    "coordinator.noise_floor": True,
    "coordinator.delta_step": 0.5,
    "coordinator.delta_rule": "min",
    "coordinator.partitioner": "k-center",
    "coordinator.k_max": 2,
    "coordinator.k_choice": "finest",
    "coordinator.participants_per_cluster": 1,
    "coordinator.hysteresis": 0.3,
    "coordinator.warm_start": True,
    "coordinator.robust": False,
    "coordinator.inherit": "majority",
    "coordinator.metric": "js",
    "coordinator.detector": "any-change",
    "coordinator.reports": "with-training",
}
"""Every key of the coordinator that changes something for somebody, with another value."""


@cache
def usual(method: str) -> list[dict[str, Json]]:
    return rows(method, {})


def rows(method: str, settings: Settings) -> list[dict[str, Json]]:
    return run(with_settings(BASE, {"method.name": method, **settings})).rounds


def test_every_key_about_grouping_is_tried() -> None:
    assert {path for path, key in KEYS.items() if key.rule.used_by is not None} <= set(OTHERWISE)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_keys_that_a_method_does_not_use_change_nothing(method: str) -> None:
    unused = {key: value for key, value in OTHERWISE.items() if not uses_key(method, key)}

    if method not in ("fielding", "selected"):
        assert unused
    assert rows(method, unused) == usual(method)


@pytest.mark.parametrize("method", ["fielding", "selected", "moves", "static", "always"])
def test_some_of_the_keys_that_a_method_uses_change_something(method: str) -> None:
    used = {key: value for key, value in OTHERWISE.items() if uses_key(method, key)}

    assert rows(method, used) != usual(method)


@pytest.mark.parametrize("method", sorted(name for name, kind in METHODS.items() if kind.reports_from == "nobody"))
def test_who_hears_nobody_does_not_care_how_windows_are_described(method: str) -> None:
    settings: Settings = {"coordinator.representation": "embedding"}

    assert not uses_key(method, "coordinator.representation", values=["embedding"])
    assert rows(method, settings) == usual(method)
