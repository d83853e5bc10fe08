import numpy as np
import pytest

from fielding.client.drift import AnyChange, Evidence, Threshold
from fielding.errors import OptionError


def evidence_of(reported: list[list[int]], current: list[list[int]]) -> Evidence:
    n_clients = len(reported)
    return Evidence(
        reported=np.array(reported),
        current=np.array(current),
        fresh=np.zeros((n_clients, len(reported[0])), dtype=np.int64),
        before=np.array(reported),
        age=np.ones(n_clients, dtype=np.int64),
        arrived=np.zeros(n_clients, dtype=np.int64),
        is_mixed=np.zeros(n_clients, dtype=np.bool_),
    )


def test_any_change_sees_the_smallest_change_of_shares() -> None:
    evidence = evidence_of([[500, 500], [500, 500]], [[500, 501], [1000, 1000]])

    assert AnyChange().drifted(evidence).tolist() == [True, False]


def test_any_change_compares_shares_not_counts() -> None:
    evidence = evidence_of([[1, 2, 0], [1, 2, 0]], [[49, 98, 0], [49, 98, 1]])

    assert AnyChange().drifted(evidence).tolist() == [False, True]


def test_any_change_sees_that_samples_left() -> None:
    evidence = evidence_of([[2, 1]], [[1, 1]])

    assert AnyChange().drifted(evidence).tolist() == [True]


def test_threshold_is_strict() -> None:
    # 0.3 + 0.3 apart in the first row, a little more in the second.
    evidence = evidence_of([[10, 10], [10, 10]], [[16, 4], [161, 39]])

    assert Threshold(eps=0.6).drifted(evidence).tolist() == [False, True]


@pytest.mark.parametrize("tenths", range(1, 10))
def test_rounding_does_not_push_a_distance_over_the_threshold(tenths: int) -> None:
    evidence = evidence_of([[10, 0]], [[10 - tenths, tenths]])

    assert Threshold(eps=2 * tenths / 10).drifted(evidence).tolist() == [False]


def test_threshold_sees_which_label_changed_not_only_how_often() -> None:
    # The sorted counts are equal: a test of the profile alone would be blind.
    evidence = evidence_of([[9, 1]], [[1, 9]])

    assert Threshold(eps=1.5).drifted(evidence).tolist() == [True]


@pytest.mark.parametrize("eps", [-0.1, 2.1, float("nan"), "0.1", None, True])
def test_threshold_outside_the_range_of_distances_is_refused(eps: object) -> None:
    with pytest.raises(OptionError, match=r"eps is .*; give a number from 0 to 2"):
        Threshold(eps=eps)  # type: ignore[arg-type]
