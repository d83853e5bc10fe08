from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import InputError, OptionError
from fielding.traces.histograms import WindowPlan
from fielding.traces.natural import n_rounds, natural_schedule, needed_intervals
from fielding.traces.trace import Trace

plans = st.builds(WindowPlan, gap=st.integers(1, 40), window=st.integers(1, 120))


def small_trace(*, x: np.ndarray | None = None, count: np.ndarray | None = None) -> Trace:
    return Trace(
        client_ids=("b", "a"),
        client=np.array([1, 0, 1, 1]),
        time=np.array([25.0, 11.0, 0.0, 4.0]),
        y=np.array([0, 1, 1, 0]),
        classes=("cat", "dog"),
        x=x,
        count=count,
    )


def features() -> np.ndarray:
    return np.arange(8.0).reshape(4, 2)


def test_rows_become_samples_by_client_and_interval() -> None:
    pool, schedule = natural_schedule(small_trace(x=features()), WindowPlan(interval="10s"))

    assert pool.features(np.arange(4)).tolist() == features().tolist()
    assert pool.classes == ("cat", "dog")
    assert schedule.client_ids == ("b", "a")
    assert schedule.client.tolist() == [0, 1, 1, 1]
    assert schedule.interval.tolist() == [1, 0, 0, 2]
    assert schedule.sample.tolist() == [1, 2, 3, 0]
    assert schedule.y.tolist() == [1, 1, 0, 0]
    assert schedule.n_intervals == 3
    assert schedule.concepts is None


def test_a_client_is_in_the_concept_of_its_newest_sample_so_far() -> None:
    trace = replace(small_trace(x=features()), concept=np.array([5, 6, 7, 8]))

    _, schedule = natural_schedule(trace, WindowPlan(interval="10s"))

    assert schedule.concepts is not None
    assert schedule.concepts.tolist() == [[-1, 8], [6, 8], [6, 5]]  # b comes in the second interval


def test_clients_may_count_from_their_own_first_sample() -> None:
    _, schedule = natural_schedule(small_trace(x=features()), WindowPlan(interval="10s", align="client"))

    assert schedule.interval.tolist() == [0, 0, 0, 2]


def test_trace_without_features_cannot_be_trained_on() -> None:
    with pytest.raises(InputError, match="no features; training needs x"):
        natural_schedule(small_trace(), WindowPlan())


def test_counts_have_no_features() -> None:
    with pytest.raises(InputError, match="row 2 stands for 3 samples, but counts have no features"):
        natural_schedule(small_trace(x=features(), count=np.array([1, 1, 3, 2])), WindowPlan())

    assert len(natural_schedule(small_trace(x=features(), count=np.ones(4, dtype=np.int64)), WindowPlan())[0]) == 4


def test_intervals_beyond_counting_are_an_error() -> None:
    with pytest.raises(InputError, match="give a longer interval"):
        natural_schedule(small_trace(x=features()), WindowPlan(interval="0.000000001s"))


@given(plan=plans, rounds=st.integers(1, 300))
def test_needed_intervals_are_those_that_complete_before_the_last_round(plan: WindowPlan, rounds: int) -> None:
    touched = sum(plan.step_of(interval) < rounds for interval in range(500))

    assert needed_intervals(rounds, plan) == max(touched, plan.n_first)


@given(plan=plans, n_intervals=st.integers(1, 50))
def test_rounds_end_when_an_interval_would_be_missing(plan: WindowPlan, n_intervals: int) -> None:
    rounds = 0
    while all(plan.step_of(interval) > rounds for interval in range(n_intervals, 200)):
        rounds += 1

    # A trace that ends before the start still lasts as long as its last interval.
    assert n_rounds(n_intervals, plan) == (rounds or plan.gap)


@given(plan=plans, n_intervals=st.integers(1, 50))
def test_as_many_rounds_as_are_covered_need_as_many_intervals_as_there_are(plan: WindowPlan, n_intervals: int) -> None:
    if n_intervals >= plan.n_first:
        assert needed_intervals(n_rounds(n_intervals, plan), plan) == n_intervals


def test_rounds_and_intervals_are_at_least_one() -> None:
    with pytest.raises(OptionError, match="n_intervals is 0"):
        n_rounds(0, WindowPlan())
    with pytest.raises(OptionError, match="rounds is 0"):
        needed_intervals(0, WindowPlan())
