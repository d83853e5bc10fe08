from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from fielding.coordinator.clustering.space import SPACES, jensen_shannon, space_of
from fielding.distance import METRICS
from tests.coordinator.clustering.data import NAMES, Array, dirichlet, histograms


@pytest.mark.parametrize("name", NAMES)
def test_the_cost_in_the_space_is_the_metrics_own(name: str) -> None:
    points, center = dirichlet(20, 6, alpha=0.5), dirichlet(1, 6, alpha=1.0, seed=1)
    space = SPACES[name]

    distances = space.between(space.mapped(points), space.mapped(center))[:, 0]

    expected = np.sum(METRICS[name].between(points, center) ** METRICS[name].power)
    assert space.cost(distances) == pytest.approx(float(expected))


@pytest.mark.parametrize("name", NAMES)
def test_the_space_ranks_centers_as_the_metric_does(name: str) -> None:
    points, centers = dirichlet(30, 6, alpha=0.5), dirichlet(4, 6, alpha=1.0, seed=1)
    space = SPACES[name]

    ranks = np.argsort(space.between(space.mapped(points), space.mapped(centers)), axis=1)

    assert np.array_equal(ranks, np.argsort(METRICS[name].between(points, centers), axis=1))


@given(rows=histograms())
def test_the_quick_jensen_shannon_is_the_metric(rows: Array) -> None:
    np.testing.assert_allclose(jensen_shannon(rows, rows), METRICS["js"].between(rows, rows), atol=1e-9)


def test_the_quick_jensen_shannon_keeps_the_digits_of_near_equal_rows() -> None:
    rows = dirichlet(1, 5, alpha=2.0)
    nudged = rows + 1e-7 * np.array([[1.0, -1.0, 0.0, 0.0, 0.0]])

    np.testing.assert_allclose(jensen_shannon(nudged, rows), METRICS["js"].between(nudged, rows), rtol=1e-6)


def test_a_share_below_zero_by_rounding_counts_as_zero() -> None:
    rows = np.array([[1.0, -1e-18]])

    assert np.array_equal(SPACES["hellinger"].mapped(rows), SPACES["hellinger"].mapped(np.array([[1.0, 0.0]])))
    assert jensen_shannon(rows, np.array([[1.0, 0.0]]))[0, 0] == pytest.approx(0.0, abs=1e-8)


def test_a_metric_of_ones_own_keeps_its_function() -> None:
    own = replace(METRICS["l1"], power=2)

    space = space_of(own)

    assert space.power == 2
    assert not space.is_euclidean
    assert space_of(METRICS["l1"]) is SPACES["l1"]
