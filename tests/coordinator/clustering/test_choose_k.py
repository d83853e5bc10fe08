import numpy as np
import pytest

from fielding.coordinator.clustering.silhouette import PEEK, choose_k, count_distinct
from fielding.coordinator.points import Points


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
