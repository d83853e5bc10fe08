import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.coordinator import heterogeneity as spread
from fielding.coordinator.heterogeneity import spread_within
from fielding.coordinator.points import Points
from fielding.distance import METRICS, metric_named
from fielding.errors import InputError
from fielding.rng import stream


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
