"""Real time cut into intervals: spans such as ``"6h"``, calendar months, and which interval a moment falls into."""

import re
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Vector
from fielding.errors import InputError, OptionError, echo, unknown_name

Interval: TypeAlias = float | Literal["month"]
"""A number of seconds (or of whatever unit the times of a trace have), or calendar months in UTC."""
Align: TypeAlias = Literal["calendar", "client"]
"""``"calendar"``: one origin for all clients; ``"client"``: every client's own first sample."""

ALIGNMENTS: dict[str, str] = {
    "calendar": "real dates: interval 0 begins at the same moment for all clients",
    "client": "each client's own time: interval 0 begins at its first sample",
}
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
MOST_INTERVALS = 2**31
MOST_BLOCKS = 2**53  # blocks since time 0 beyond this cannot be told apart
BY_SAMPLE = "none"  # the block of a trace that is split into train and test sample by sample
LAST_MOMENT = 1e11  # unix seconds beyond this (year 5138) have no calendar month: they are no dates but mistakes

EPOCH_UNITS = {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
"""Units in which others count the time since 1970, and how many of them a second has."""

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([smhdw]?)")


def parse_interval(text: str | float) -> Interval:
    """Return the interval that a text such as ``"1d"`` means, in seconds, or ``"month"``.

    ``text``: a number of seconds, a number with one of the units s, m, h, d, w, or ``"month"``.

    Examples
    --------
    >>> parse_interval("90m"), parse_interval("2w"), parse_interval("30"), parse_interval("month")
    (5400.0, 1209600.0, 30.0, 'month')
    """
    if text == "month":
        return "month"
    return parse_span(text)


def parse_span(text: str | float) -> float:
    """Return a length of time in seconds; months are refused because they differ in length."""
    match = _DURATION.fullmatch(str(text).strip())
    seconds = float(match[1]) * SECONDS.get(match[2], 1.0) if match else 0.0
    if isinstance(text, bool) or not 0.0 < seconds < np.inf:
        raise OptionError(f"{echo(text)} is no length of time; give a number of seconds, or one with s, m, h, d or w")
    return seconds


def parse_block(text: str | float) -> float | None:
    """Return the length of the blocks that train and test are split by, in seconds; None for ``"none"``: by sample.

    Examples
    --------
    >>> parse_block("1h"), parse_block("none")
    (3600.0, None)
    """
    return None if text == BY_SAMPLE else parse_span(text)


def checked_align(align: str) -> Align:
    """Return the alignment, or raise with the known ones."""
    if align == "calendar":
        return "calendar"
    if align == "client":
        return "client"
    raise unknown_name("alignment", align, ALIGNMENTS)


def epoch_seconds(time: Vector, *, name: str = "time") -> tuple[Vector, str | None]:
    """Return times in seconds, and what to tell the user if they were meant as a smaller unit since 1970, or as dates.

    As seconds, today in milliseconds lies in the year 55,000. So numbers that all lie between 1973 and 5138 if they are
    taken for milliseconds are (likewise for micro- and nanoseconds, whose ranges do not meet); others stay as they are.

    Examples
    --------
    >>> time, note = epoch_seconds(np.array([1.7e12, 1.7e12 + 500.0]))
    >>> time.tolist()
    [1700000000.0, 1700000000.5]
    >>> print(note)
    the numbers of time are taken for milliseconds since 1970: 2023-11-14 to 2023-11-14; give seconds if they are not

    Numbers that are all dates without their hyphens, from 1900 to 2100, are dates.

    >>> time, note = epoch_seconds(np.array([20220131.0, 20220201.0]))
    >>> print(time[1] - time[0], note)
    86400.0 the numbers of time are taken for dates: 2022-01-31 to 2022-02-01; give seconds if they are not
    """
    if (dates := _compact_dates(time)) is not None:
        first, last = (str(one) for one in (dates.min(), dates.max()))
        words = f"the numbers of {name} are taken for dates: {first} to {last}"
        return dates.astype("datetime64[s]").astype(np.float64), f"{words}; give seconds if they are not"
    for unit, per_second in EPOCH_UNITS.items():
        least = LAST_MOMENT * per_second / 1e3
        if time.size and least <= float(time.min()) and float(time.max()) < least * 1e3:
            seconds = time / per_second
            first, last = (str(np.datetime64(int(one), "s"))[:10] for one in (seconds.min(), seconds.max()))
            words = f"the numbers of {name} are taken for {unit} since 1970: {first} to {last}"
            return seconds, f"{words}; give seconds if they are not"
    return time, None


def _compact_dates(time: Vector) -> npt.NDArray[np.datetime64] | None:
    """Return the days that numbers such as 20220131 stand for; None if one of them is no such number."""
    if not time.size or not (float(time.min()) >= 1900_01_01 and float(time.max()) <= 2100_12_31) or (time % 1.0).any():
        return None
    distinct, codes = np.unique(time.astype(np.int64), return_inverse=True)
    texts = [str(one) for one in distinct.tolist()]
    try:
        days = np.array([f"{one[:4]}-{one[4:6]}-{one[6:]}" for one in texts], dtype="datetime64[D]")
    except ValueError:
        return None
    return np.asarray(days[codes])


def natural_unit(span: float) -> float:
    """Return the longest of day, hour, minute and second that divides a span, or 0 if none does.

    Intervals of whole days begin at midnight (UTC), those of whole hours at the full hour: real dates, not
    the accident of when the first sample came.

    Examples
    --------
    >>> natural_unit(30 * 86400.0), natural_unit(5400.0), natural_unit(0.5)
    (86400.0, 60.0, 0.0)
    """
    return next((SECONDS[unit] for unit in "dhms" if span % SECONDS[unit] == 0.0), 0.0)


def interval_indices(time: Vector, interval: Interval, first: Vector | float) -> Counts:
    """Return the interval into which each moment falls, 0 being the one in which ``first`` lies.

    ``first``: one moment for all rows or one per row, none later than its row's time.
    """
    if interval == "month":
        return month_numbers(time) - month_numbers(np.asarray(first, dtype=np.float64))
    indices = np.floor((time - first) / interval)
    if indices.size and not float(indices.max()) < MOST_INTERVALS:
        raise InputError(
            f"the times span {float(np.ptp(time)):g}, which is {float(indices.max()):.3g} intervals of {interval:g}; "
            "give a longer interval"
        )
    return indices.astype(np.int64)


def month_numbers(time: Vector) -> Counts:
    """Return the calendar month (UTC) of unix seconds as months since January 1970."""
    if time.size and not float(np.abs(time).max()) < LAST_MOMENT:
        raise InputError(
            f"time {float(time.flat[np.abs(time).argmax()]):g} is no date in unix seconds; give an interval in seconds"
        )
    seconds = np.floor(time).astype(np.int64).astype("datetime64[s]")
    return seconds.astype("datetime64[M]").astype(np.int64)
