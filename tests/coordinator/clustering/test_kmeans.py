import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fielding import blas_threads as threads
from fielding.coordinator.clustering import kmeans
from fielding.coordinator.clustering.kmeans import KMeans
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

LANDSCAPES = {
    "planted-50": (planted(50, 10, n_groups=4), ("l1", "l2", "hellinger", "js", "cosine")),
    "planted-400": (planted(400, 15, n_groups=6, samples=20.0), ("l1", "l2", "hellinger")),
    "planted-2000": (planted(2_000, 8, n_groups=5, samples=20.0), ("l1", "l2")),
    "dirichlet-0.1": (dirichlet(300, 8, alpha=0.1), ("l1", "l2", "cosine")),
    "dirichlet-0.3": (dirichlet(150, 12, alpha=0.3), ("l1", "hellinger", "js")),
    "dirichlet-1": (dirichlet(60, 6, alpha=1.0), ("l1", "l2", "hellinger", "cosine")),
}


@pytest.mark.parametrize(
    ("landscape", "name"), [(key, name) for key, (_, names) in LANDSCAPES.items() for name in names]
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
