import numpy as np
import pytest

from fielding.coordinator.clustering.distance_sums import TILE, euclidean_sums, sums_of
from fielding.distance import METRICS


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
