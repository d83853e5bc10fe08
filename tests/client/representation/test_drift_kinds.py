"""Which kinds of drift each representation moves with, on windows that drift in one way only."""

import numpy as np
import numpy.typing as npt
import pytest

from fielding._typing import Counts, Matrix
from fielding.client.representation import REPRESENTATIONS, Representation, Seen, representation_named
from fielding.distance import metric_named
from fielding.rng import stream

N_CLASSES, N_FEATURES, PER_CLASS = 3, 5, 40
CENTERS = 2.0 * np.eye(N_CLASSES, N_FEATURES)

# Label mix with the same inputs by class; inputs by class with the same labels; two labels that swap their meaning.
SEES = {
    "label": (True, False, False),
    "label-smoothed": (True, False, False),
    "label-sqrt": (True, False, False),
    "embedding": (True, True, False),
    "residual-embedding": (False, True, False),
    "class-means": (False, True, True),
    "confusion": (False, True, True),
    "soft-confusion": (False, True, True),
    "predictions": (True, True, False),
    "gradient": (True, True, True),
    "head-gradient": (True, True, True),
    "class-directions": (True, True, True),
    "loss": (True, True, True),
}
# Small windows are trusted less, and how small they are by class changes with the mix.
UNSHRUNK: dict[str, dict[str, float]] = {
    name: {"shrink": 0.0} for name in ("class-means", "confusion", "soft-confusion", "loss")
}


def inputs_of(labels: Counts) -> npt.NDArray[np.float32]:
    """Return the features of samples: the first ones of a class are always the same, over and over."""
    noise = stream(0, "noise").standard_normal((N_CLASSES, PER_CLASS, N_FEATURES))
    order = np.zeros(labels.size, dtype=np.int64)
    for label in range(N_CLASSES):
        order[labels == label] = np.arange((labels == label).sum()) % PER_CLASS
    return (CENTERS[labels] + noise[labels, order]).astype(np.float32)


def window(features: npt.NDArray[np.float32], labels: Counts) -> Seen:
    """Return the window of one client on a shared model that knows the centers, and a bit too sure of class 0."""
    scores = (features @ CENTERS.T.astype(np.float32) + np.array([1.5, 0.0, 0.0], dtype=np.float32)).astype(np.float32)
    powers = np.exp(scores.astype(np.float64))
    errors = powers / powers.sum(axis=1, keepdims=True) - np.eye(N_CLASSES)[labels]

    def gradients() -> Matrix:
        return np.concatenate([(errors.T @ features).ravel(), errors.sum(axis=0)])[np.newaxis]

    return Seen(
        labels=labels,
        features=features,
        scores=scores,
        sizes=np.array([labels.size]),
        gradients=gradients,
        n_head=N_CLASSES * (N_FEATURES + 1),
    )


def labels_by(times: list[int]) -> Counts:
    return np.repeat(np.arange(N_CLASSES), np.array(times) * PER_CLASS)


EVEN = labels_by([1, 1, 1])
USUAL = window(inputs_of(EVEN), EVEN)
OTHER_MIX = window(inputs_of(labels_by([4, 1, 2])), labels_by([4, 1, 2]))
OTHER_INPUTS = window(inputs_of(EVEN) + np.array([0.0, 1.5, 0.5, 0.0, 0.0], dtype=np.float32), EVEN)
OTHER_MEANING = window(inputs_of(EVEN), np.array([1, 0, 2])[EVEN])


def distance(own: Representation, first: Seen, second: Seen) -> float:
    reference = own.tally(USUAL)[0]
    vectors = own.vectors(np.vstack([own.tally(first), own.tally(second)]), reference)
    return float(metric_named(own.metric).between(vectors[:1], vectors[1:])[0, 0])


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_it_moves_with_what_it_sees_and_with_nothing_else(name: str) -> None:
    own = representation_named(name, UNSHRUNK.get(name))

    moves = [distance(own, USUAL, drifted) for drifted in (OTHER_MIX, OTHER_INPUTS, OTHER_MEANING)]

    for move, sees in zip(moves, SEES[name], strict=True):
        assert move > 0.02 if sees else move < 1e-6


@pytest.mark.parametrize("name", ["residual-embedding", "class-means", "confusion", "soft-confusion"])
def test_what_a_displaced_client_shows_does_not_depend_on_its_label_mix(name: str) -> None:
    own = representation_named(name, UNSHRUNK.get(name))
    shift = np.array([0.0, 1.5, 0.5, 0.0, 0.0], dtype=np.float32)
    even, skewed = (window(inputs_of(labels) + shift, labels) for labels in (EVEN, labels_by([4, 1, 2])))

    assert distance(own, even, skewed) < 1e-6


@pytest.mark.parametrize("name", ["class-means", "confusion", "soft-confusion"])
def test_shrinking_lets_little_of_the_label_mix_in(name: str) -> None:
    own = representation_named(name)

    assert distance(own, USUAL, OTHER_MIX) < 0.02 * distance(own, USUAL, OTHER_MEANING)


def test_residual_of_a_shift_is_the_shift() -> None:
    own = representation_named("residual-embedding")
    vector = own.vectors(own.tally(OTHER_INPUTS), own.tally(USUAL)[0])[0]

    assert np.allclose(vector[:N_FEATURES], [0.0, 1.5, 0.5, 0.0, 0.0], atol=1e-5)


def test_a_combination_sees_what_its_parts_see() -> None:
    own = representation_named("label+confusion")

    assert all(distance(own, USUAL, drifted) > 0.02 for drifted in (OTHER_MIX, OTHER_INPUTS, OTHER_MEANING))


def test_a_swap_under_a_skewed_mix_looks_like_label_drift_to_the_histogram_alone() -> None:
    """METHODS.md B13: the histogram reacts, wrongly."""
    skewed = labels_by([4, 1, 2])
    swapped = window(inputs_of(skewed), np.array([1, 0, 2])[skewed])
    own = representation_named("label")

    assert distance(own, OTHER_MIX, swapped) == pytest.approx(2 * abs(4 / 7 - 1 / 7))
