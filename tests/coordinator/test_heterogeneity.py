import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.coordinator import heterogeneity
from fielding.coordinator import heterogeneity as spread
from fielding.coordinator.heterogeneity import (
    Heterogeneity,
    mean_client_distance,
    mean_pairwise_distance,
    spread_within,
)
from fielding.coordinator.points import Points
from fielding.distance import METRICS, Metric, metric_named
from fielding.errors import InputError
from fielding.rng import stream
from tests.coordinator.clustering.data import NAMES, Array, Labels, histograms, planted, some_labels


def measured(points: Array, membership: Labels, name: str = "l1") -> Heterogeneity:
    return mean_client_distance(Points(points), membership, metric=METRICS[name], rng=np.random.default_rng(1))


def plain_mean(points: Array, membership: Labels, metric: Metric) -> float:
    """Return the mean over clients of the mean distance to the others, straight from its definition."""
    means = []
    for at, label in enumerate(membership):
        others = [other for other in np.flatnonzero(membership == label) if other != at]
        if label >= 0 and others:
            means.append(float(np.mean(metric.between(points[[at]], points[others]))))
    return float(np.mean(means)) if means else math.nan


def test_the_mean_is_over_clients_and_leaves_singletons_out() -> None:
    line = np.array([[0.0], [2.0], [10.0], [11.0], [13.0], [50.0]])
    membership = np.array([0, 0, 1, 1, 1, 2], dtype=np.int32)

    found = measured(line, membership)

    # Pair: 2, 2. Three: (1 + 3) / 2, (1 + 2) / 2, (3 + 2) / 2.
    assert found.mean == pytest.approx((2 + 2 + 2 + 1.5 + 2.5) / 5)
    assert found.n_singletons == 1
    assert not found.is_sampled


@pytest.mark.parametrize("name", NAMES)
@given(points=histograms(), n_clusters=st.integers(1, 4))
def test_the_mean_is_that_of_the_definition(name: str, points: Array, n_clusters: int) -> None:
    membership = some_labels(len(points), min(n_clusters, len(points)))

    found = measured(points, membership, name)

    assert found.mean == pytest.approx(plain_mean(points, membership, METRICS[name]), abs=1e-9, nan_ok=True)
    assert found.n_singletons == int(np.sum(np.bincount(membership) == 1))


def test_only_singletons_have_no_mean() -> None:
    found = measured(np.eye(3), np.arange(3, dtype=np.int32))

    assert math.isnan(found.mean)
    assert found.n_singletons == 3


def test_nobody_has_no_mean() -> None:
    found = measured(np.empty((0, 2)), np.empty(0, dtype=np.int32))

    assert math.isnan(found.mean)
    assert found.n_singletons == 0


def test_clients_without_a_cluster_are_left_out() -> None:
    line = np.array([[0.0], [900.0], [1.0]])

    assert measured(line, np.array([4, -1, 4], dtype=np.int32)).mean == 1.0


def test_equal_clients_lie_at_no_distance() -> None:
    for name in NAMES:
        assert measured(np.full((9, 3), 1 / 3), np.zeros(9, dtype=np.int32), name).mean == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_large_clusters_are_sampled_and_say_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points, membership = planted(900, 8), some_labels(900, 2)
    exact = measured(points, membership, name)

    monkeypatch.setattr(heterogeneity, "MOST_EXACT", 200)
    monkeypatch.setattr(heterogeneity, "MOST_EXACT_OF", {})
    sampled = measured(points, membership, name)

    assert not exact.is_sampled
    assert sampled.is_sampled
    assert sampled.mean == pytest.approx(exact.mean, rel=0.05)
    assert sampled.mean != exact.mean


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_of_all_pairs_is_that_of_one_cluster(name: str) -> None:
    points = planted(150, 6)

    pairs = mean_pairwise_distance(Points(points), metric=METRICS[name], rng=np.random.default_rng(1))

    assert pairs == pytest.approx(plain_mean(points, np.zeros(150, dtype=np.int32), METRICS[name]))


def test_fewer_than_two_points_lie_at_no_distance() -> None:
    for n_points in (0, 1):
        points = Points(np.ones((n_points, 2)))
        assert mean_pairwise_distance(points, metric=METRICS["l1"], rng=np.random.default_rng(1)) == 0.0


def test_a_metric_of_ones_own_is_measured_by_its_own_function() -> None:
    doubled = replace(METRICS["l1"], between=lambda rows, centers: 2.0 * METRICS["l1"].between(rows, centers))
    line = Points(np.array([[0.0], [1.0], [5.0]]))

    assert mean_pairwise_distance(line, metric=doubled, rng=np.random.default_rng(1)) == pytest.approx(20 / 3)


def test_points_far_from_the_origin_keep_their_digits() -> None:
    points = Points(1e6 + np.array([[0.0], [1e-3], [3e-3]]))

    for name in ("l1", "l2"):
        found = mean_pairwise_distance(points, metric=METRICS[name], rng=np.random.default_rng(1))
        assert found == pytest.approx(2e-3, rel=1e-6)


def test_the_points_are_not_edited() -> None:
    points, membership = planted(30, 4), some_labels(30, 3)
    before = points.copy(), membership.copy()

    for name in NAMES:
        measured(points, membership, name)

    assert np.array_equal(points, before[0])
    assert np.array_equal(membership, before[1])


# ---- diameter -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(METRICS))
@given(seed=st.integers(0, 1000))
def test_the_spread_is_the_largest_distance_within_a_cluster(name: str, seed: int) -> None:
    rng, metric = stream(seed, "test"), metric_named(name)
    rows, membership = rng.dirichlet([0.5] * 3, size=12), rng.integers(-1, 3, 12).astype(np.int32)

    found = spread_within(Points(rows), membership, metric=metric, rng=rng)

    distances = metric.between(rows, rows)
    expected = {
        cluster: distances[np.ix_(membership == cluster, membership == cluster)].max()
        for cluster in range(3)
        if (membership == cluster).sum() > 1
    }
    assert found.per_cluster == pytest.approx(expected, abs=1e-12)
    assert found.largest == pytest.approx(max(expected.values(), default=None))
    assert found.is_exact


def test_singletons_have_no_spread() -> None:
    found = spread_within(
        Points(np.eye(3)), np.arange(3, dtype=np.int32), metric=metric_named("l1"), rng=stream(1, "t")
    )

    assert found.largest is None
    assert found.per_cluster == {}


def test_a_large_cluster_is_sampled_but_its_outliers_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "MOST_MEMBERS", 10)
    rows = np.full((400, 2), 0.5)
    rows[[17, 399]] = [[1.0, 0.0], [0.0, 1.0]]

    found = spread_within(Points(rows), np.zeros(400, dtype=np.int32), metric=metric_named("l1"), rng=stream(1, "t"))

    assert found.largest == 2.0
    assert not found.is_exact


def test_a_membership_of_another_length_is_refused() -> None:
    with pytest.raises(InputError, match=r"membership has shape \(2,\) for 3 points"):
        spread_within(Points(np.eye(3)), np.zeros(2, dtype=np.int32), metric=metric_named("l1"), rng=stream(1, "t"))
