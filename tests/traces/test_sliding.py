import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fielding.client.drift import AnyChange
from fielding.client.fleet import Fleet
from fielding.client.ranges import Ranges
from fielding.traces.histograms import WindowPlan
from fielding.traces.pool import Pool
from fielding.traces.schedule import Schedule, sort_schedule
from fielding.traces.sliding import SlidingWindows


@st.composite
def dealt(draw: st.DrawFn) -> tuple[Pool, Schedule, WindowPlan]:
    n_clients, n_intervals, n_pool = draw(st.integers(1, 4)), draw(st.integers(1, 8)), draw(st.integers(1, 30))
    n_rows = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    pool = Pool(
        x=rng.random((n_pool, 2), dtype=np.float32),
        y=rng.integers(0, 3, n_pool).astype(np.int32),
        classes=("a", "b", "c"),
    )
    sample = rng.integers(0, n_pool, n_rows)
    columns = (
        rng.integers(0, n_clients, n_rows),
        rng.integers(0, n_intervals, n_rows),
        sample,
        pool.y[sample],
        np.zeros(n_rows),
    )
    schedule = sort_schedule(tuple(range(n_clients)), n_intervals, columns=columns)
    gap = draw(st.integers(1, 4))
    return pool, schedule, WindowPlan(gap=gap, window=gap * draw(st.integers(1, 3)) + draw(st.integers(0, gap - 1)))


def naive_rows(schedule: Schedule, plan: WindowPlan, client: int, round_index: int) -> list[int]:
    """Recount a window row by row, straight from METHODS.md B6."""
    complete = [j for j in range(schedule.n_intervals) if (j + 1) * plan.gap <= plan.lead + round_index]
    complete = complete or [0]
    visible = complete[-((plan.lead + plan.gap - 1) // plan.gap) :]
    return [
        row
        for row in range(schedule.client.size)
        if schedule.client[row] == client and schedule.interval[row] in visible
    ]


@given(dealt(), st.integers(0, 40))
def test_windows_are_what_a_naive_recount_finds(made: tuple[Pool, Schedule, WindowPlan], round_index: int) -> None:
    pool, schedule, plan = made
    windows = SlidingWindows(pool, schedule, plan)
    is_test = pool.is_test()[schedule.sample]

    for client in range(schedule.n_clients):
        expected = naive_rows(schedule, plan, client, round_index)
        train, _ = windows.training(round_index).of(np.array([client]))
        test, _ = windows.testing(round_index).of(np.array([client]))
        assert train.tolist() == [row for row in expected if not is_test[row]]
        assert test.tolist() == [row for row in expected if is_test[row]]


@given(dealt(), st.integers(0, 40))
def test_a_fleet_fed_interval_by_interval_counts_what_the_windows_show(
    made: tuple[Pool, Schedule, WindowPlan], round_index: int
) -> None:
    pool, schedule, plan = made
    windows = SlidingWindows(pool, schedule, plan)
    fleet = Fleet(schedule.n_clients, 3, drift_test=AnyChange(), max_rounds=plan.n_visible * plan.gap)

    for interval in range(windows.n_complete(round_index)):
        fleet.arrive(windows.arrivals(interval), (interval + 1) * plan.gap)

    rows, sizes = windows.training(round_index).of(np.arange(schedule.n_clients))
    owner = np.repeat(np.arange(schedule.n_clients), sizes)
    recount = np.zeros((schedule.n_clients, 3), dtype=np.int64)
    np.add.at(recount, (owner, schedule.y[rows]), 1)
    assert fleet.counts.tolist() == recount.tolist()


def test_next_samples_are_those_of_the_interval_to_come_and_none_after_the_last() -> None:
    pool = Pool(x=np.eye(3, dtype=np.float32), y=np.zeros(3, dtype=np.int32), classes=("a",))
    schedule = sort_schedule((0,), 3, columns=([0, 0, 0], [0, 1, 2], [0, 1, 2], [0, 0, 0], [0, 0, 0]))
    windows = SlidingWindows(pool, schedule, WindowPlan(gap=1, window=1))

    assert [windows.next(at).of(np.array([0]))[0].tolist() for at in range(3)] == [[1], [2], []]


def test_a_test_sample_is_never_trained_on_by_anybody() -> None:
    pool = Pool(x=np.eye(50, dtype=np.float32), y=np.zeros(50, dtype=np.int32), classes=("a",))
    sample = np.tile(np.arange(50), 2)
    schedule = sort_schedule(
        (0, 1), 1, columns=(np.repeat([0, 1], 50), np.zeros(100), sample, np.zeros(100), np.zeros(100))
    )
    windows = SlidingWindows(pool, schedule, WindowPlan(gap=1, window=1))

    trained, _ = windows.training(0).of(np.array([0, 1]))
    tested, _ = windows.testing(0).of(np.array([0, 1]))
    assert not set(schedule.sample[trained].tolist()) & set(schedule.sample[tested].tolist())
    assert trained.size + tested.size == 100


def test_gathered_samples_look_as_their_look_says_whatever_the_order() -> None:
    class Negative:
        def apply(self, x: np.ndarray) -> np.ndarray:
            return -x

    from fielding.traces.schedule import AS_IS

    pool = Pool(x=np.array([[1.0], [2.0]], dtype=np.float32), y=np.zeros(2, dtype=np.int32), classes=("a", "b"))
    schedule = sort_schedule(
        (0,), 1, columns=([0, 0, 0], [0, 0, 0], [0, 1, 1], [0, 1, 0], [0, 1, 0]), looks=(AS_IS, Negative())
    )

    x, y = SlidingWindows(pool, schedule, WindowPlan(gap=1, window=1)).gather(np.array([1, 0, 2]))

    assert x.tolist() == [[-2.0], [1.0], [2.0]]
    assert y.tolist() == [1, 0, 0]
    assert pool.x.tolist() == [[1.0], [2.0]]


@given(dealt(), st.data())
def test_blocks_are_what_a_naive_recount_finds(made: tuple[Pool, Schedule, WindowPlan], data: st.DataObject) -> None:
    pool, schedule, plan = made
    windows = SlidingWindows(pool, schedule, plan)
    is_test = pool.is_test()[schedule.sample]
    intervals = st.sets(st.integers(0, schedule.n_intervals - 1)).map(sorted)
    jobs = data.draw(st.lists(st.tuples(st.integers(0, schedule.n_clients - 1), intervals), max_size=6))
    clients = np.array([client for client, _ in jobs], dtype=np.int64)

    found = windows.training_blocks(clients, [np.array(block, dtype=np.int64) for _, block in jobs])

    assert found.start.size == len(jobs)
    for job, (client, block) in enumerate(jobs):
        expected = [
            row
            for row in range(schedule.client.size)
            if schedule.client[row] == client and schedule.interval[row] in block and not is_test[row]
        ]
        assert found.of(np.array([job]))[0].tolist() == expected


def three_clients() -> SlidingWindows:
    """Return windows of one interval; client 0 sees a a b, client 1 nothing, client 2 b."""
    pool = Pool(x=np.eye(60, dtype=np.float32), y=np.zeros(60, dtype=np.int32), classes=("a", "b"))
    sample = np.flatnonzero(~pool.is_test())[:4]
    columns = ([0, 0, 0, 2], [0, 0, 0, 0], sample, [0, 0, 1, 1], [0, 0, 0, 0])
    return SlidingWindows(pool, sort_schedule((0, 1, 2), 1, columns=columns), WindowPlan(gap=1, window=1))


def test_histograms_are_shares_of_labels_in_the_order_asked_for() -> None:
    windows = three_clients()

    found = windows.histograms(windows.training(0), np.array([2, 0]))

    assert found.tolist() == [[0.0, 1.0], [2 / 3, 1 / 3]]


def test_nobody_has_no_histogram() -> None:
    windows = three_clients()

    assert windows.histograms(windows.training(0), np.array([], dtype=np.int64)).shape == (0, 2)


def test_some_windows_come_in_the_order_given_and_may_repeat() -> None:
    ranges = Ranges(start=np.array([0, 2, 2]), stop=np.array([2, 2, 4]), entries=np.array([5, 6, 7, 8]))

    some = ranges.some(np.array([2, 1, 2, 0]))

    assert some.sizes.tolist() == [2, 0, 2, 2]
    assert some.of(np.arange(4))[0].tolist() == [7, 8, 7, 8, 5, 6]
    assert ranges.some(np.array([], dtype=np.int64)).sizes.size == 0


def test_the_newest_samples_are_test_samples_of_the_last_interval() -> None:
    pool = Pool(x=np.eye(60, dtype=np.float32), y=np.zeros(60, dtype=np.int32), classes=("a",))
    test, train = np.flatnonzero(pool.is_test())[:3], np.flatnonzero(~pool.is_test())[:3]
    sample = np.concatenate([test, train])
    columns = ([0] * 6, [0, 1, 2] * 2, sample, [0] * 6, [0] * 6)
    windows = SlidingWindows(pool, sort_schedule((0,), 3, columns=columns), WindowPlan(gap=1, window=2))

    found = [windows.schedule.sample[windows.newest(at).of(np.array([0]))[0]].tolist() for at in range(3)]

    assert found == [[test[1]], [test[2]], [test[2]]]


@given(st.data())
def test_next_samples_are_all_those_that_no_client_has_trained_on_and_no_other(data: st.DataObject) -> None:
    n_intervals, n_clients = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    pool = Pool(x=np.eye(12, dtype=np.float32), y=np.zeros(12, dtype=np.int32), classes=("a",))
    row = st.tuples(st.integers(0, n_clients - 1), st.integers(0, n_intervals - 1), st.integers(0, 11))
    client, interval, sample = zip(*data.draw(st.lists(row, min_size=1, max_size=60)), strict=True)
    zeros = [0] * len(client)
    schedule = sort_schedule(tuple(range(n_clients)), n_intervals, columns=(client, interval, sample, zeros, zeros))
    windows = SlidingWindows(pool, schedule, WindowPlan(gap=1, window=2))
    round_index = data.draw(st.integers(0, n_intervals))

    rows, _ = windows.next(round_index).of(np.arange(n_clients))

    coming, is_test = windows.n_complete(round_index), pool.is_test()
    trained = {one for one, when in zip(sample, interval, strict=True) if when < coming and not is_test[one]}
    wanted = [
        (who, one)
        for who, when, one in zip(client, interval, sample, strict=True)
        if when == coming and one not in trained
    ]
    found = zip(schedule.client[rows].tolist(), schedule.sample[rows].tolist(), strict=True)
    assert sorted(found) == sorted(wanted)
    assert (schedule.interval[rows] == coming).all()
