import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.coordinator.assignment import nearest_clusters, recompute_centers
from fielding.coordinator.points import Points
from fielding.coordinator.registry import Registry
from fielding.distance import METRICS, metric_named

L1 = metric_named("l1")


def membership(*clusters: int) -> np.ndarray:
    return np.array(clusters, dtype=np.int32)


def test_client_joins_the_cluster_it_now_resembles() -> None:
    after_drift = Points(np.array([[0.1, 0.9]]))

    assert nearest_clusters(after_drift, np.eye(2), metric=L1, current=membership(0)).tolist() == [1]


def test_a_tie_stays_and_a_newcomer_takes_the_lowest() -> None:
    between = Points(np.array([[0.5, 0.5, 0.0]] * 3))

    nearest = nearest_clusters(between, np.eye(3), metric=L1, current=membership(1, 0, -1))

    assert nearest.tolist() == [1, 0, 0]


def test_a_current_cluster_that_is_not_nearest_is_left() -> None:
    between = Points(np.array([[0.5, 0.5, 0.0]]))

    assert nearest_clusters(between, np.eye(3), metric=L1, current=membership(2)).tolist() == [0]


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(METRICS)))
def test_the_answer_for_a_client_does_not_depend_on_the_others(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.multinomial(4, [0.4, 0.3, 0.3], size=12) / 4.0
    current = rng.integers(-1, 3, size=12).astype(np.int32)
    centers = rng.dirichlet([1.0, 1.0, 1.0], size=3)

    together = nearest_clusters(Points(rows), centers, metric=METRICS[name], current=current)
    alone = [
        nearest_clusters(Points(rows[i : i + 1]), centers, metric=METRICS[name], current=current[i : i + 1])[0]
        for i in range(12)
    ]

    assert together.tolist() == alone


def test_the_mean_is_the_same_for_any_chunk() -> None:
    rows = np.random.default_rng(0).random((40_000, 3)).astype(np.float32)

    assert Points(rows).mean() == pytest.approx(rows.astype(np.float64).mean(axis=0), abs=1e-12)


def test_only_named_clusters_are_recomputed_and_empty_ones_keep_their_center() -> None:
    registry = Registry()
    registry.record(registry.rows_for([1, 2, 3]), np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]), step=0)
    registry.membership[:] = [0, 0, 2]
    before = np.array([[9.0, 9.0], [0.3, 0.7], [8.0, 8.0]])

    after = recompute_centers(registry, before, [0, 1])

    assert after.tolist() == [[0.75, 0.25], [0.3, 0.7], [8.0, 8.0]]
    assert before[0].tolist() == [9.0, 9.0]
