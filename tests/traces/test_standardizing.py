import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.traces.pool import Pool, measure_spread, scale_note, standardize


def pool_of(x: np.ndarray) -> Pool:
    return Pool(x=x, y=np.zeros(x.shape[0], dtype=np.int32), classes=("a",))


def all_of(pool: Pool) -> np.ndarray:
    return np.arange(len(pool))


def test_features_are_measured_on_the_given_samples_alone() -> None:
    x = np.array([[80.0, 0.0], [100.0, 2.0], [9000.0, 1.0]])

    scaled = standardize(pool_of(x), np.array([0, 1])).features(np.arange(3))

    assert scaled[:2].tolist() == [[-1.0, -1.0], [1.0, 1.0]]
    assert scaled[2].tolist() == [891.0, 0.0]


def test_a_constant_feature_is_only_shifted() -> None:
    x = np.stack([np.full(1001, 0.1), np.arange(1001.0)], axis=1)
    x[1000, 0] = 0.6

    scaled = standardize(pool_of(x), np.arange(1000)).features(np.array([0, 1000]))

    assert scaled[:, 0].tolist() == [0.0, 0.5]


def test_what_float32_cannot_hold_is_told_apart_after_the_shift() -> None:
    pool = pool_of(1.7e9 + np.array([[0.0], [1.0], [2.0]]))

    assert np.unique(standardize(pool, np.arange(3)).features(np.arange(3))).size == 3


@given(st.integers(0, 1000), st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_mean_and_spread_become_0_and_1_wherever_they_were(seed: int, mean: float, spread: float) -> None:
    pool = pool_of(mean + spread * np.random.default_rng(seed).standard_normal((50, 3)))

    scaled = standardize(pool, all_of(pool)).features(all_of(pool)).astype(np.float64)

    assert np.abs(scaled.mean(axis=0)).max() < 1e-4
    assert scaled.std(axis=0) == pytest.approx(np.ones(3), abs=1e-4)


def test_images_have_one_scale_per_channel() -> None:
    x = np.random.default_rng(0).integers(0, 256, (20, 4, 4, 3)).astype(np.uint8)

    mean, spread = measure_spread(pool_of(x), np.arange(20))
    scaled = standardize(pool_of(x), np.arange(20)).features(np.arange(20))

    assert mean == pytest.approx(x.mean(axis=(0, 1, 2)))
    assert spread == pytest.approx(x.std(axis=(0, 1, 2)))
    assert scaled.std(axis=(0, 1, 2)) == pytest.approx(np.ones(3), abs=1e-5)
    assert measure_spread(pool_of(x[..., 0]), np.arange(20))[0] == pytest.approx(x[..., 0].mean())


def test_without_a_sample_to_look_at_nothing_changes() -> None:
    pool = pool_of(np.ones((2, 1)))

    assert standardize(pool, np.arange(0)) is pool
    assert scale_note(pool, np.arange(0)) is None


RNG = np.random.default_rng(3)
NORMAL = RNG.standard_normal((200, 3))
RARE = np.where(RNG.random((200, 2)) < [0.5, 0.02], [1.0, 1e-4], 0.0)


@pytest.mark.parametrize(
    ("x", "is_odd"),
    [
        (NORMAL, False),
        (NORMAL * [1.0, 30.0, 1.0], True),  # large numbers
        (NORMAL * [1.0, 0.001, 1.0], True),  # one drowns beside the others
        (NORMAL * 0.01 + [0.9, 0.0, 0.0], True),  # far from 0 for its spread
        (np.hstack([NORMAL, np.full((200, 1), 3.0)]), False),  # a constant does no harm
        (np.hstack([NORMAL, RARE]), False),  # rare words are no matter of scale
        ((NORMAL * 20 + 128).clip(0, 255).astype(np.uint8), False),  # bytes are scaled anyway
        ((NORMAL * 20 + 128).astype(np.int64), True),
        ((NORMAL * 99).reshape(200, 1, 3), False),
    ],
)
def test_a_user_is_told_of_scales_that_keep_models_from_learning(x: np.ndarray, is_odd: bool) -> None:
    note = scale_note(pool_of(x), np.arange(200))

    assert (note is not None) == is_odd
    assert note is None or "set trace.standardize = true" in note


def test_the_note_names_the_largest_feature_and_the_one_that_drowns() -> None:
    note = scale_note(pool_of(NORMAL * [1.0, 15.0, 0.5] + [0.0, 80.0, 0.0]), np.arange(200))

    assert note is not None
    assert "feature 2 of 3 lies around 81" in note
    assert "feature 3 around" in note


def test_a_pool_that_is_standardized_gets_no_note() -> None:
    pool = pool_of(NORMAL * 1000.0)

    assert scale_note(pool, all_of(pool)) is not None
    assert scale_note(standardize(pool, all_of(pool)), all_of(pool)) is None
