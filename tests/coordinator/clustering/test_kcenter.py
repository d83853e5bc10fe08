from itertools import combinations

import numpy as np
import pytest

from fielding.coordinator.clustering.kcenter import KCenter
from fielding.coordinator.points import Points
from fielding.distance import METRICS
from tests.coordinator.clustering.data import NAMES, Array, Labels, dirichlet, planted


def partition(points: Array, k: int, name: str = "l1") -> Labels:
    return KCenter().partitions(points, [k], metric=METRICS[name], rng=np.random.default_rng(1))[k]


def test_the_first_center_is_nearest_to_the_mean_and_the_next_is_farthest_from_it() -> None:
    line = np.array([[0.0], [4.0], [5.0], [12.0]])

    # The mean is 5.25: first 5, then 12 (7 away), then 0 (5 away).
    assert partition(line, 2).tolist() == [0, 0, 0, 1]
    assert partition(line, 3).tolist() == [2, 0, 0, 1]


def test_ties_go_to_the_lowest_row_and_the_earlier_center() -> None:
    line = np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]])

    # From 0 both ends are equally far: row 0 comes first; -1 is as near to 0 as to -2 and stays.
    assert partition(line, 2).tolist() == [1, 0, 0, 0, 0]


def test_no_point_is_farther_from_its_center_than_twice_the_best_radius() -> None:
    points = dirichlet(14, 3, alpha=0.5)
    distances = METRICS["l1"].between(points, points)

    labels = partition(points, 3)

    best = min(distances[:, list(centers)].min(axis=1).max() for centers in combinations(range(14), 3))
    radii = [min(distances[np.ix_(labels == at, labels == at)].max(axis=1)) for at in range(3)]
    assert max(radii) <= 2.0 * best + 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_fewer_places_than_centers_end_the_traversal(name: str) -> None:
    points = np.repeat(np.eye(3), 4, axis=0)

    labels = partition(points, 9, name)

    assert len(np.unique(labels)) == 3


@pytest.mark.parametrize("name", NAMES)
def test_all_points_in_chunks_get_the_labels_of_points_in_memory(name: str) -> None:
    points = planted(200, 6)

    extended = KCenter().extended(Points(points), np.zeros((4, 6)), metric=METRICS[name])

    assert np.array_equal(extended, partition(points, 4, name))
