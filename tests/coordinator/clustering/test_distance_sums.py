from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding import blas_threads as threads
from fielding.coordinator.clustering.distance_sums import BLOCK, TILE, distance_sums, euclidean_sums, l1_sums, sums_of
from fielding.distance import METRICS, Metric
from tests.coordinator.clustering.data import NAMES, Array, Labels, dirichlet, histograms, planted, some_labels


def plain_sums(points: Array, labels: Labels, metric: Metric) -> Array:
    distances = metric.between(points, points)
    np.fill_diagonal(distances, 0.0)
    inside = labels[:, None] == np.arange(labels.max() + 1)
    return np.asarray(distances @ inside)


@pytest.mark.parametrize("name", NAMES)
@given(points=histograms(), n_clusters=st.integers(1, 4))
def test_sums_are_those_of_all_pairs(name: str, points: Array, n_clusters: int) -> None:
    labels = some_labels(len(points), min(n_clusters, len(points)))

    (sums,) = distance_sums(points, [labels], metric=METRICS[name])

    np.testing.assert_allclose(sums, plain_sums(points, labels, METRICS[name]), atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@given(points=histograms(), data=st.data())
def test_the_order_of_points_does_not_matter(name: str, points: Array, data: st.DataObject) -> None:
    order = np.array(data.draw(st.permutations(range(len(points)))))
    labels = some_labels(len(points), min(3, len(points)))

    (sums,) = distance_sums(points, [labels], metric=METRICS[name])
    (shuffled,) = distance_sums(points[order], [labels[order]], metric=METRICS[name])

    np.testing.assert_allclose(shuffled, sums[order], atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_several_partitions_at_once_give_what_each_gives_alone(name: str) -> None:
    points = planted(300, 12)
    partitions = [some_labels(300, k, seed=k) for k in (2, 3, 5)] + [some_labels(300, 3, seed=3)]

    together = distance_sums(points, partitions, metric=METRICS[name])

    for labels, sums in zip(partitions, together, strict=True):
        np.testing.assert_allclose(sums, plain_sums(points, labels, METRICS[name]), rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_copies_of_one_point_lie_at_no_distance(name: str) -> None:
    points = np.tile(dirichlet(1, 7, alpha=1.0), (400, 1))

    (sums,) = distance_sums(points, [some_labels(400, 2)], metric=METRICS[name])

    assert np.abs(sums).max() < 1e-10


@pytest.mark.parametrize("name", ["l1", "l2"])
def test_points_that_nearly_coincide_keep_their_digits(name: str) -> None:
    # A group a ten-millionth wide, far from the origin, beside an outlier a million away.
    group = 1.0 + 1e-7 * np.random.default_rng(1).random((50, 3))
    points = np.vstack([group, np.full((1, 3), 1e6)])
    labels = np.array([0] * 50 + [1], dtype=np.int32)

    (sums,) = distance_sums(points, [labels], metric=METRICS[name])

    np.testing.assert_allclose(sums, plain_sums(points, labels, METRICS[name]), rtol=1e-6)


@pytest.mark.parametrize("samples", [20.0, 60.0, 400.0, 100_000.0])
@pytest.mark.parametrize("name", ["l2", "hellinger"])
def test_thousands_of_points_are_as_exact_however_tight_their_groups(name: str, samples: float) -> None:
    points = planted(2_500, 25, samples=samples)
    labels = some_labels(2_500, 3)

    (sums,) = distance_sums(points, [labels], metric=METRICS[name])

    np.testing.assert_allclose(sums, plain_sums(points, labels, METRICS[name]), rtol=2e-6)


def test_a_metric_of_ones_own_is_measured_by_its_own_function() -> None:
    doubled = replace(METRICS["l1"], between=lambda rows, centers: 2.0 * METRICS["l1"].between(rows, centers))
    points = np.array([[0.0], [1.0], [5.0]])

    (sums,) = distance_sums(points, [np.zeros(3, dtype=np.int32)], metric=doubled)

    assert sums.ravel().tolist() == [12.0, 10.0, 18.0]


def test_a_point_of_zeros_is_at_no_distance_from_itself_under_cosine() -> None:
    points = np.array([[0.0, 0.0], [1.0, 0.0]])

    (sums,) = distance_sums(points, [np.zeros(2, dtype=np.int32)], metric=METRICS["cosine"])

    assert sums.ravel().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_threads_changes_no_digit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points, partitions = planted(600, 20), [some_labels(600, 2), some_labels(600, 5)]

    found = []
    for n_threads in (1, 3):
        monkeypatch.setattr(threads, "n_threads", lambda n=n_threads: n)
        found.append(distance_sums(points, partitions, metric=METRICS[name]))

    for one, three in zip(*found, strict=True):
        assert np.array_equal(one, three)


@pytest.mark.parametrize("name", NAMES)
def test_the_points_are_not_edited(name: str) -> None:
    points, labels = planted(50, 6), some_labels(50, 3)
    before = points.copy()

    distance_sums(points, [labels], metric=METRICS[name])

    assert np.array_equal(points, before)


# ---- pairwise sums --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_points", [1, TILE - 1, TILE, TILE + 1, 2 * TILE + 3])
def test_sums_are_those_of_all_pairs_whatever_the_last_tile_holds(n_points: int) -> None:
    rng = np.random.default_rng(n_points)
    points, weights = rng.normal(size=(n_points, 5)), rng.random((n_points, 3))
    expected = METRICS["l2"].between(points, points) @ weights

    np.testing.assert_allclose(euclidean_sums(points, weights), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(sums_of(points, weights, METRICS["l2"].between), expected, rtol=1e-9, atol=1e-9)


def test_a_point_counts_as_at_no_distance_from_itself() -> None:
    sums = sums_of(np.zeros((3, 1)), np.ones((3, 1)), lambda rows, centers: np.ones((len(rows), len(centers))))

    assert sums.ravel().tolist() == [2.0, 2.0, 2.0]


# ---- sorted sums ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_points", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_sums_are_those_of_all_pairs_whatever_the_last_block_holds(n_points: int) -> None:
    rng = np.random.default_rng(n_points)
    points, weights = rng.normal(size=(n_points, 9)), rng.random((n_points, 4))

    sums = l1_sums(points, weights)

    np.testing.assert_allclose(sums, METRICS["l1"].between(points, points) @ weights, atol=1e-9)


def test_one_value_for_all_is_no_distance() -> None:
    assert l1_sums(np.full((100, 2), 0.3), np.ones((100, 1))).max() < 1e-12
