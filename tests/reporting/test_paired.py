import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fielding.errors import InputError
from fielding.reporting.numbers.paired import (
    estimate,
    estimate_of,
    holm,
    paired_difference,
    paired_p,
    seed_record,
    t_interval,
)

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
