import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fielding.reporting.numbers.paired import speedup
from fielding.rng import stream

TIMES = st.lists(st.tuples(st.floats(1.0, 100.0), st.floats(1.0, 100.0)), min_size=3, max_size=8)


def test_it_is_the_geometric_mean_of_the_ratios() -> None:
    found = speedup([10.0, 40.0], [10.0, 10.0])

    assert found["mean"] == pytest.approx(2.0)
    assert found["per_seed"] == [1.0, 4.0]
    assert speedup([10.0, 10.0], [10.0, 40.0])["mean"] == pytest.approx(0.5)


@given(TIMES)
def test_the_interval_is_the_t_interval_of_the_logarithms(times: list[tuple[float, float]]) -> None:
    theirs, ours = zip(*times, strict=True)

    found = speedup(theirs, ours)

    logs = [math.log(one / other) for one, other in times]
    half_width = stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs)
    center = sum(logs) / len(logs)
    assert found["ci95"] == pytest.approx([math.exp(center - half_width), math.exp(center + half_width)])
    assert found["n_seeds"] == len(times)


@pytest.mark.parametrize("n_seeds", [3, 5])
def test_the_interval_holds_the_truth_as_often_as_it_says(n_seeds: int) -> None:
    draws, n_inside = stream(0, "coverage", n_seeds), 0
    for _ in range(400):
        theirs, ours = (draws.lognormal(mean, 0.4, n_seeds).tolist() for mean in (1.0, 0.0))
        ends = speedup(theirs, ours)["ci95"]
        n_inside += isinstance(ends, list) and float(str(ends[0])) <= math.e <= float(str(ends[1]))

    assert 0.92 < n_inside / 400 < 0.98


def test_two_seeds_have_no_interval() -> None:
    found = speedup([10.0, 12.0], [5.0, 4.0])

    assert (found["ci95"], found["n_seeds"]) == (None, 2)


def test_an_interval_that_no_number_can_hold_is_none() -> None:
    assert speedup([1e250, 1.0, 1.0], [1.0, 1.0, 1.0])["ci95"] is None


def test_equal_ratios_leave_no_doubt() -> None:
    assert speedup([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])["ci95"] == pytest.approx([2.0, 2.0])


def test_seeds_on_which_one_of_them_never_got_there_are_left_out() -> None:
    found = speedup([None, 8.0, 9.0], [3.0, None, 3.0])

    assert found == {"mean": pytest.approx(3.0), "ci95": None, "per_seed": [None, None, 3.0], "n_seeds": 1}


def test_a_target_that_one_of_them_never_reached_gives_none() -> None:
    found = speedup([None, 8.0], [3.0, None])

    assert found == {"mean": None, "ci95": None, "per_seed": [None, None], "n_seeds": 0}
    assert speedup([5.0], [0.0])["mean"] is None
