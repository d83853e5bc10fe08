import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import ClientId
from fielding.errors import FileFormatError, InputError, OptionError, OutputError
from fielding.traces.npz_file import Array
from fielding.traces.trace import Trace, read_trace, write_trace

DAY = 86_400.0


def make(
    client: list[int],
    time: list[float],
    *,
    y: list[int] | None = None,
    count: list[int] | None = None,
    ids: tuple[ClientId, ...] | None = None,
) -> Trace:
    """Return a trace of clients 10, 11, ... and classes a, b, c."""
    return Trace(
        client_ids=ids or tuple(range(10, 11 + max(client))),
        client=np.array(client, dtype=np.int32),
        time=np.array(time),
        y=np.array(y or [0] * len(client), dtype=np.int32),
        classes=("a", "b", "c"),
        count=None if count is None else np.array(count, dtype=np.int64),
    )


names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=5)
id_lists = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4, unique=True),
    st.lists(names, min_size=1, max_size=4, unique=True),
)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    ids = draw(id_lists)
    classes = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    n_rows = draw(st.integers(len(ids), 12))
    times = st.floats(allow_nan=False, allow_infinity=False)
    # Every client has a row, as in any file: ids without rows are not written down.
    who = [*range(len(ids)), *draw(st.lists(st.integers(0, len(ids) - 1), min_size=n_rows, max_size=n_rows))][:n_rows]
    counts = draw(st.none() | st.lists(st.integers(1, 2**40), min_size=n_rows, max_size=n_rows))
    labels = st.integers(0, len(classes) - 1)
    concepts = draw(st.none() | st.lists(st.integers(0, 5), min_size=n_rows, max_size=n_rows))
    return Trace(
        client_ids=tuple(sorted(ids)),
        client=np.array(who, dtype=np.int32),
        time=np.array(draw(st.lists(times, min_size=n_rows, max_size=n_rows))),
        y=np.array(draw(st.lists(labels, min_size=n_rows, max_size=n_rows)), dtype=np.int32),
        classes=tuple(classes),
        x=draw(st.sampled_from([None, np.arange(2.0 * n_rows).reshape(n_rows, 2)])),
        count=None if counts is None else np.array(counts, dtype=np.int64),
        concept=None if concepts is None else np.array(concepts, dtype=np.int32),
    )


@given(traces())
def test_a_trace_that_was_written_is_read_as_it_was(tmp_path_factory: pytest.TempPathFactory, trace: Trace) -> None:
    path = tmp_path_factory.getbasetemp() / "round_trip.npz"

    write_trace(trace, path)
    found = read_trace(path)

    assert found.client_ids == trace.client_ids
    assert [type(one) for one in found.client_ids] == [type(one) for one in trace.client_ids]
    assert found.classes == trace.classes
    for name in ("client", "time", "y", "x", "count", "concept"):
        before, after = getattr(trace, name), getattr(found, name)
        assert (before is None) == (after is None)
        if before is not None:
            assert after.dtype == before.dtype
            assert after.tolist() == before.tolist()


def test_equal_traces_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        write_trace(make([0, 1], [0.0, 1.0]), tmp_path / name)

    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_the_file_holds_the_documented_arrays(tmp_path: Path) -> None:
    write_trace(make([0, 1, 1], [0.0, 1.0, 2.0], y=[2, 0, 1], ids=("p", "q")), tmp_path / "t.npz")

    with np.load(tmp_path / "t.npz", allow_pickle=False) as stored:
        assert sorted(stored.files) == ["classes", "client", "time", "y"]
        assert stored["client"].tolist() == ["p", "q", "q"]
        assert stored["y"].tolist() == [2, 0, 1]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.npz"
    write_trace(make([0], [0.0]), path)
    before = path.read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OutputError, match="No space left on device"):
        write_trace(make([0, 1], [0.0, 1.0]), path)

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_days_are_dates_on_the_calendar_and_spans_of_24_hours_for_a_client() -> None:
    trace = make([0, 0, 1], [0.9 * DAY, 1.1 * DAY, 1.5 * DAY])

    assert trace.interval_of("1d").tolist() == [0, 1, 1]
    assert trace.interval_of("1d", align="client").tolist() == [0, 0, 0]


def test_any_number_can_be_a_time() -> None:
    assert make([0, 0, 0], [7.0, 8.5, 9.9]).interval_of(1.0).tolist() == [0, 1, 2]
    assert make([0, 0, 0], [0.3, 0.5, 0.9]).interval_of(0.25).tolist() == [0, 0, 2]
    assert make([0, 0], [-2.5, 1.0]).interval_of(1.0).tolist() == [0, 4]


def test_months_of_a_client_count_from_its_first() -> None:
    trace = make([0, 1, 1], [0.0, 40 * DAY, 60 * DAY])

    assert trace.interval_of("month").tolist() == [0, 1, 2]
    assert trace.interval_of("month", align="client").tolist() == [0, 0, 1]


def test_the_last_days_are_dates_and_end_with_the_last_sample() -> None:
    trace = make([0, 1, 2, 3], [0.5 * DAY, 1.1 * DAY, 2.2 * DAY, 2.3 * DAY])

    kept = trace.last(2 * DAY)
    assert kept.client_ids == (11, 12, 13)
    assert kept.client.tolist() == [0, 1, 2]
    assert int(kept.interval_of("1d").max()) == 1


def test_the_last_of_a_span_without_a_unit_ends_at_the_last_sample() -> None:
    assert make([0, 1, 2], [0.0, 0.5, 0.6]).last(0.1001).client_ids == (11, 12)


def test_the_most_active_clients_are_those_with_most_samples() -> None:
    trace = make([0, 1, 1, 2], [0.0] * 4, count=[9, 2, 3, 1])

    assert trace.most_active(1).client_ids == (10,)
    assert trace.most_active(2).client_ids == (10, 11)
    assert trace.most_active(99).client_ids == (10, 11, 12)
    assert trace.samples_per_client().tolist() == [9, 5, 1]


def test_of_equally_active_clients_the_lower_id_stays() -> None:
    assert make([0, 1, 2], [0.0] * 3, ids=("c", "a", "b")).most_active(2).client_ids == ("a", "b")


def test_a_selection_keeps_the_classes_and_the_features() -> None:
    trace = Trace(
        client_ids=("a", "b"),
        client=np.array([0, 1]),
        time=np.array([0.0, 5.0]),
        y=np.array([0, 1]),
        classes=("cat", "dog"),
        x=np.array([[1.0], [2.0]]),
        count=np.array([3, 4]),
        concept=np.array([7, 9]),
    )

    kept = trace.last(1.0)
    assert kept.classes == ("cat", "dog")
    assert kept.y.tolist() == [1]
    assert kept.weights.tolist() == [4]
    assert kept.concept is not None
    assert kept.concept.tolist() == [9]
    assert kept.x is not None
    assert kept.x.tolist() == [[2.0]]


@pytest.mark.parametrize("choose", [lambda trace: trace.last(0.0), lambda trace: trace.most_active(0)])
def test_an_empty_selection_is_refused(choose: Callable[[Trace], Trace]) -> None:
    with pytest.raises(OptionError):
        choose(make([0], [0.0]))


GOOD: dict[str, Array] = {
    "client": np.array(["a", "b"]),
    "time": np.array([0.0, 1.0]),
    "y": np.array([0, 1]),
    "classes": np.array(["cat", "dog"]),
}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"time": np.array([0.0, np.nan])}, "time in row 1 is nan; every sample needs a finite time"),
        ({"time": np.array(["x", "y"])}, "time has shape (2,) and type <U1; give one number per row"),
        ({"time": np.zeros(3)}, "time has shape (3,) but client has 2 rows"),
        ({"y": np.array([0, 2])}, "y in row 1 is 2; it must lie between 0 and 1"),
        ({"y": np.array([0, 2**40])}, "y in row 1 is 1099511627776"),
        ({"y": np.array([0.0, 0.5])}, "y in row 1 is 0.5; a whole number"),
        ({"y": np.array([[0, 1]])}, "y has shape (1, 2)"),
        ({"client": np.array([0.5, 1.5])}, "client has shape (2,) and type float64; give one whole number or text"),
        ({"client": np.array(["a", ""])}, "client id '' has 0 characters"),
        ({"client": np.array([1, 2**63], dtype=np.uint64)}, "does not fit 64 bits"),
        ({"classes": np.array(["cat", "cat"])}, "class 'cat' stands twice in the list"),
        ({"classes": np.array(["cat", "a\nb"])}, "class 'a\\nb' is no name"),
        ({"count": np.array([1, 0])}, "count in row 1 is 0; a row stands for at least 1 sample"),
        ({"count": np.array([1.0, np.nan])}, "count in row 1 is nan; a whole number"),
        ({"count": np.array([2**60, 2**60])}, "the counts add up to"),
        ({"x": np.zeros((3, 1))}, "x has shape (3, 1) but client has 2 rows"),
        ({"concept": np.array([0, 1, 2])}, "concept has shape (3,) but client has 2 rows"),
        ({"concept": np.array([0, -1])}, "concept in row 1 is -1; it must lie between 0 and"),
        ({"concept": np.array(["a", "b"])}, "concept has shape (2,) and type <U1; give one whole number per row"),
        ({name: GOOD[name][:0] for name in ("client", "time", "y")}, "the trace has no rows"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, changed: dict[str, Array], message: str) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, allow_pickle=False, **(GOOD | changed))

    with pytest.raises(FileFormatError) as caught:
        read_trace(path)

    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_array_is_named_with_the_nearest(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", client=[1], times=[0.0], y=[0], classes=["a"])

    with pytest.raises(FileFormatError, match=r"t.npz has no array 'time'; did you mean 'times'\? It has: 'client'"):
        read_trace(tmp_path / "t.npz")


def test_dates_in_an_array_are_read_as_unix_seconds(tmp_path: Path) -> None:
    dates = {"time": np.array(["1970-01-02", "1970-01-01T00:00:01"], "datetime64[ms]")}
    np.savez(tmp_path / "t.npz", allow_pickle=False, **(GOOD | dates))

    assert read_trace(tmp_path / "t.npz").time.tolist() == [DAY, 1.0]


def test_a_trace_made_by_hand_is_checked_too() -> None:
    with pytest.raises(InputError, match="client in row 1 is 5; it must lie between 0 and 0"):
        make([0, 5], [0.0, 1.0], ids=(1,))
