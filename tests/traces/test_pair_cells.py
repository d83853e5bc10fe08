import numpy as np

from fielding.traces.diagnosis import MOST_CLIENTS, MOST_PAIRS, pair_cells
from fielding.traces.trace import Trace
from tests.traces.dealt_traces import INTERVAL, dealt_trace


def regular(n_clients: int, n_intervals: int, n_samples: int) -> Trace:
    """Return a trace in which everybody has so many samples per interval of a second."""
    cells = np.repeat(np.arange(n_clients * n_intervals), n_samples)
    return Trace(
        client_ids=tuple(range(n_clients)),
        client=(cells // n_intervals).astype(np.int32),
        time=(cells % n_intervals).astype(np.float64),
        y=np.zeros(cells.size, dtype=np.int32),
        classes=("all",),
    )


def test_pairs_are_neighbors_in_time_or_share_an_interval() -> None:
    trace = dealt_trace("static", n_clients=9, n_intervals=5)
    interval_of = trace.interval_of(INTERVAL)

    over_time, between, halves = pair_cells(trace, interval_of, least=10)

    assert len(over_time) == 9 * 4
    for first, second in zip(over_time.first, over_time.second, strict=True):
        assert set(trace.client[first].tolist()) == set(trace.client[second].tolist())
        assert interval_of[first][0] + 1 == interval_of[second][0]
        assert np.unique(interval_of[first]).size == np.unique(interval_of[second]).size == 1
    assert len(between) == 4 * 5
    for first, second in zip(between.first, between.second, strict=True):
        assert trace.client[first][0] != trace.client[second][0]
        assert set(interval_of[first].tolist()) == set(interval_of[second].tolist())
    assert len(halves) == 9 * 2
    for first, second in zip(halves.first, halves.second, strict=True):
        assert set(trace.client[first].tolist()) == set(trace.client[second].tolist())
        assert interval_of[first][0] + 2 == interval_of[second][0]
    for pairs in (between, halves):
        everything = np.concatenate([*pairs.first, *pairs.second])
        assert np.unique(everything).size == everything.size


def test_costs_are_bounded() -> None:
    trace = regular(MOST_CLIENTS + 100, 30, 3)

    over_time, between, halves = pair_cells(trace, trace.interval_of("1s"), least=1, most=2)

    assert len(over_time) == len(halves) == MOST_PAIRS
    assert MOST_PAIRS - 40 <= len(between) <= MOST_PAIRS
    assert {rows.size for rows in over_time.first} == {2}
    assert np.unique(trace.client[between.rows()]).size <= MOST_CLIENTS
    n_intervals = np.unique(trace.time[over_time.rows()]).size
    assert n_intervals >= 8, "no single interval speaks for all"


def test_small_cells_and_rows_that_may_not_be_used_are_left_out() -> None:
    trace = regular(4, 3, 5)
    is_usable = np.arange(trace.n_rows) % 5 > 0

    assert len(pair_cells(trace, trace.interval_of("1s"), least=5, is_usable=is_usable)[0]) == 0
    over_time, _, _ = pair_cells(trace, trace.interval_of("1s"), least=4, is_usable=is_usable)
    assert len(over_time) == 8
    assert is_usable[over_time.rows()].all()


def test_rows_count_as_many_samples_as_they_stand_for() -> None:
    few = regular(2, 2, 1)
    many = Trace(
        client_ids=few.client_ids, client=few.client, time=few.time, y=few.y, classes=few.classes, count=np.full(4, 20)
    )

    assert len(pair_cells(few, few.interval_of("1s"), least=20)[1]) == 0
    assert len(pair_cells(many, many.interval_of("1s"), least=20)[1]) == 2


def test_an_interval_that_a_client_missed_parts_its_neighbors() -> None:
    trace = regular(1, 3, 4)
    gap = trace.rows(trace.time != 1.0)

    assert len(pair_cells(gap, gap.interval_of("1s"), least=1)[0]) == 0
