from pathlib import Path

import numpy as np
import pytest
from fielding.simulation.availability import AlwaysAvailable, IntervalAvailability, Intervals, read_availability
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import FileFormatError, InputError

N_CLIENTS = 3

# Whole and half seconds: moments then often are a start or a stop.
HALVES = st.integers(0, 40).map(lambda halves: halves / 2)
ROWS = st.lists(
    st.tuples(st.integers(0, N_CLIENTS - 1), HALVES, HALVES).map(lambda row: (row[0], min(row[1:]), max(row[1:]))),
    max_size=15,
)


def intervals_of(rows: list[tuple[int, float, float]], finish_s: list[float] | None = None) -> Intervals:
    return Intervals(
        clients=np.array([client for client, _, _ in rows], dtype=np.int64),
        start_s=np.array([start for _, start, _ in rows], dtype=np.float64),
        stop_s=np.array([stop for _, _, stop in rows], dtype=np.float64),
        finish_s=None if finish_s is None else np.array(finish_s, dtype=np.float64),
    )


def is_available(rows: list[tuple[int, float, float]], client: int, time_s: float, extra: float) -> bool:
    """Say the same as the class, one client and one interval at a time."""
    own = [(start, stop) for owner, start, stop in rows if owner == client]
    period = max((stop for _, stop in own), default=0.0) + extra
    return any(start <= time_s % period < stop for start, stop in own) if period else False


@given(ROWS, st.lists(st.tuples(st.integers(0, N_CLIENTS - 1), st.integers(0, 300)), max_size=20), HALVES | st.none())
def test_available_says_what_a_search_through_all_intervals_says(
    rows: list[tuple[int, float, float]], queries: list[tuple[int, int]], extra: float | None
) -> None:
    last = {client: max(stop for owner, _, stop in rows if owner == client) for client, _, _ in rows}
    finish = None if extra is None else [last[client] + extra for client, _, _ in rows]
    availability = IntervalAvailability(N_CLIENTS, intervals_of(rows, finish))
    clients = np.array([client for client, _ in queries], dtype=np.int64)
    times = np.array([halves / 2 for _, halves in queries], dtype=np.float64)

    answers = availability.available(clients, times).tolist()

    expected = [is_available(rows, client, time, extra or 0.0) for client, time in zip(clients, times, strict=True)]
    assert answers == expected
    assert availability.available(clients[::-1], times[::-1]).tolist() == expected[::-1]


def test_the_start_belongs_to_an_interval_and_the_stop_does_not() -> None:
    availability = IntervalAvailability(1, intervals_of([(0, 2.0, 4.0)], [10.0]))

    assert [bool(availability.available(np.array([0]), time)[0]) for time in (1.9, 2.0, 3.9, 4.0)] == [
        False,
        True,
        True,
        False,
    ]


def test_intervals_repeat_after_the_last_stop_or_the_finish_that_is_given() -> None:
    short, long = (
        IntervalAvailability(1, intervals_of([(0, 0.0, 1.0), (0, 3.0, 4.0)], end)) for end in (None, [6.0, 6.0])
    )

    assert [bool(short.available(np.array([0]), float(time))[0]) for time in range(3, 8)] == [1, 1, 0, 0, 1]
    assert [bool(long.available(np.array([0]), float(time))[0]) for time in range(3, 8)] == [1, 0, 0, 1, 0]


def test_a_long_interval_is_not_hidden_by_a_short_one_inside_it() -> None:
    availability = IntervalAvailability(2, intervals_of([(0, 0.0, 9.0), (0, 1.0, 2.0), (1, 0.0, 1.0)], [9, 9, 9]))

    assert availability.available(np.array([0, 1]), 5.0).tolist() == [True, False]


def test_a_client_without_an_interval_is_never_available() -> None:
    availability = IntervalAvailability(3, intervals_of([(0, 0.0, 5.0), (2, 1.0, 1.0)]))

    assert availability.available(np.array([0, 1, 2]), 1.0).tolist() == [True, False, False]


def test_without_any_interval_nobody_is_available() -> None:
    assert IntervalAvailability(2, intervals_of([])).available(np.array([1, 0]), 1.0).tolist() == [False, False]


def test_always_is_always() -> None:
    assert AlwaysAvailable().available(np.array([0, 5]), np.array([0.0, 1e9])).tolist() == [True, True]


def write(folder: Path, content: str) -> Path:
    path = folder / "hours.csv"
    path.write_text(content)
    return path


def test_a_file_is_read_in_any_order_of_rows_with_strangers_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, "client,start_s,stop_s\nb,5,6\nstranger,0,99\na,2,3\nb,0,1\n")

    availability = read_availability(path, ["a", "b"])

    assert [availability.available(np.array([0, 1]), time).tolist() for time in (0.0, 2.5, 5.5)] == [
        [False, True],
        [True, False],
        [True, True],  # a repeats every 3 seconds
    ]


def test_a_file_may_say_when_the_intervals_repeat(tmp_path: Path) -> None:
    availability = read_availability(write(tmp_path, "client,start_s,stop_s,finish_s\n1,0,1,10\n1,2,3,10\n"), [1])

    assert [bool(availability.available(np.array([0]), time)[0]) for time in (2.5, 3.5, 10.5)] == [True, False, True]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("client,start_s,stop_s\na,0,1\na,5,4\n", "line 3, column 'stop_s': '4' is before its start_s"),
        ("client,start_s,stop_s\na,-1,1\n", "line 2, column 'start_s': '-1' is no moment in seconds"),
        ("client,start_s,stop_s\na,0,soon\n", "line 2, column 'stop_s': 'soon' is no number"),
        ("client,start_s,stop_s,finish_s\na,0,2,1\n", "line 2, column 'finish_s': '1' is before its stop_s"),
        ("client,start_s,stop_s,finish_s\na,0,2,5\nb,0,1,9\na,2,3,6\n", "line 4, column 'finish_s': '6' is not the"),
        ("client,start_s,stop_s\nb,0,1\n", "no row for client 'a'"),
        ("start_s,stop_s\n0,1\n", "client"),
    ],
)
def test_mistakes_in_a_file_are_named_by_line_and_column(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_availability(write(tmp_path, content), ["a"])


def test_intervals_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="clients of intervals hold 1; give whole numbers from 0 to 0"):
        IntervalAvailability(1, intervals_of([(1, 0.0, 1.0)]))
    with pytest.raises(InputError, match="stop_s of interval 1 is before its start_s"):
        IntervalAvailability(1, intervals_of([(0, 0.0, 1.0), (0, 2.0, 1.0)]))
    with pytest.raises(InputError, match=r"finish_s has shape \(2,\), clients \(1,\)"):
        IntervalAvailability(1, intervals_of([(0, 0.0, 1.0)], [1.0, 1.0]))
    with pytest.raises(InputError, match=r"start_s holds \[nan\]"):
        IntervalAvailability(1, intervals_of([(0, np.nan, 1.0)]))
