"""What clients run on, and when they can be reached: profiles, files, and ids in them."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import FileFormatError, InputError, OptionError
from fielding.rng import client_key
from fielding.simulation.hardware import (
    PROFILES,
    AlwaysAvailable,
    Devices,
    IntervalAvailability,
    Intervals,
    bounded_parser,
    devices_of,
    read_availability,
    read_devices,
    rows_of_clients,
    synthetic_devices,
)
from fielding.traces.csv_table import CellError, CsvTable, NameColumn

MANY_KEYS = np.arange(100_000, dtype=np.uint64)


def write(folder: Path, content: str) -> Path:
    path = folder / "devices.csv"
    path.write_text(content)
    return path


def harmonic_mean(numbers: np.ndarray) -> float:
    return float(1.0 / np.mean(1.0 / numbers))


def test_the_synthetic_profile_has_the_means_that_the_paper_implies() -> None:
    devices = synthetic_devices(MANY_KEYS, seed=1)

    assert harmonic_mean(devices.kbps) == pytest.approx(5950, rel=0.01)
    assert np.median(devices.kbps) == pytest.approx(8200, rel=0.01)
    assert np.std(np.log(devices.kbps)) == pytest.approx(0.8, rel=0.01)
    assert devices.ms_per_sample.mean() == pytest.approx(42, rel=0.02)
    assert np.median(devices.ms_per_sample) == pytest.approx(33, rel=0.01)
    assert (devices.ms_per_sample.min(), devices.ms_per_sample.max()) == (15.0, 199.0)


def test_the_slow_profile_has_the_slow_quarter_that_others_saw_in_the_trace() -> None:
    devices = synthetic_devices(MANY_KEYS, 1, PROFILES["synthetic-slow"])

    assert np.median(devices.kbps) == pytest.approx(6100, rel=0.02)
    assert np.mean(devices.kbps < 3000) == pytest.approx(0.26, abs=0.01)


def test_computing_and_bandwidth_are_independent() -> None:
    devices = synthetic_devices(MANY_KEYS, seed=1)

    assert abs(np.corrcoef(np.log(devices.kbps), np.log(devices.ms_per_sample))[0, 1]) < 0.01


def test_bandwidths_are_log_normal_in_the_tails_too() -> None:
    deviations = np.log(synthetic_devices(MANY_KEYS, seed=3).kbps / 8200) / 0.8

    assert np.mean(deviations < -1.0) == pytest.approx(0.1587, abs=0.005)
    assert np.mean(deviations > 2.0) == pytest.approx(0.0228, abs=0.002)


def test_uniform_devices_are_all_the_mean() -> None:
    devices = devices_of("uniform", [3, 1, 2], seed=9)

    assert devices.ms_per_sample.tolist() == [42.0] * 3
    assert devices.kbps.tolist() == [6000.0] * 3


def test_a_device_belongs_to_the_client_not_to_its_position() -> None:
    few, more = devices_of("synthetic", ["a", "b"], seed=1), devices_of("synthetic", ["x", "b", "a"], seed=1)

    assert few.kbps.tolist() == more.kbps[[2, 1]].tolist()
    assert few.ms_per_sample.tolist() == more.ms_per_sample[[2, 1]].tolist()
    keys = np.array([client_key("a"), client_key("b")], dtype=np.uint64)
    assert few.kbps.tolist() == synthetic_devices(keys, 1).kbps.tolist()


def test_another_seed_gives_other_devices() -> None:
    first, second = (synthetic_devices(MANY_KEYS, seed) for seed in (1, 2))

    assert not (first.kbps == second.kbps).any()


def test_a_file_with_ids_gives_every_client_its_own_row(tmp_path: Path) -> None:
    path = write(tmp_path, "client,kbps,ms_per_sample\n7,700,70\n5,500,50\n6,600,60\n")

    devices = devices_of(str(path), [5, 7], seed=1)

    assert devices.kbps.tolist() == [500.0, 700.0]
    assert devices.ms_per_sample.tolist() == [50.0, 70.0]


def test_a_file_without_ids_is_dealt_in_turn(tmp_path: Path) -> None:
    path = write(tmp_path, "ms_per_sample,kbps\n10,1000\n20,2000\n")

    assert devices_of(path, ["a", "b", "c"], seed=1).kbps.tolist() == [1000.0, 2000.0, 1000.0]


def test_a_gzipped_file_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "devices.csv.gz"
    path.write_bytes(gzip.compress(b"ms_per_sample,kbps\n10,1000\n", mtime=0))

    assert len(read_devices(path, ["a", "b"])) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("ms_per_sample,kbps\n10,1000\n20,fast\n", r"line 3, column 'kbps': 'fast' is no number"),
        ("ms_per_sample,kbps\n0,1000\n", r"line 2, column 'ms_per_sample': '0' is no speed of a device; give a number"),
        ("ms_per_sample,kbps\n10,-1\n", r"line 2, column 'kbps': '-1' is no speed"),
        ("ms_per_sample,kbps\n10,1e-300\n", r"line 2, column 'kbps': '1e-300' is no speed"),
        ("ms_per_sample,kbps\nnan,1\n", r"line 2, column 'ms_per_sample': 'nan' is no finite number"),
        ("ms_per_sample,kbps\n", "has a header but no rows"),
        ("ms_per_sample,kbp\n1,2\n", "kbps"),
        ("client,ms_per_sample,kbps\na,1,2\nb,1,2\na,1,2\n", "line 4, column 'client': 'a' is there twice"),
        ("client,ms_per_sample,kbps\na,1,2\n", r"no row for client 'b' \(1 of 2 clients are missing\)"),
        ("client,ms_per_sample,kbps\n,1,2\n", "line 2, column 'client': '' is empty"),
    ],
)
def test_mistakes_in_a_file_of_devices_are_named_by_line_and_column(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_devices(write(tmp_path, content), ["a", "b"])


def test_an_unknown_profile_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        OptionError, match=r"unknown device profile 'synthetik'; did you mean 'synthetic'\? .*or the path of a CSV file"
    ):
        devices_of("synthetik", [1], seed=1)


def test_a_mistyped_path_is_treated_as_a_path(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"devises\.csv"):
        devices_of(str(tmp_path / "devises.csv"), [1], seed=1)


def test_devices_need_one_positive_number_of_each_kind_per_client() -> None:
    with pytest.raises(InputError, match=r"shape \(2,\) and kbps \(1,\)"):
        Devices(ms_per_sample=np.ones(2), kbps=np.ones(1))
    with pytest.raises(InputError, match=r"kbps of client 1 is nan"):
        Devices(ms_per_sample=np.ones(2), kbps=np.array([1.0, np.nan]))


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


def write_hours(folder: Path, content: str) -> Path:
    path = folder / "hours.csv"
    path.write_text(content)
    return path


def test_a_file_is_read_in_any_order_of_rows_with_strangers_left_out(tmp_path: Path) -> None:
    path = write_hours(tmp_path, "client,start_s,stop_s\nb,5,6\nstranger,0,99\na,2,3\nb,0,1\n")

    availability = read_availability(path, ["a", "b"])

    assert [availability.available(np.array([0, 1]), time).tolist() for time in (0.0, 2.5, 5.5)] == [
        [False, True],
        [True, False],
        [True, True],  # a repeats every 3 seconds
    ]


def test_a_file_may_say_when_the_intervals_repeat(tmp_path: Path) -> None:
    availability = read_availability(write_hours(tmp_path, "client,start_s,stop_s,finish_s\n1,0,1,10\n1,2,3,10\n"), [1])

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
def test_mistakes_in_a_file_of_hours_are_named_by_line_and_column(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_availability(write_hours(tmp_path, content), ["a"])


def test_intervals_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="clients of intervals hold 1; give whole numbers from 0 to 0"):
        IntervalAvailability(1, intervals_of([(1, 0.0, 1.0)]))
    with pytest.raises(InputError, match="stop_s of interval 1 is before its start_s"):
        IntervalAvailability(1, intervals_of([(0, 0.0, 1.0), (0, 2.0, 1.0)]))
    with pytest.raises(InputError, match=r"finish_s has shape \(2,\), clients \(1,\)"):
        IntervalAvailability(1, intervals_of([(0, 0.0, 1.0)], [1.0, 1.0]))
    with pytest.raises(InputError, match=r"start_s holds \[nan\]"):
        IntervalAvailability(1, intervals_of([(0, np.nan, 1.0)]))


TABLE = CsvTable(path=Path("f.csv"), header=("client",))


def names(*texts: str) -> NameColumn:
    column = NameColumn()
    column.add(texts)
    return column


def test_rows_are_found_by_id_and_strangers_are_marked() -> None:
    assert rows_of_clients(TABLE, names("b", "x", "a", "b"), ["a", "b"]).tolist() == [1, -1, 0, 1]


def test_whole_numbers_are_compared_as_they_are_written() -> None:
    assert rows_of_clients(TABLE, names("10", "-2"), [-2, 10]).tolist() == [1, 0]
    with pytest.raises(FileFormatError, match=r"f\.csv has no row for client 10"):
        rows_of_clients(TABLE, names("010"), [10])


def test_the_first_missing_client_of_the_run_is_named() -> None:
    with pytest.raises(FileFormatError, match=r"no row for client 'z' \(2 of 3 clients are missing\)"):
        rows_of_clients(TABLE, names("m"), ["z", "m", "a"])


def test_bounds_belong_to_what_is_allowed() -> None:
    parse = bounded_parser("share", least=0.0, most=1.0)

    assert parse(["0", "1", "0.5"]).tolist() == [0.0, 1.0, 0.5]
    with pytest.raises(CellError, match="position 1: no share; give a number from 0 to 1"):
        parse(["0", "1.1"])
