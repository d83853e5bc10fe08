"""A problem with a known answer, given as a file that knows clients and times: who has to solve it, and who cannot."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from experiments.planted import planted_trace
from fielding.simulation.experiment import Result, run
from fielding.traces.trace import write_trace
from tests.rotation import some_of

SEEDS = [1, pytest.param(2, marks=pytest.mark.slow)]
BEFORE = range(40, 50)  # the rounds in which all models are trained, and all clients mean what they meant at the start
ROWS: dict[str, dict[str, Any]] = {
    "oracle": {"method": {"name": "oracle"}},
    "local": {"method": {"name": "local"}},
    "static": {"method": {"name": "static"}},
    "gradients": {"coordinator": {"representation": "gradient"}},
    "class means": {"coordinator": {"representation": "class-means"}},
    "auto": {"coordinator": {"representation": "auto"}},
    "auto with a pool": {"coordinator": {"representation": "auto", "shared_model": "pool"}},
    "labels": {},
    "labels at any change": {"coordinator": {"detector": "any-change"}},
}


@cache
def solved(name: str, seed: int) -> Result:
    """Return the run of a row; 48 training samples in a window, which is full of the new meanings from round 70 on."""
    with TemporaryDirectory(prefix="fielding-") as folder:
        path = Path(folder) / "planted.npz"
        write_trace(planted_trace(seed=seed), path)
        config = {
            "seed": seed,
            "rounds": 100,
            "trace": {"file": str(path), "interval": "1h", "gap": 5, "window": 20},
            "training": {"learning_rate": 0.1},
            "evaluation": {"every": 2},
            **ROWS[name],
        }
        return run(config)


def final(name: str, seed: int) -> float:
    summary = solved(name, seed).summary or {}
    return float(str(summary["final_accuracy"]))


def gradients_are_worth_as_much_as_the_truth(seed: int) -> None:
    assert_as_good_as_the_truth("gradients", seed)


def class_means_are_worth_as_much_as_the_truth(seed: int) -> None:
    assert_as_good_as_the_truth("class means", seed)


def assert_as_good_as_the_truth(name: str, seed: int) -> None:
    found = [final("oracle", seed), final(name, seed)]

    assert max(found) - min(found) <= 0.02
    assert min(found) >= final("local", seed) + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_auto_is_worth_as_much_as_the_truth(seed: int) -> None:
    assert final("auto", seed) >= final("oracle", seed) - 0.02


def clusters_that_never_change_fall_behind_when_meanings_do(seed: int) -> None:
    accuracies = dict(zip(*solved("static", seed).column("accuracy"), strict=True))
    before = [accuracy for at, accuracy in accuracies.items() if at in BEFORE]

    assert final("static", seed) <= sum(before) / len(before) - 0.2


@pytest.mark.slow
def test_a_pool_of_labels_that_contradict_each_other_is_told() -> None:
    (note,) = solved("auto with a pool", 1).notes

    assert note.startswith("the shared model gets ")
    assert note.endswith('may contradict each other: try coordinator.shared_model = "global"')
    assert solved("auto", 1).notes == ()


def label_clusters_lose_little_by_reporting_only_drift(seed: int) -> None:
    assert final("labels", seed) >= final("labels at any change", seed) - 0.02


CLAIMS: dict[str, Callable[[int], None]] = {
    claim.__name__: claim
    for claim in (
        gradients_are_worth_as_much_as_the_truth,
        class_means_are_worth_as_much_as_the_truth,
        clusters_that_never_change_fall_behind_when_meanings_do,
        label_clusters_lose_little_by_reporting_only_drift,
    )
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("claim", some_of(CLAIMS, 1))
def test_on_planted_meanings(claim: str, seed: int) -> None:
    CLAIMS[claim](seed)
