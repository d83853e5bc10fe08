from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fielding.client.window import Window, checked_labels
from fielding.errors import CheckpointError, InputError, OptionError

labels = st.lists(st.integers(0, 4), max_size=5)
arrivals = st.lists(st.tuples(st.integers(0, 3), labels), max_size=20)


def test_window_keeps_the_newest_samples_by_count() -> None:
    window = Window(max_samples=2)
    window.add([1, 2], round_index=0)

    evicted = window.add([3], round_index=0)

    assert evicted.tolist() == [1]
    assert window.labels().tolist() == [2, 3]


def test_sample_stays_visible_for_max_rounds() -> None:
    window = Window(max_rounds=3)
    window.add([7], round_index=10)

    assert window.advance(12).tolist() == []
    assert window.advance(13).tolist() == [7]
    assert len(window) == 0


def test_arrival_larger_than_the_window_leaves_its_last_samples() -> None:
    window = Window(max_samples=2)
    window.add([9], round_index=0)

    assert window.add([1, 2, 3], round_index=1).tolist() == [9, 1]
    assert window.labels().tolist() == [2, 3]


def test_old_samples_leave_before_new_ones_make_room() -> None:
    window = Window(max_samples=2, max_rounds=1)
    window.add([1, 2], round_index=0)

    assert window.add([3], round_index=1).tolist() == [1, 2]
    assert window.labels().tolist() == [3]


def test_since_tells_what_arrived_after_a_moment_and_is_still_here() -> None:
    window = Window(max_samples=3)
    window.add([1, 2], round_index=0)
    moment = window.n_arrived
    window.add([3, 4], round_index=0)

    assert window.since(moment).tolist() == [3, 4]
    window.add([5, 6], round_index=0)
    assert window.since(moment).tolist() == [4, 5, 6]
    assert window.since(window.n_arrived).tolist() == []


def test_unbounded_window_keeps_everything() -> None:
    window = Window()
    for round_index in range(100):
        assert window.add([round_index], round_index).size == 0

    assert window.labels().tolist() == list(range(100))


def test_window_does_not_see_later_edits_of_what_was_added() -> None:
    window = Window(max_samples=2)
    mine = np.array([1, 2])
    window.add(mine, round_index=0)
    mine[:] = 0

    assert window.labels().tolist() == [1, 2]


def test_rounds_do_not_go_backwards_and_nothing_changes() -> None:
    window = Window(max_rounds=5)
    window.add([1], round_index=3)

    with pytest.raises(InputError, match="round 2 comes after round 3"):
        window.add([2], round_index=2)
    with pytest.raises(InputError, match="round 2 comes after round 3"):
        window.advance(2)
    assert window.labels().tolist() == [1]
    assert window.n_arrived == 1


def test_refused_labels_leave_the_time_alone() -> None:
    window = Window(max_rounds=5)
    window.add([1], round_index=3)

    with pytest.raises(InputError, match="whole numbers"):
        window.add([0.5], round_index=100)
    assert window.add([2], round_index=3).size == 0


@pytest.mark.parametrize("round_index", [1.0, "1", None, True])
def test_round_that_is_no_whole_number_is_refused(round_index: object) -> None:
    with pytest.raises(InputError, match="is not a whole number"):
        Window().add([1], round_index)  # type: ignore[arg-type]


@pytest.mark.parametrize("bound", [0, -1, 1.5, "3", True])
def test_bound_that_is_no_whole_number_above_zero_is_refused(bound: object) -> None:
    with pytest.raises(OptionError, match="max_samples is"):
        Window(max_samples=bound)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="max_rounds is"):
        Window(max_rounds=bound)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [[1.0], ["a"], [[1]], 3, [[1], [2, 3]], [True], [None], [2**63]])
def test_labels_that_are_no_flat_list_of_whole_numbers_are_refused(bad: object) -> None:
    with pytest.raises(InputError):
        checked_labels(bad)  # type: ignore[arg-type]


def test_empty_list_is_a_list_of_labels() -> None:
    assert checked_labels([]).dtype == np.int64
    assert checked_labels(np.array([3], dtype=np.uint8)).tolist() == [3]


@given(
    arrivals,
    st.none() | st.integers(1, 6),
    st.none() | st.integers(1, 4),
    st.integers(0, 20),
)
@settings(deadline=None, max_examples=200)
def test_window_equals_a_plain_list_of_samples(
    stream: list[tuple[int, list[int]]], max_samples: int | None, max_rounds: int | None, moment: int
) -> None:
    window, plain = Window(max_samples, max_rounds), deque[tuple[int, int, int]]()
    now = number = 0
    for wait, block in stream:
        now += wait
        left = window.labels().tolist()
        evicted = window.add(block, now).tolist()
        for label in block:
            plain.append((now, number, label))
            number += 1
        while plain and max_rounds is not None and now - plain[0][0] >= max_rounds:
            plain.popleft()
        while max_samples is not None and len(plain) > max_samples:
            plain.popleft()

        assert window.labels().tolist() == [label for _, _, label in plain]
        assert evicted + window.labels().tolist() == left + block
        assert window.since(moment).tolist() == [label for _, at, label in plain if at >= moment]
        assert (len(window), window.n_arrived, window.n_evicted) == (len(plain), number, number - len(plain))


@given(arrivals, st.integers(1, 4), st.integers(0, 20))
def test_a_window_that_was_saved_goes_on_as_if_it_had_never_stopped(
    arrivals: list[tuple[int, list[int]]], max_rounds: int, stop_at: int
) -> None:
    steady = Window(max_samples=7, max_rounds=max_rounds)
    stopped = Window(max_samples=7, max_rounds=max_rounds)
    now = 0
    for at, (pause, block) in enumerate(arrivals):
        now += pause
        if at == stop_at:
            saved = stopped.arrays()
            stopped = Window(max_samples=7, max_rounds=max_rounds)
            stopped.restore(saved)
        assert stopped.add(block, now).tolist() == steady.add(block, now).tolist()
        assert (stopped.labels().tolist(), stopped.n_arrived, stopped.n_evicted) == (
            steady.labels().tolist(),
            steady.n_arrived,
            steady.n_evicted,
        )


def test_a_window_that_was_saved_still_knows_the_time() -> None:
    before, after = Window(), Window()
    before.advance(3)
    after.restore(before.arrays())

    with pytest.raises(InputError, match="round 2 comes after round 3"):
        after.advance(2)


@pytest.mark.parametrize(
    "change",
    [
        {"window.labels": np.array([1])},
        {"window.rounds": np.array([3, 2])},
        {"window.rounds": np.array([2.0, 3.0])},
        {"window.moment": np.array([1, 3])},
        {"window.moment": np.array([2, 2])},
        {"window.moment": np.array([2])},
        {"window.moment": np.array([], dtype=np.int64)},
    ],
)
def test_what_describes_no_window_is_refused_and_changes_nothing(change: dict[str, np.ndarray]) -> None:
    window = Window()
    window.add([5], round_index=2)
    window.add([6], round_index=3)

    with pytest.raises(CheckpointError):
        window.restore({**window.arrays(), **change})
    with pytest.raises(CheckpointError, match=r"window\.labels is missing"):
        window.restore({})
    assert window.labels().tolist() == [5, 6]
