import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.coordinator.clustering.kmeans import lloyd
from fielding.coordinator.clustering.space import SPACES, SpacePoints, cluster_means
from fielding.distance import METRICS
from tests.coordinator.clustering.data import NAMES, Array, dirichlet, histograms, means_of, objective


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
