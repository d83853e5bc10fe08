import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fielding.errors import InputError
from fielding.reporting.numbers.paired import (
    best,
    estimate,
    estimate_of,
    holm,
    paired_difference,
    paired_p,
    seed_record,
    speedup,
    t_interval,
)
from fielding.rng import stream

VALUES = st.lists(st.floats(-10.0, 10.0), min_size=2, max_size=12)


@given(VALUES)
def test_intervals_are_those_of_scipy(values: list[float]) -> None:
    found = estimate(values)

    sem = float(stats.sem(values))
    assert found.mean == pytest.approx(np.mean(values))
    assert found.half_width == pytest.approx(sem * stats.t.ppf(0.975, len(values) - 1), abs=1e-12)


@given(VALUES, st.floats(-5.0, 5.0))
def test_what_a_seed_does_to_both_methods_cancels_out(values: list[float], gain: float) -> None:
    found = paired_difference([value + gain for value in values], values)

    assert found.mean == pytest.approx(gain, abs=1e-9)
    assert found.half_width == pytest.approx(0.0, abs=1e-9)


def test_a_single_seed_has_no_interval() -> None:
    record = estimate([0.5]).record()

    assert record == {"mean": 0.5, "ci95": None, "per_seed": [0.5]}


def test_columns_are_taken_one_by_one() -> None:
    mean, half_width = t_interval(np.array([[0.0, 5.0], [2.0, 5.0]]))

    alone = estimate([0.0, 2.0])
    assert mean.tolist() == [1.0, 5.0]
    assert half_width.tolist() == [alone.half_width, 0.0]


def test_no_seed_and_unequal_seeds_are_refused() -> None:
    with pytest.raises(InputError, match="at least one seed"):
        estimate([])
    with pytest.raises(InputError, match="2 values cannot be paired with 1"):
        paired_difference([0.1, 0.2], [0.1])


@given(VALUES)
def test_p_values_are_those_of_scipy(values: list[float]) -> None:
    found = paired_p(values)

    if np.std(values) < 1e-8:
        assert found is None or found == 1.0 or 0.0 < found < 1.0  # without spread scipy divides by zero
    else:
        assert found == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue)


def test_differences_without_spread_cannot_be_tested_unless_they_are_zero() -> None:
    assert paired_p([0.5, 0.5, 0.5]) is None
    assert paired_p([0.5 - 0.4, 0.6 - 0.5, 0.9 - 0.8]) is None  # equal but for how numbers are rounded
    assert paired_p([0.0, 0.0]) == 1.0
    assert paired_p([0.5]) is None
    assert paired_p([]) is None


def test_holms_adjustment_has_the_known_values() -> None:
    # The example of R's p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm").
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    assert holm([0.04, 0.001, 0.6, 0.03]) == pytest.approx([0.09, 0.004, 0.6, 0.09])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_questions_without_an_answer_do_not_count() -> None:
    assert holm([None, 0.02, None]) == [None, 0.02, None]


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8))
def test_adjusted_values_are_no_smaller_and_keep_their_order(p_values: list[float]) -> None:
    found = [value for value in holm(p_values) if value is not None]

    assert all(after >= before for before, after in zip(p_values, found, strict=True))
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(found)[order]) >= 0).all()
    assert max(found) <= 1.0


def test_seeds_without_a_value_do_not_count() -> None:
    record = seed_record([0.5, None, 0.7])

    assert record == estimate([0.5, 0.7]).record() | {"per_seed": [0.5, None, 0.7]}
    assert estimate_of(record) == estimate([0.5, 0.7])
    assert estimate_of(None) is estimate_of({}) is estimate_of(seed_record([])) is None


# ---------------------------------------------------------------- speedup


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


# ---------------------------------------------------------------- marking


def test_who_is_clearly_above_all_others_wins_alone() -> None:
    found = best({"low": [0.5, 0.61, 0.7], "high": [0.7, 0.8, 0.9], "lower": [0.41, 0.5, 0.6]})

    assert found == {"marked": ["high"], "winner": "high", "worse": ["low", "lower"]}


def test_whoever_is_level_with_the_best_is_marked_too_and_nobody_wins() -> None:
    found = best({"a": [0.9, 0.8, 0.7], "b": [0.88, 0.81, 0.7], "c": [0.5, 0.41, 0.3]})

    assert found == {"marked": ["a", "b"], "winner": None, "worse": ["c"]}


def test_nobody_is_marked_where_nobody_is_clearly_worse() -> None:
    assert best({"a": [0.9, 0.5, 0.7], "b": [0.6, 0.8, 0.6]}) == {"marked": [], "winner": None, "worse": []}


def test_methods_that_are_the_same_are_level() -> None:
    assert best({"a": [0.5, 0.6], "b": [0.5, 0.6]})["marked"] == []


def test_fewer_than_three_seeds_mark_nobody() -> None:
    assert best({"a": [0.9], "b": [0.1]}) == {"marked": [], "winner": None, "worse": []}
    assert best({"a": [0.5, 0.6], "b": [0.4, 0.5]}) == {"marked": [], "winner": None, "worse": []}
    assert best({"a": [0.9, 0.91], "b": [0.1, 0.1]}) == {"marked": [], "winner": None, "worse": []}
    assert best({"a": [0.9, None], "b": [None, 0.1]})["marked"] == []


def test_a_single_method_is_not_the_best_of_anything() -> None:
    assert best({"a": [0.9, 0.8]})["marked"] == best({})["marked"] == []


def test_more_rivals_need_clearer_differences() -> None:
    ours, theirs = [0.9, 0.8, 0.7, 0.6], [0.85, 0.71, 0.68, 0.5]  # p is 0.03

    assert best({"a": ours, "b": theirs})["winner"] == "a"
    crowd = {f"rival {at}": theirs for at in range(3)}
    assert best({"a": ours, **crowd}) == {"marked": [], "winner": None, "worse": []}


def test_lower_may_be_better() -> None:
    assert best({"a": [3.0, 4.0, 5.0], "b": [1.0, 2.1, 3.0]}, lower_is_better=True)["winner"] == "b"


def test_nobody_is_marked_below_a_method_that_lacks_the_seeds_to_be_judged_by() -> None:
    found = best({"lucky": [None, None, 0.99], "a": [0.7, 0.8, 0.9], "b": [0.5, 0.61, 0.7]})

    assert found == {"marked": [], "winner": None, "worse": ["b"]}


def test_a_method_that_lacks_seeds_is_judged_by_those_it_shares() -> None:
    found = best({"a": [0.7, 0.8, 0.9, 0.8], "short": [None, 0.61, 0.7, 0.6]})

    assert found == {"marked": ["a"], "winner": "a", "worse": ["short"]}


def test_a_method_that_lacks_a_seed_may_be_the_best() -> None:
    low, lowest = [0.5, 0.52, 0.51, 0.49, 0.5], [0.3, 0.31, 0.29, 0.3, 0.32]
    short = [None, 0.9, 0.91, 0.89, 0.9]

    assert best({"low": low, "short": short, "lowest": lowest})["marked"] == ["short"]
    assert best({"low": low, "short": short})["winner"] == "short"


def test_differences_without_spread_mark_nobody() -> None:
    assert best({"a": [0.5, 0.6, 0.7], "b": [0.4, 0.5, 0.6]})["marked"] == []


def test_nobody_is_marked_whom_another_clearly_beats() -> None:
    # On seeds 1 to 3 a is above b, on 4 to 6 b is above c, on 7 to 9 c is above a.
    above, below, none = [0.9, 0.8, 0.71], [0.5, 0.41, 0.3], [None] * 3

    found = best({"a": [*above, *none, *below], "b": [*below, *above, *none], "c": [*none, *below, *above]})

    assert found == {"marked": [], "winner": None, "worse": ["a", "b", "c"]}


def test_a_method_between_two_that_are_marked_is_marked_too() -> None:
    # a is clearly above b, and c varies so much that nothing is clear of it; d is clearly below a and b.
    found = best(
        {
            "a": [0.90, 0.91, 0.90, 0.91, 0.90],
            "b": [0.85, 0.86, 0.86, 0.86, 0.85],
            "c": [0.99, 0.7, 0.6, 0.95, 0.9],
            "d": [0.20, 0.21, 0.21, 0.22, 0.20],
        }
    )

    assert found == {"marked": ["a", "b", "c"], "winner": None, "worse": ["b", "d"]}


@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.floats(0.0, 1.0, width=16)), min_size=5, max_size=5), min_size=2, max_size=6
    ),
    st.booleans(),
)
def test_no_method_is_marked_while_one_with_a_better_mean_is_not(
    rows: list[list[float | None]], lower_is_better: bool
) -> None:
    figures = {str(at): row for at, row in enumerate(rows)}
    marked = best(figures, lower_is_better=lower_is_better)["marked"]

    assert isinstance(marked, list)
    known = {name: [one for one in row if one is not None] for name, row in figures.items()}
    means = {name: sum(row) / len(row) * (-1 if lower_is_better else 1) for name, row in known.items() if row}
    if marked:
        floor = min(means[str(name)] for name in marked)
        assert all(name in marked for name, mean in means.items() if mean > floor + 1e-9)


@pytest.mark.parametrize("n_methods", [2, 8])
def test_equal_methods_are_marked_in_no_more_than_a_twentieth_of_all_comparisons(n_methods: int) -> None:
    draws, n_marked = stream(0, "equal methods", n_methods), 0
    for _ in range(300):
        figures = draws.normal(size=(n_methods, 5))
        n_marked += bool(best({str(at): row.tolist() for at, row in enumerate(figures)})["marked"])

    assert n_marked / 300 < 0.08


def test_the_best_is_sought_among_those_with_the_most_seeds() -> None:
    found = best({"short": [None, None, 1.5], "a": [1.0, 1.1, 1.2], "b": [3.0, 3.0, 3.1]}, lower_is_better=True)

    assert found == {"marked": ["a"], "winner": None, "worse": ["b"]}


def test_a_method_that_is_better_on_the_seeds_it_has_is_not_worse() -> None:
    found = best({"a": [0.7, 0.8, 0.75, 0.1], "short": [0.71, 0.82, 0.75, None], "c": [0.2, 0.31, 0.24, -0.4]})

    assert found == {"marked": ["a", "short"], "winner": None, "worse": ["c"]}
