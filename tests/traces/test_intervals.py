import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import InputError, OptionError
from fielding.traces.intervals import (
    Interval,
    checked_align,
    interval_indices,
    month_numbers,
    natural_unit,
    parse_interval,
    parse_span,
)

DAY = 86_400.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1d", DAY),
        ("6h", 21_600.0),
        ("30d", 30 * DAY),
        ("90m", 5400.0),
        ("2w", 14 * DAY),
        ("5s", 5.0),
        ("0.5h", 1800.0),
        ("3600", 3600.0),
        (" 1 d ", DAY),
        (10, 10.0),
        (2.5, 2.5),
    ],
)
def test_lengths_of_time_are_read_as_seconds(text: str | float, seconds: float) -> None:
    assert parse_interval(text) == seconds
    assert parse_span(text) == seconds


def test_a_month_is_an_interval_but_no_span() -> None:
    assert parse_interval("month") == "month"
    with pytest.raises(OptionError, match=r"^'month' is no length of time; give a number of seconds"):
        parse_span("month")


@pytest.mark.parametrize("text", ["", "d", "0", "0d", "-1d", "1y", "1d2h", "nan", "inf", "1e3", "٣d", "9" * 400, True])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="is no length of time"):
        parse_interval(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(OptionError):
        parsed = parse_interval(text)
        assert parsed == "month" or parsed > 0.0


@pytest.mark.parametrize(
    ("span", "unit"), [(14 * DAY, DAY), (36 * 3600.0, 3600.0), (5400.0, 60.0), (5.0, 1.0), (0.5, 0.0)]
)
def test_the_natural_unit_is_the_longest_that_fits(span: float, unit: float) -> None:
    assert natural_unit(span) == unit


def test_intervals_are_counted_from_the_first_moment() -> None:
    assert interval_indices(np.array([10.0, 14.9, 15.0, 25.0]), 5.0, 10.0).tolist() == [0, 0, 1, 3]


def test_months_follow_the_calendar() -> None:
    end_of_january, february, next_january = 31 * DAY - 1.0, 31 * DAY, 365 * DAY
    month: Interval = "month"

    moments = np.array([end_of_january, february, next_january])
    assert interval_indices(moments, month, np.full(3, end_of_january)).tolist() == [0, 1, 12]
    assert month_numbers(np.array([-1.0])).tolist() == [-1]


def test_moments_that_are_no_dates_have_no_month() -> None:
    with pytest.raises(InputError, match=r"^time 1e\+12 is no date in unix seconds; give an interval in seconds"):
        month_numbers(np.array([0.0, 1e12]))


def test_an_interval_that_is_far_too_short_is_refused() -> None:
    with pytest.raises(InputError, match="give a longer interval"):
        interval_indices(np.array([0.0, 1e12]), 1e-3, 0.0)


def test_an_unknown_alignment_names_the_known_ones() -> None:
    with pytest.raises(OptionError, match=r"unknown alignment 'clients'; did you mean 'client'\?"):
        checked_align("clients")
