import numpy as np
import pytest

from fielding.coordinator.clustering.kmeans import RoughSearch
from fielding.coordinator.clustering.space import SPACES
from tests.coordinator.clustering.data import NAMES, planted


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
