import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fielding import blas_threads as threads
from fielding.coordinator.clustering import kmeans
from fielding.coordinator.clustering.kmeans import KMeans, RoughSearch, draw_rows, lloyd, seed_rows
from fielding.coordinator.clustering.space import SPACES, SpacePoints, cluster_means
from fielding.distance import METRICS
from tests.coordinator.clustering.data import (
    NAMES,
    Array,
    dirichlet,
    histograms,
    means_of,
    objective,
    plain_kmeans,
    planted,
)
from tests.rotation import some_of

LANDSCAPES = {
    "planted-50": (planted(50, 10, n_groups=4), ("l1", "l2", "hellinger", "js", "cosine")),
    "planted-400": (planted(400, 15, n_groups=6, samples=20.0), ("l1", "l2", "hellinger")),
    "planted-2000": (planted(2_000, 8, n_groups=5, samples=20.0), ("l1", "l2")),
    "dirichlet-0.1": (dirichlet(300, 8, alpha=0.1), ("l1", "l2", "cosine")),
    "dirichlet-0.3": (dirichlet(150, 12, alpha=0.3), ("l1", "hellinger", "js")),
    "dirichlet-1": (dirichlet(60, 6, alpha=1.0), ("l1", "l2", "hellinger", "cosine")),
}


@pytest.mark.parametrize(
    ("landscape", "name"), some_of([(key, name) for key, (_, names) in LANDSCAPES.items() for name in names], 8)
)
def test_the_objective_is_within_one_percent_of_the_best_of_fifty_plain_runs(landscape: str, name: str) -> None:
    points, metric = LANDSCAPES[landscape][0], METRICS[name]
    ks = [3, 7] if len(points) < 1_000 else [4]

    found = KMeans().partitions(points, ks, metric=metric, rng=np.random.default_rng(1))

    rng = np.random.default_rng(2)
    for k in ks:
        best = min(plain_kmeans(points, k, metric, rng) for _ in range(50))
        assert objective(points, found[k], metric) <= 1.01 * best


def test_restarts_on_a_sample_serve_all_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kmeans, "SAMPLE", 200)
    points = planted(1_500, 10, n_groups=5)

    found = KMeans().partitions(points, [5], metric=METRICS["l1"], rng=np.random.default_rng(1))

    rng = np.random.default_rng(2)
    best = min(plain_kmeans(points, 5, METRICS["l1"], rng) for _ in range(10))
    assert objective(points, found[5], METRICS["l1"]) <= 1.01 * best


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(points=histograms(least_rows=4), k=st.integers(2, 5))
def test_any_points_get_labels_below_k(name: str, points: Array, k: int) -> None:
    found = KMeans(n_init=2).partitions(points, [2, k], metric=METRICS[name], rng=np.random.default_rng(1))

    assert list(found) == sorted({2, k})
    for n_clusters, labels in found.items():
        assert labels.shape == (len(points),)
        assert labels.dtype == np.int32
        assert 0 <= labels.min() <= labels.max() < n_clusters


def test_equal_points_share_a_cluster() -> None:
    distinct = dirichlet(12, 4, alpha=1.0)
    copies = np.random.default_rng(1).integers(12, size=300)

    labels = KMeans().partitions(distinct[copies], [5], metric=METRICS["l1"], rng=np.random.default_rng(1))[5]

    assert all(len(set(labels[copies == at])) == 1 for at in range(12))


def test_as_many_clusters_as_distinct_places_cost_nothing() -> None:
    points = np.repeat(dirichlet(4, 3, alpha=1.0), 5, axis=0)

    labels = KMeans().partitions(points, [4], metric=METRICS["l2"], rng=np.random.default_rng(1))[4]

    assert objective(points, labels, METRICS["l2"]) < 1e-20


def test_rows_in_one_direction_are_one_place_under_cosine() -> None:
    rays = np.array([[1.0, 0.0], [2.0, 0.0], [4.0, 0.0], [0.0, 1.0], [0.0, 3.0]])

    labels = KMeans().partitions(rays, [2, 4], metric=METRICS["cosine"], rng=np.random.default_rng(1))

    assert len({*labels[2][:3]}) == len({*labels[2][3:]}) == 1
    assert labels[2][0] != labels[2][3]
    assert len(np.unique(labels[4])) == 2


def test_a_warm_start_is_tried_for_its_own_number(monkeypatch: pytest.MonkeyPatch) -> None:
    points = dirichlet(200, 8, alpha=1.0)
    best = KMeans(n_init=50).partitions(points, [12], metric=METRICS["l2"], rng=np.random.default_rng(3))[12]
    start = means_of(points, best)
    monkeypatch.setattr(kmeans, "MOST_EFFORT", 1)

    cold = KMeans(n_init=1).partitions(points, [11, 12], metric=METRICS["l2"], rng=np.random.default_rng(0))
    warm = KMeans(n_init=1).partitions(
        points, [11, 12], metric=METRICS["l2"], rng=np.random.default_rng(0), start=start
    )

    assert np.array_equal(cold[11], warm[11])
    costs = [objective(points, labels, METRICS["l2"]) for labels in (best, warm[12], cold[12])]
    assert costs[1] == pytest.approx(costs[0])
    assert costs[1] < costs[2]


@pytest.mark.parametrize("name", NAMES)
def test_neither_the_number_of_threads_nor_a_repetition_changes_a_label(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = planted(300, 10)

    found = []
    for n_threads in (1, 3, 3):
        monkeypatch.setattr(threads, "n_threads", lambda n=n_threads: n)
        found.append(KMeans().partitions(points, [2, 4, 7], metric=METRICS[name], rng=np.random.default_rng(5)))

    for k in (2, 4, 7):
        assert np.array_equal(found[0][k], found[1][k])
        assert np.array_equal(found[1][k], found[2][k])


def test_the_points_and_the_start_are_not_edited() -> None:
    points, start = planted(60, 5), planted(3, 5, seed=1)
    before = points.copy(), start.copy()

    KMeans().partitions(points, [2, 3], metric=METRICS["hellinger"], rng=np.random.default_rng(1), start=start)

    assert np.array_equal(points, before[0])
    assert np.array_equal(start, before[1])


# ---- lloyd ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_passes_that_measure_little_end_where_passes_that_measure_all_end(name: str) -> None:
    points, metric = dirichlet(400, 6, alpha=0.4), METRICS[name]
    centers = points[:5]

    found = lloyd(SpacePoints.of(points, SPACES[name]), centers)

    best = np.inf
    for _ in range(100):
        labels = metric.between(points, centers).argmin(axis=1).astype(np.int32)
        best = min(best, objective(points, labels, metric))
        centers = means_of(points, labels)
    assert found.cost == pytest.approx(best, rel=1e-9)
    assert objective(points, found.labels, metric) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("name", ["l2", "cosine"])
def test_every_point_ends_in_the_cluster_with_the_nearest_mean(name: str) -> None:
    points = dirichlet(300, 5, alpha=0.5)

    labels = lloyd(SpacePoints.of(points, SPACES[name]), points[:4]).labels

    distances = METRICS[name].between(points, means_of(points, labels))
    assert np.array_equal(distances.argmin(axis=1), labels)


@pytest.mark.parametrize("name", NAMES)
@given(points=histograms(least_rows=3), k=st.integers(2, 5))
def test_the_cost_is_that_of_the_labels_whatever_ties_there_are(name: str, points: Array, k: int) -> None:
    found = lloyd(SpacePoints.of(points, SPACES[name]), points[np.arange(k) % len(points)])

    assert found.labels.shape == (len(points),)
    assert 0 <= found.labels.min() <= found.labels.max() < k
    assert found.cost == pytest.approx(objective(points, found.labels, METRICS[name]), abs=1e-9)


def test_a_point_between_two_centers_goes_to_the_lower_index() -> None:
    line = SpacePoints.of(np.array([[0.0], [1.0], [2.0]]), SPACES["l2"])

    assert lloyd(line, np.array([[0.0], [2.0]]), most_passes=1).labels.tolist() == [0, 0, 1]


@pytest.mark.parametrize("name", ["l1", "l2"])
def test_a_cluster_without_points_starts_anew_at_the_farthest_point(name: str) -> None:
    line = SpacePoints.of(np.array([[0.0], [1.0], [50.0]]), SPACES[name])

    found = lloyd(line, np.array([[0.0], [900.0]]), most_passes=1)

    assert found.labels.tolist() == [0, 0, 1]


def test_more_centers_than_places_leave_clusters_empty() -> None:
    copies = SpacePoints.of(np.array([[0.0], [0.0], [5.0]]), SPACES["l2"])

    found = lloyd(copies, np.array([[0.0], [5.0], [7.0]]))

    assert len(np.unique(found.labels)) == 2
    assert found.cost == 0.0


def test_the_distance_of_a_far_crowd_does_not_blur_its_inside() -> None:
    # Two groups a thousandth apart, a million away from the origin.
    points = 1e6 + np.array([[0.0], [1e-4], [1e-3], [1.1e-3]])

    found = lloyd(SpacePoints.of(points, SPACES["l2"]), points[:2])

    assert found.labels.tolist() == [0, 0, 1, 1]
    assert found.cost == pytest.approx(1e-8, rel=1e-3)


def test_means_are_those_of_the_members() -> None:
    means = cluster_means(np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 0.0]]), np.array([0, 1, 0], dtype=np.int32))

    assert means.tolist() == [[2.0, 0.0], [0.0, 1.0]]


# ---- seeding --------------------------------------------------------------------------------------------------


def test_far_groups_each_get_a_seed() -> None:
    line = np.repeat([0.0, 100.0, 200.0, 300.0], 10) + np.tile(np.arange(10.0), 4) * 1e-3
    squares = (line[:, None] - line) ** 2

    seeds = seed_rows(squares, 4, n_restarts=20, rng=np.random.default_rng(1))

    assert all(sorted(row // 10) == [0, 1, 2, 3] for row in seeds)


def test_seeds_of_equal_points_do_not_fail() -> None:
    seeds = seed_rows(np.zeros((5, 5)), 3, n_restarts=2, rng=np.random.default_rng(1))

    assert seeds.shape == (2, 3)
    assert seeds.min() >= 0
    assert seeds.max() <= 4


def test_rows_are_drawn_in_proportion_to_their_mass() -> None:
    drawn = draw_rows(np.array([[0.0, 1.0, 3.0]]), 4_000, rng=np.random.default_rng(1))

    shares = np.bincount(drawn[0], minlength=3) / 4_000
    assert shares[0] == 0.0
    assert abs(shares[2] - 0.75) < 0.03


# ---- search ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_passes_lower_the_cost(name: str) -> None:
    search = RoughSearch.of(planted(200, 8), SPACES[name])
    starts = search.starts(4, n_restarts=6, rng=np.random.default_rng(1))

    _, before = search.improve(starts, n_passes=0)
    centers, after = search.improve(starts, n_passes=5)

    assert centers.shape == (6, 4, 8)
    assert np.all(after <= before + 1e-4)
    assert after.sum() < before.sum()


def test_a_pass_moves_centers_to_the_means_of_their_points() -> None:
    search = RoughSearch.of(np.array([[0.0], [2.0], [8.0], [10.0]]), SPACES["l2"])
    starts = search.points[[1, 2], :-1][None]

    centers, _ = search.improve(starts, n_passes=1)

    np.testing.assert_allclose(search.at_scale(centers)[0].ravel(), [1.0, 9.0], rtol=1e-6)


def test_huge_and_tiny_numbers_leave_no_infinity() -> None:
    for size in (1e37, 1e-37):
        search = RoughSearch.of(size * planted(50, 4), SPACES["l2"])

        centers, costs = search.improve(search.starts(3, n_restarts=4, rng=np.random.default_rng(1)), n_passes=3)

        assert np.isfinite(search.at_scale(centers)).all()
        assert np.isfinite(costs).all()


def test_variants_differ_from_their_start_in_one_center() -> None:
    search = RoughSearch.of(planted(100, 5), SPACES["l2"])
    starts = search.starts(4, n_restarts=2, rng=np.random.default_rng(1))

    varied = search.vary(starts, n_each=3, rng=np.random.default_rng(2))

    assert np.array_equal(varied[:2], starts)
    for at, variant in enumerate(varied[2:]):
        assert np.sum(np.any(variant != starts[at // 3], axis=1)) <= 1
