import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import silhouette_score

from fielding.coordinator.clustering.silhouette import PEEK, choose_k, count_distinct, mean_silhouettes
from fielding.coordinator.points import Points
from fielding.distance import METRICS
from tests.coordinator.clustering.data import NAMES, Array, Labels, histograms, planted, some_labels


def peer_score(points: Array, labels: Labels, name: str) -> float:
    """Return scikit-learn's figure, from the metric's own distances where it has no such metric."""
    if name == "l1":
        return float(silhouette_score(points, labels, metric="manhattan"))
    if name == "l2":
        return float(silhouette_score(points, labels, metric="euclidean"))
    if name == "hellinger":
        return float(silhouette_score(np.sqrt(points) / np.sqrt(2.0), labels, metric="euclidean"))
    return exact_peer_score(points, labels, name)


def exact_peer_score(points: Array, labels: Labels, name: str) -> float:
    """Return scikit-learn's figure from exact distances: its own between equal points are not quite zero."""
    distances = METRICS[name].between(points, points)
    distances[distances < 1e-12] = 0.0
    np.fill_diagonal(distances, 0.0)
    return float(silhouette_score(distances, labels, metric="precomputed"))


@pytest.mark.parametrize("name", NAMES)
def test_means_equal_those_of_scikit_learn(name: str) -> None:
    points = planted(700, 20)
    partitions = [some_labels(700, 2), np.argmax(points @ np.ones((20, 1)) * points, axis=1).astype(np.int32)]
    partitions[1] = np.unique(partitions[1], return_inverse=True)[1].astype(np.int32)

    found = mean_silhouettes(points, partitions, metric=METRICS[name])

    assert found == pytest.approx([peer_score(points, labels, name) for labels in partitions], abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
@given(points=histograms(least_rows=4), n_clusters=st.integers(2, 3))
def test_means_equal_those_of_scikit_learn_with_duplicates_and_singletons(
    name: str, points: Array, n_clusters: int
) -> None:
    labels = some_labels(len(points), n_clusters)
    labels[0] = n_clusters - 1

    (found,) = mean_silhouettes(points, [labels], metric=METRICS[name])

    assert found == pytest.approx(exact_peer_score(points, labels, name), abs=1e-6)


@pytest.mark.parametrize("name", ["l1", "l2", "hellinger"])
def test_thousands_of_points_with_many_duplicates_still_agree(name: str) -> None:
    distinct = planted(400, 15)
    points = distinct[np.random.default_rng(1).integers(400, size=2_600)]
    labels = np.argmax(points, axis=1).astype(np.int32)
    labels = np.unique(labels, return_inverse=True)[1].astype(np.int32)

    (found,) = mean_silhouettes(points, [labels], metric=METRICS[name])

    assert found == pytest.approx(peer_score(points, labels, name), abs=1e-6)


def test_thousands_of_distinct_points_agree_too() -> None:
    points = planted(2_600, 30)
    labels = some_labels(2_600, 4)

    (found,) = mean_silhouettes(points, [labels], metric=METRICS["l2"])

    assert found == pytest.approx(peer_score(points, labels, "l2"), abs=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_equal_points_score_zero(name: str) -> None:
    points = np.full((6, 2), 0.5)

    assert mean_silhouettes(points, [some_labels(6, 2)], metric=METRICS[name]) == pytest.approx([0.0], abs=1e-12)


def test_a_lone_member_scores_zero() -> None:
    points, labels = np.array([[0.0], [1.0], [10.0]]), np.array([0, 0, 1], dtype=np.int32)

    # (10 - 1) / 10 and (9 - 1) / 9 for the pair, 0 for the third.
    assert mean_silhouettes(points, [labels], metric=METRICS["l1"]) == pytest.approx([(0.9 + 8 / 9) / 3])


def test_one_cluster_scores_zero() -> None:
    assert mean_silhouettes(np.eye(3), [np.zeros(3, dtype=np.int32)], metric=METRICS["l1"]) == [0.0]


# ---- choose k -------------------------------------------------------------------------------------------------


def test_the_largest_silhouette_wins() -> None:
    assert choose_k({2: 0.3, 3: 0.5, 4: 0.4}) == 3


def test_a_tie_goes_to_the_smaller_k() -> None:
    assert choose_k({2: 0.1, 4: 0.5 - 5e-10, 5: 0.5}) == 4
    assert choose_k({2: 0.1, 4: 0.5 - 5e-9, 5: 0.5}) == 5


def test_without_candidates_there_is_one_cluster() -> None:
    assert choose_k({}) == 1


def test_a_best_silhouette_below_the_least_means_one_cluster() -> None:
    assert choose_k({2: 0.2, 3: 0.1}, min_silhouette=0.21) == 1
    assert choose_k({2: 0.2, 3: 0.1}, min_silhouette=0.2) == 2


@pytest.mark.parametrize(("best", "chosen"), [(0.5, 3), (0.75, 3), (0.76, 2)])
def test_the_current_k_stays_unless_the_gain_exceeds_the_hysteresis(best: float, chosen: int) -> None:
    assert choose_k({2: best, 3: 0.5}, hysteresis=0.25, current=3) == chosen


def test_a_current_k_that_is_no_candidate_has_no_say() -> None:
    assert choose_k({2: 0.5, 3: 0.51}, hysteresis=0.25, current=7) == 3
    assert choose_k({2: 0.5, 3: 0.51}, hysteresis=0.25, current=None) == 3


def test_without_hysteresis_the_current_k_does_not_break_a_tie() -> None:
    assert choose_k({2: 0.5, 3: 0.5}, current=3) == 2


def test_distinct_points_are_counted_across_chunks_up_to_the_limit() -> None:
    matrix = np.zeros((3 * PEEK, 2))
    matrix[PEEK + 1], matrix[2 * PEEK + 1], matrix[-1] = (1.0, 0.0), (0.0, 1.0), (1.0, 0.0)

    assert count_distinct(Points(matrix), limit=10) == 3
    assert count_distinct(Points(matrix), limit=2) == 2
    assert count_distinct(Points(matrix, rows=np.arange(5)), limit=10) == 1
    assert count_distinct(Points(np.empty((0, 2))), limit=10) == 0
