import numpy as np
import pytest

from fielding.coordinator.clustering.distance_sums import BLOCK, l1_sums
from fielding.distance import METRICS


@pytest.mark.parametrize("n_points", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_sums_are_those_of_all_pairs_whatever_the_last_block_holds(n_points: int) -> None:
    rng = np.random.default_rng(n_points)
    points, weights = rng.normal(size=(n_points, 9)), rng.random((n_points, 4))

    sums = l1_sums(points, weights)

    np.testing.assert_allclose(sums, METRICS["l1"].between(points, points) @ weights, atol=1e-9)


def test_one_value_for_all_is_no_distance() -> None:
    assert l1_sums(np.full((100, 2), 0.3), np.ones((100, 1))).max() < 1e-12
