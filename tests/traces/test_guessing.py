"""Columns and intervals that are guessed, on files as people have them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fielding.errors import FileFormatError, InputError
from fielding.traces.guessing import choose_plan, guess_columns, is_pool_file
from fielding.traces.importers import import_trace
from fielding.traces.trace import Trace

NOBODY: dict[str, str | None] = {}
DAY = 86_400.0


def write(path: Path, header: str, *columns: list[object]) -> Path:
    rows = (",".join(map(str, cells)) for cells in zip(*columns, strict=True))
    path.write_text("\n".join([header, *rows]))
    return path


def some(*values: object, n_rows: int = 60) -> list[object]:
    return [values[at % len(values)] for at in range(n_rows)]


WHEN: list[object] = [f"2024-01-{at // 2 + 1:02d}" for at in range(60)]
NUMBERS: list[object] = [f"{at * 7 % 11 / 10}" for at in range(60)]


@pytest.mark.parametrize(
    ("header", "client", "time", "label"),
    [
        ("client,time,label,v", "client", "time", "label"),
        ("userId,Event Time,activity,v", "userId", "Event Time", "activity"),
        ("station_id,date,outcome,v", "station_id", "date", "outcome"),
        ("who,seen,species,v", "who", "seen", "species"),  # by values: one more category, one column of dates
        ("author,noted,was,v", "author", "noted", "was"),
    ],
)
def test_columns_are_known_by_their_names_or_by_what_is_in_them(
    tmp_path: Path, header: str, client: str, time: str, label: str
) -> None:
    path = write(tmp_path / "t.csv", header, some("a", "b", "c"), WHEN, some("x", "y"), NUMBERS)

    found = guess_columns(path, NOBODY).columns

    assert (found.client, found.time, found.label) == (client, time, label)
    assert found.features == ("v",)
    assert import_trace(path, found).x is not None


def test_what_the_user_names_counts_and_leaves_other_features_out(tmp_path: Path) -> None:
    columns = (some("a", "b"), some("p", "q"), WHEN, some(1, 2), NUMBERS, NUMBERS)
    path = write(tmp_path / "t.csv", "user,device,time,label,v,w", *columns)

    assert guess_columns(path, NOBODY).columns.client == "user"
    assert guess_columns(path, {"client": "device"}).columns.client == "device"
    named = guess_columns(path, NOBODY, ["w"])
    assert named.columns.features == ("w",)
    assert named.left_out == {"device": "not named", "v": "not named"}
    assert guess_columns(path, NOBODY, ["?", "d*"]).left_out == {}


def test_what_cannot_be_a_feature_is_left_out_with_the_reason(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.csv",
        "id,client,time,label,v,town,gaps,name,seen,none,far,same,count,review",
        list(range(60)),
        some("a", "b"),
        WHEN,
        some("x", "y"),
        NUMBERS,
        some("here", "there"),
        some("", "1.5", "2"),
        [f"n{at}" for at in range(60)],
        WHEN,
        some("", "NA"),
        some("inf", "1.5"),
        some(3),
        some(1, 2, 5),
        [f"word{at} and more words" for at in range(60)],
    )

    found = guess_columns(path, NOBODY)

    assert found.columns.features == ("v", "town", "gaps")
    assert found.columns.text == "review"
    assert found.left_out == {
        "id": "counts the rows",
        "name": "60 different texts",
        "seen": "dates",
        "none": "empty",
        "far": "infinite numbers",
        "same": "always the same",
        "count": "a number of equal samples, and such rows cannot be trained on",
    }


@pytest.mark.parametrize(
    ("header", "columns", "message"),
    [
        ("a,b,c", (NUMBERS, NUMBERS, NUMBERS), "which column says when? name it with --time; there are: 'a', 'b', 'c'"),
        ("a,time,c", (some("p", "q"), WHEN, some("x", "y")), "which column says who? name it with --client; there are"),
        ("user,time,v", (some("p", "q"), WHEN, NUMBERS), "which column says which class? name it with --label"),
        ("user,time,label", (some("p", "q"), WHEN, some("x", "y")), "no column can be a feature: none are left; name"),
        (
            "user,time,label,w",
            (some("p"), WHEN, some("x"), [f"k{at}" for at in range(60)]),
            "a feature: 'w' (60 different texts); name columns",
        ),
    ],
)
def test_what_cannot_be_guessed_is_asked_for_in_one_line(
    tmp_path: Path, header: str, columns: tuple[list[object], ...], message: str
) -> None:
    path = write(tmp_path / "t.csv", header, *columns)

    with pytest.raises(FileFormatError) as caught:
        guess_columns(path, NOBODY)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_month_without_a_year_is_no_time_and_a_place_of_its_own_is_no_client(tmp_path: Path) -> None:
    places: list[object] = [f"at {at}" for at in range(60)]
    columns = (some("a", "b"), places, some(1, 2, 3), WHEN, some("x", "y"), NUMBERS)
    path = write(tmp_path / "t.csv", "author,location,month,seen,label,v", *columns)

    found = guess_columns(path, NOBODY).columns

    assert (found.client, found.time) == ("author", "seen")
    assert found.features == ("month", "v")


def test_arrays_are_guessed_like_columns_and_pools_are_told_apart(tmp_path: Path) -> None:
    x, y = np.ones((60, 3)), np.array(some(0, 1))
    np.savez(tmp_path / "pool.npz", x=x, y=y, classes=np.array(["a", "b"]))
    np.savez(
        tmp_path / "trace.npz",
        x=x,
        y=y,
        user=np.array(some("p", "q")),
        ts=np.arange(60.0),
        classes=np.array(["a", "b"]),
    )

    assert is_pool_file(tmp_path / "pool.npz", NOBODY)
    assert not is_pool_file(tmp_path / "trace.npz", NOBODY)
    found = guess_columns(tmp_path / "trace.npz", NOBODY).columns
    assert (found.client, found.time, found.label, found.features) == ("user", "ts", "y", ())
    assert import_trace(tmp_path / "trace.npz", found).classes == ("a", "b")


def test_parquet_is_guessed_like_csv(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra 'data'")
    from pyarrow import parquet

    columns = {"user": some("a", "b"), "day": np.array(WHEN, dtype="datetime64[s]"), "label": some("x", "y")}
    more = {"v": [float(str(one)) for one in NUMBERS], "lists": [[1, 2]] * 60, "gaps": some(None, 1.5)}
    parquet.write_table(pyarrow.table({**columns, **more}), tmp_path / "t.parquet")

    found = guess_columns(tmp_path / "t.parquet", NOBODY)

    assert (found.columns.client, found.columns.time, found.columns.label) == ("user", "day", "label")
    assert found.columns.features == ("v", "gaps")
    assert found.left_out == {}


def made(client: np.ndarray, time: np.ndarray) -> Trace:
    names = tuple(range(int(client.max()) + 1))
    y = np.zeros(client.size, dtype=np.int32)
    return Trace(client_ids=names, client=client.astype(np.int32), time=time, y=y, classes=("a",))


def test_people_who_were_there_in_different_weeks_are_counted_from_their_own_start() -> None:
    client, minute = np.repeat(np.arange(10), 2000), np.tile(np.arange(2000.0), 10)

    together = choose_plan(made(client, minute * 600.0))[0]
    apart = choose_plan(made(client, minute * 600.0 + client * 30 * DAY))[0]

    assert together.align == "calendar"
    assert apart.align == "client"
    assert apart.interval == together.interval == "6h"  # 36 samples, where 3 hours hold 18


def test_one_moment_is_no_trace() -> None:
    with pytest.raises(InputError, match="all samples have the same time"):
        choose_plan(made(np.zeros(5), np.full(5, 7.0)))


@given(st.lists(st.floats(0.0, 1e10), min_size=2, max_size=30, unique=True), st.integers(1, 4))
def test_a_plan_always_fits_its_trace(times: list[float], n_clients: int) -> None:
    assume(np.ptp(times) > 1e-3)
    trace = made(np.arange(len(times)) % min(n_clients, len(times)), np.array(times))

    plan, rounds = choose_plan(trace)

    n_intervals = int(trace.interval_of(plan.interval, align=plan.align).max()) + 1
    assert 1 <= n_intervals <= 201
    assert plan.lead >= plan.gap
    assert 1 <= rounds <= max(plan.gap, plan.step_of(n_intervals))
