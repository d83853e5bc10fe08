import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.reporting.speedup import speedup

TIMES = st.lists(st.tuples(st.floats(1.0, 100.0), st.floats(1.0, 100.0)), min_size=2, max_size=8)


def test_it_is_the_ratio_of_the_means_not_the_mean_of_the_ratios() -> None:
    found = speedup([10.0, 30.0], [10.0, 10.0])

    assert found["mean"] == 2.0
    assert found["per_seed"] == [1.0, 3.0]
    assert speedup([10.0, 30.0], [5.0, 30.0])["mean"] == pytest.approx(40 / 35)


@given(TIMES)
def test_the_interval_holds_the_ratio_and_is_the_same_each_time(times: list[tuple[float, float]]) -> None:
    theirs, ours = zip(*times, strict=True)

    found = speedup(theirs, ours)

    ends, mean = found["ci95"], found["mean"]
    assert isinstance(ends, list)
    ratios = [one / other for one, other in times]
    rising = [min(ratios), *(float(str(one)) for one in (ends[0], mean, ends[1])), max(ratios)]
    assert (np.diff(rising) >= -1e-9).all()
    assert speedup(theirs, ours) == found


def test_equal_ratios_leave_no_doubt() -> None:
    assert speedup([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])["ci95"] == [2.0, 2.0]


def test_seeds_on_which_one_of_them_never_got_there_are_left_out() -> None:
    found = speedup([None, 8.0, 9.0], [3.0, None, 3.0])

    assert found == {"mean": 3.0, "ci95": None, "per_seed": [None, None, 3.0]}


def test_a_target_that_one_of_them_never_reached_gives_none() -> None:
    assert speedup([None, 8.0], [3.0, None]) == {"mean": None, "ci95": None, "per_seed": [None, None]}
    assert speedup([5.0], [0.0])["mean"] is None
