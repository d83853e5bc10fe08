from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.rng import stream
from fielding.traces.diagnosis import count_shift, input_shift


def deals(n_samples: int, n_second: int) -> list[np.ndarray]:
    """Return all ways to choose who is in the second group."""
    masks = []
    for chosen in combinations(range(n_samples), n_second):
        mask = np.zeros(n_samples, dtype=np.bool_)
        mask[list(chosen)] = True
        masks.append(mask)
    return masks


def test_the_mean_over_all_ways_to_deal_is_what_sampling_gives() -> None:
    features = stream(0, "measures").normal(size=(7, 3)) ** 3
    seen = np.array([0, 0, 1, 1, 2, 2, 2])
    one_class = np.zeros(7, dtype=np.int64)

    for n_second in (1, 3, 4):
        inputs = [input_shift(features, one_class, mask) for mask in deals(7, n_second)]
        counts = [count_shift(seen, one_class, mask) for mask in deals(7, n_second)]
        np.testing.assert_allclose(np.array([inputs, counts], dtype=np.float64).mean(axis=1), 1.0, rtol=1e-9)


def test_by_hand() -> None:
    # Class 0: means 0 and 4, spread of 0, 0, 4, 4 is 16 / 3; so 16 * 1 / (16 / 3) = 3. Class 1 has one side only.
    features = np.array([[0.0], [0.0], [4.0], [4.0], [9.0]])
    classes, is_second = np.array([0, 0, 0, 0, 1]), np.array([False, False, True, True, True])

    assert input_shift(features, classes, is_second) == pytest.approx(3.0)


@given(seed=st.integers(0, 1000), shift=st.floats(-100.0, 100.0))
def test_neither_where_features_lie_nor_their_unit_matters_and_it_is_bounded(seed: int, shift: float) -> None:
    rng = stream(seed, "measures")
    features, classes = rng.normal(size=(20, 4)), rng.integers(3, size=20)
    is_second = np.arange(20) >= 8

    found = input_shift(features, classes, is_second)
    moved = input_shift(features * 7.0 + shift, classes, is_second)

    if found is None or moved is None:
        assert found is moved
    else:
        assert moved == pytest.approx(found, rel=1e-6)
        assert 0.0 <= found <= 19.0


def test_another_label_mix_alone_is_no_shift_within_labels() -> None:
    rng = stream(1, "measures")
    found = []
    for _ in range(400):
        classes = np.concatenate([rng.random(20) < 0.8, rng.random(20) < 0.3]).astype(np.int64)
        features = classes[:, np.newaxis] * 5.0 + rng.normal(size=(40, 6))
        predicted = np.where(rng.random(40) < 0.2, 1 - classes, classes)
        is_second = np.arange(40) >= 20
        found.append([input_shift(features, classes, is_second), count_shift(predicted, classes, is_second)])

    np.testing.assert_allclose(np.array(found, dtype=np.float64).mean(axis=0), 1.0, atol=0.15)


def test_shifts_of_opposite_direction_in_two_classes_do_not_cancel() -> None:
    rng, is_second = stream(2, "measures"), np.tile([False, True], 20)
    classes = np.repeat([0, 1], 20)
    features = rng.normal(size=(40, 2)) + np.where(is_second, np.where(classes, 3.0, -3.0), 0.0)[:, np.newaxis]

    shift = input_shift(features, classes, is_second)

    assert shift is not None
    assert shift > 5.0


def test_what_never_varies_is_as_chance_has_it() -> None:
    is_second = np.array([False, False, True, True])

    assert input_shift(np.ones((4, 2)), np.zeros(4, dtype=np.int64), is_second) == 1.0
    assert count_shift(np.zeros(4, dtype=np.int64), np.zeros(4, dtype=np.int64), is_second) == 1.0


def test_without_a_class_on_both_sides_there_is_nothing_to_tell() -> None:
    classes, is_second = np.array([0, 0, 0, 0, 1, 1, 1, 1]), np.arange(8) >= 4

    assert input_shift(np.eye(8), classes, is_second) is None
    assert count_shift(np.arange(8), classes, is_second) is None
