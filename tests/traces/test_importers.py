import gzip
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import FileFormatError, OptionError
from fielding.traces.csv_table import CHUNK
from fielding.traces.features import hash_texts
from fielding.traces.importers import Columns, import_samples, import_trace
from fielding.traces.pool import Pool
from fielding.traces.trace import Trace, read_trace, write_trace

DAY = 86_400.0


def write(folder: Path, content: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def test_a_csv_file_becomes_a_trace(tmp_path: Path) -> None:
    path = write(tmp_path, "client,time,label,text\nbob,5,dog,x\nann,3.5,cat,\nbob,1e1,cat,y\n")

    trace = import_trace(path)

    assert trace.client_ids == ("ann", "bob")
    assert trace.client.tolist() == [1, 0, 1]
    assert trace.time.tolist() == [5.0, 3.5, 10.0]
    assert trace.classes == ("cat", "dog")
    assert trace.y.tolist() == [1, 0, 0]
    assert trace.count is None


def test_columns_are_found_by_the_names_the_user_gives(tmp_path: Path) -> None:
    path = write(tmp_path, "what,who,n,when\n10,7,3,1\n9,12,2,2\n")

    trace = import_trace(path, Columns(client="who", time="when", label="what", count="n"))

    assert trace.client_ids == (7, 12)
    assert trace.classes == ("9", "10")
    assert trace.y.tolist() == [1, 0]
    assert trace.weights.tolist() == [3, 2]


def test_gzip_makes_no_difference(tmp_path: Path) -> None:
    plain = write(tmp_path, "client,time,label\n1,2,a\n")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))

    assert import_trace(tmp_path / "t.csv.gz").client_ids == import_trace(plain).client_ids == (1,)


@pytest.mark.parametrize(
    ("texts", "seconds"),
    [
        (["1970-01-02", "1970-01-03"], [DAY, 2 * DAY]),
        (["1970-01-01 00:00:01.500", "1970-01-01T01:00"], [1.5, 3600.0]),
        (["1970-01-01T01:00:00Z", "1970-01-01T01:00:00+01:00"], [3600.0, 0.0]),
        (["1970-02", "1971-01"], [31 * DAY, 365 * DAY]),
        (["-5", "0.25"], [-5.0, 0.25]),
    ],
)
def test_times_may_be_numbers_dates_or_months(tmp_path: Path, texts: list[str], seconds: list[float]) -> None:
    path = write(tmp_path, "client,time,label\n" + "".join(f"1,{text},a\n" for text in texts))

    assert import_trace(path).time.tolist() == seconds


def test_ids_with_leading_zeros_stay_texts(tmp_path: Path) -> None:
    assert import_trace(write(tmp_path, "client,time,label\n0001,1,a\n2,2,a\n")).client_ids == ("0001", "2")


def test_rows_that_stand_for_no_sample_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, "client,time,label,count\n1,0,a,0\n2,1,b,4\n")

    trace = import_trace(path, Columns(count="count"))

    assert trace.client_ids == (2,)
    assert trace.weights.tolist() == [4]
    assert trace.classes == ("a", "b")


def test_progress_is_told_in_rows(tmp_path: Path) -> None:
    path = write(tmp_path, "client,time,label\n" + "1,2,a\n" * (CHUNK + 5))
    told: list[int] = []

    import_trace(path, on_rows=told.append)

    assert told == [CHUNK, CHUNK + 5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("client,time\n", "has no column 'label'"),
        ("client,time,label,count\n", "has a header but no rows"),
        ("client,time,label,count\n1,1,a,1\n1,soon,a,1\n", "line 3, column 'time': 'soon' is no number"),
        ("client,time,label,count\n1,1,a,1\n1,2022-01,a,1\n", "line 3, column 'time': '2022-01' is no number"),
        ("client,time,label,count\n1,2022-01,a,1\n1,5,a,1\n", "line 3, column 'time': '5' is no date; write dates"),
        ("client,time,label,count\n1,2022-13,a,1\n", "line 2, column 'time': '2022-13' is no date"),
        ("client,time,label,count\n1,,a,1\n", "line 2, column 'time': '' is no date"),
        ("client,time,label,count\n1,nan,a,1\n", "line 2, column 'time': 'nan' is no finite number"),
        ("client,time,label,count\n1,-inf,a,1\n", "line 2, column 'time': '-inf' is no finite number"),
        ("client,time,label,count\n1,1,a,-1\n", "line 2, column 'count': '-1' is no count; give a whole number"),
        ("client,time,label,count\n1,1,a,nan\n", "line 2, column 'count': 'nan' is no count"),
        ("client,time,label,count\n1,1,a,1.5\n", "line 2, column 'count': '1.5' is no count"),
        ("client,time,label,count\n1,1,a,many\n", "line 2, column 'count': 'many' is no count"),
        ("client,time,label,count\n1,1,a,\n", "line 2, column 'count': '' is no count"),
        ("client,time,label,count\n1,1,a,0\n", "every count is 0; at least one sample is needed"),
        ("client,time,label,count\n,1,a,1\n", "line 2, column 'client': '' is empty; every row needs a value here"),
        ("client,time,label,count\n1,1,,1\n", "line 2, column 'label': '' is empty"),
        ('client,time,label,count\n1,1,a,1\n"a\tb",1,a,1\n', "line 3, column 'client': 'a\\tb' is no name; use 1 to"),
        (f"client,time,label,count\n{'x' * 2000},1,a,1\n", "(2000 characters) is no name"),
        ('client,time,label,count\n1,1,"a\nb",1\n', "line 2, column 'label': 'a\\nb' is no name"),
        ("client,time,label,count\n1,1,a,9007199254740993\n", "is no count"),
    ],
)
def test_a_bad_cell_is_named_by_line_and_column(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path, content)

    with pytest.raises(FileFormatError) as caught:
        import_trace(path, Columns(count="count"))

    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_cell_beyond_the_first_chunk_is_named_by_its_own_line(tmp_path: Path) -> None:
    path = write(tmp_path, "client,time,label\n" + "1,2,a\n" * (CHUNK + 7) + "1,x,a\n")

    with pytest.raises(FileFormatError, match=f"line {CHUNK + 9}, column 'time': 'x'"):
        import_trace(path)


def test_the_most_ordinary_archive_becomes_a_trace(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "t.npz",
        who=["b", "a"],
        when=["1970-01-02", "1970-01-01"],
        label=["dog", "cat"],
        n=[2, 3],
    )

    trace = import_trace(tmp_path / "t.npz", Columns(client="who", time="when", count="n"))

    assert trace.client_ids == ("a", "b")
    assert trace.client.tolist() == [1, 0]
    assert trace.time.tolist() == [DAY, 0.0]
    assert trace.classes == ("cat", "dog")
    assert trace.weights.tolist() == [2, 3]


def test_an_archive_may_know_the_truth(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", client=[1, 1, 2], time=[0, 1, 2], y=[9, 3, 3], concept=[0, 1, 1])

    trace = import_trace(tmp_path / "t.npz", narrow=lambda trace: trace.last(2.0))

    assert trace.concept is not None
    assert trace.concept.tolist() == [1, 1]


def test_labels_that_are_numbers_name_themselves_or_take_the_names_of_the_classes(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", client=[1, 1], time=[0, 1], y=[9, 3])
    np.savez(tmp_path / "b.npz", client=[1, 1], time=[0, 1], y=[1, 0], classes=["zoo", "ape", "cat"])

    assert import_trace(tmp_path / "a.npz").classes == ("3", "9")
    assert import_trace(tmp_path / "a.npz").y.tolist() == [1, 0]
    assert import_trace(tmp_path / "b.npz").classes == ("zoo", "ape", "cat")
    assert import_trace(tmp_path / "b.npz").y.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"label": None}, "has no array 'label'"),
        ({"time": np.array(["1970-01-01", "soon"])}, "time in row 1: 'soon' is no date"),
        ({"time": np.array(["NaT", "1970-01-01"], "datetime64[s]")}, "time in row 0 is no date (NaT)"),
        ({"count": np.array([1, -1])}, "count in row 1 is -1; a count is not negative"),
        ({"count": np.array([0, 0])}, "every count is 0"),
        ({"count": np.array([1])}, "count has 1 rows but client has 2"),
        ({"client": np.array([b"x", b"y"])}, "client has shape (2,) and type |S1; give one whole number or text"),
        ({"label": np.array([[1, 2]])}, "label has shape (1, 2)"),
    ],
)
def test_a_bad_array_is_named_by_row(tmp_path: Path, changed: dict[str, np.ndarray | None], message: str) -> None:
    good = {"client": [1, 2], "time": [0, 1], "label": ["a", "b"], "count": [1, 1]}
    arrays = {name: array for name, array in (good | changed).items() if array is not None}
    np.savez(tmp_path / "t.npz", **arrays)  # type: ignore[arg-type]

    with pytest.raises(FileFormatError) as caught:
        import_trace(tmp_path / "t.npz", Columns(count="count"))

    assert message in str(caught.value)


def test_an_imported_trace_can_be_written_and_imported_again(tmp_path: Path) -> None:
    trace = import_trace(write(tmp_path, "client,time,label\nbob,5,dog\nann,3.5,cat\n"))
    write_trace(trace, tmp_path / "t.npz")

    for again in (read_trace(tmp_path / "t.npz"), import_trace(tmp_path / "t.npz")):
        assert again.client_ids == trace.client_ids
        assert again.classes == trace.classes
        assert again.client.tolist() == trace.client.tolist()
        assert again.y.tolist() == trace.y.tolist()


def test_columns_of_numbers_become_features_in_the_order_of_their_names(tmp_path: Path) -> None:
    path = write(tmp_path, "b,client,time,label,a\n0.5,x,1,dog,-1\n2,x,2,cat,3e2\n")

    trace = import_trace(path, Columns(features=("a", "b")))

    assert trace.x is not None
    assert trace.x.dtype == np.float32
    assert trace.x.tolist() == [[-1.0, 0.5], [300.0, 2.0]]


def test_a_pattern_stands_for_all_other_columns_that_match(tmp_path: Path) -> None:
    path = write(tmp_path, "client,time,label,acc_x,acc_y,z\nx,1,dog,1,2,3\n")

    assert np.asarray(import_trace(path, Columns(features=("acc_*",))).x).tolist() == [[1.0, 2.0]]
    assert np.asarray(import_trace(path, Columns(features=("z", "*"))).x).tolist() == [[3.0, 1.0, 2.0]]


def test_texts_are_hashed_and_follow_the_numbers(tmp_path: Path) -> None:
    path = write(tmp_path, 'client,time,label,words,n\nx,1,dog,"fix, the build",7\ny,2,cat,,8\n')

    x = np.asarray(import_trace(path, Columns(features=("n",), text="words", n_text_features=16)).x)

    assert x[:, 0].tolist() == [7.0, 8.0]
    assert (x[:, 1:] == hash_texts(["fix, the build", ""], 16)).all()
    assert (np.asarray(import_trace(path, Columns(text="words")).x) == hash_texts(["fix, the build", ""])).all()


def test_features_go_with_the_rows_that_are_kept(tmp_path: Path) -> None:
    rows = "".join(f"c{row % 3},{row},a,{row},{row % 2}\n" for row in range(CHUNK + 9))
    path = write(tmp_path, "client,time,label,f,n\n" + rows)

    counted = import_trace(path, Columns(features=("f",), count="n"))
    narrowed = import_trace(path, Columns(features=("f",)), narrow=lambda trace: trace.rows(trace.time >= CHUNK))

    assert np.asarray(counted.x)[:3].tolist() == [[1.0], [3.0], [5.0]]
    assert np.asarray(narrowed.x)[:, 0].tolist() == narrowed.time.tolist() == [float(CHUNK + row) for row in range(9)]


@pytest.mark.parametrize(
    ("cell", "columns", "message"),
    [
        ("inf", Columns(features=("f",)), "line 3, column 'f': 'inf' is no finite number"),
        ("1e39", Columns(features=("f",)), "line 3, column 'f': '1e39' is too large for a feature"),
        ("1", Columns(features=("g",)), "has no column 'g'"),
        ("1", Columns(features=("g*",)), "has no column that matches 'g*'"),
        ("1", Columns(features=("f", "f")), "feature 'f' is named twice"),
        ("1", Columns(text="g"), "has no column 'g'"),
    ],
)
def test_a_bad_feature_is_named_by_line_and_column(tmp_path: Path, cell: str, columns: Columns, message: str) -> None:
    path = write(tmp_path, f"client,time,label,f\nx,1,dog,1\nx,2,cat,{cell}\n")

    with pytest.raises(FileFormatError) as caught:
        import_trace(path, columns)

    assert message in str(caught.value)


def test_arrays_of_an_archive_become_features_too(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", client=[1, 2], time=[0, 1], y=[0, 1], f=[1, 2], words=["a", "b"], x=[[9], [8]])

    both = np.asarray(import_trace(tmp_path / "t.npz", Columns(features=("f",), text="words", n_text_features=4)).x)
    own = import_trace(tmp_path / "t.npz", narrow=lambda trace: trace.rows(trace.time > 0))

    assert both[:, 0].tolist() == [1.0, 2.0]
    assert (both[:, 1:] == hash_texts(["a", "b"], 4)).all()
    assert np.asarray(own.x).tolist() == [[8]]
    assert own.client_ids == (2,)


def test_an_array_of_features_with_nan_is_named_by_row(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", client=[1, 2], time=[0, 1], y=[0, 1], f=[1, np.nan])

    with pytest.raises(FileFormatError, match="f in row 1 is nan; every feature must be a finite number"):
        import_trace(tmp_path / "t.npz", Columns(features=("f",)))


def test_an_archive_without_clients_and_times_is_a_pool(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", x=np.arange(12, dtype=np.uint8).reshape(3, 2, 2), y=[1, 0, 1], classes=["a", "b"])
    np.savez(tmp_path / "t.npz", x=[[1.0]], y=[0], client=[1], time=[0])

    pool = import_samples(tmp_path / "p.npz")

    assert isinstance(pool, Pool)
    assert (len(pool), pool.shape, pool.classes) == (3, (2, 2), ("a", "b"))
    assert pool.x.dtype == np.uint8
    assert isinstance(import_samples(tmp_path / "t.npz"), Trace)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": [0]}, "has no array 'x'"),
        ({"x": [[1.0], [2.0]], "y": [0]}, "x has shape (2, 1) and y (1,)"),
        ({"x": [[np.nan]], "y": [0]}, "x in row 0 holds NaN or infinity"),
        ({"x": [["a"]], "y": [0]}, "features must be numbers"),
        ({"x": [[1.0]], "y": [2], "classes": ["a", "b"]}, "y in row 0 is 2; it must lie between 0 and 1"),
    ],
)
def test_a_bad_pool_is_refused_with_the_name_of_its_file(
    tmp_path: Path, arrays: dict[str, list[object]], message: str
) -> None:
    np.savez(tmp_path / "p.npz", **arrays)  # type: ignore[arg-type]

    with pytest.raises(FileFormatError) as caught:
        import_samples(tmp_path / "p.npz")

    assert str(caught.value).startswith(str(tmp_path / "p.npz"))
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["dates.csv", "dates.npz"])
def test_dates_without_hyphens_are_dates(tmp_path: Path, name: str) -> None:
    days = [20220131, 20220201, 20220301]
    if name.endswith("npz"):
        np.savez(tmp_path / name, client=np.zeros(3, dtype=np.int64), time=np.array(days), label=np.arange(3))
    else:
        (tmp_path / name).write_text("client,time,label\n" + "".join(f"a,{day},x\n" for day in days))

    notes: list[str] = []

    trace = import_trace(tmp_path / name, on_note=notes.append)

    assert np.diff(trace.time).tolist() == [86400.0, 28 * 86400.0]
    assert notes == ["the numbers of time are taken for dates: 2022-01-31 to 2022-03-01; give seconds if they are not"]


@pytest.mark.parametrize("days", [[20220131, 20220132], [20220131, 20221301], [20220131, 20220131.5], [19220131, 3]])
def test_numbers_that_are_not_all_dates_stay_seconds(tmp_path: Path, days: list[float]) -> None:
    (tmp_path / "a.csv").write_text("client,time,label\n" + "".join(f"a,{day},x\n" for day in days))

    assert sorted(import_trace(tmp_path / "a.csv").time.tolist()) == sorted(map(float, days))


@pytest.mark.parametrize(("unit", "per_second"), [("milli", 10**3), ("micro", 10**6), ("nano", 10**9)])
@given(moments=st.lists(st.integers(200_000_000, 90_000_000_000), min_size=1, max_size=5))
def test_times_since_1970_in_smaller_units_are_told_by_their_size(
    tmp_path_factory: pytest.TempPathFactory, unit: str, per_second: int, moments: list[int]
) -> None:
    folder, notes = tmp_path_factory.mktemp("t"), list[str]()
    rows = "".join(f"1,{moment * per_second},a\n" for moment in moments)
    np.savez(
        folder / "t.npz",
        client=np.ones(len(moments), dtype=np.int64),
        time=np.array([moment * per_second for moment in moments], dtype=np.float64),
        label=np.array(["a"] * len(moments)),
    )

    for path in (write(folder, f"client,time,label\n{rows}"), folder / "t.npz"):
        assert import_trace(path, on_note=notes.append).time.tolist() == pytest.approx(moments)

    assert len(notes) == 2
    assert all(f"the numbers of time are taken for {unit}seconds since 1970" in note for note in notes)


@pytest.mark.parametrize("times", [["0", "5e11"], ["1700000000", "1700000000000"], ["1", "2"], ["-1e12", "1e12"]])
def test_other_numbers_stay_what_they_are(tmp_path: Path, times: list[str]) -> None:
    notes: list[str] = []
    path = write(tmp_path, "client,time,label\n" + "".join(f"1,{time},a\n" for time in times))

    assert import_trace(path, on_note=notes.append).time.tolist() == [float(time) for time in times]
    assert notes == []


def test_a_measurement_is_no_label(tmp_path: Path) -> None:
    degrees = [f"{at / 7:.3f}" for at in range(300)]
    path = write(tmp_path, "client,time,label\n" + "".join(f"1,{at},{one}\n" for at, one in enumerate(degrees)))
    y = np.array(degrees, dtype=float)
    np.savez(tmp_path / "t.npz", client=np.ones(300, dtype=np.int64), time=np.arange(300.0), y=y)

    for file in (path, tmp_path / "t.npz"):
        with pytest.raises(FileFormatError) as caught:
            import_trace(file)
        assert "has 300 different numbers with fractions" in str(caught.value)
        assert "name a column of classes (--label, trace.label)" in str(caught.value)
    with pytest.raises(FileFormatError, match=r"label 'time' has 300 different values in 300 samples.*too many for"):
        import_trace(path, Columns(label="time"))


def test_stars_of_reviews_are_classes(tmp_path: Path) -> None:
    stars = [0.5, 4.5, 3.0]
    path = write(tmp_path, "client,time,label\n" + "".join(f"1,{at},{one}\n" for at, one in enumerate(stars)))
    np.savez(tmp_path / "t.npz", client=np.ones(3, dtype=np.int64), time=np.arange(3.0), label=np.array(stars))

    assert set(import_trace(path).classes) == {"0.5", "3.0", "4.5"}
    assert import_trace(tmp_path / "t.npz").classes == ("0.5", "3.0", "4.5")


def write_parquet(path: Path, **columns: object) -> Path:
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra 'data'")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path)
    return path


def test_a_parquet_file_is_read_like_a_csv_file(tmp_path: Path) -> None:
    rows = "bob,2024-01-01,dog,fix the build,1.5,1\nann,2024-01-02,cat,add a test,2.5,2\n"
    plain = import_trace(
        write(tmp_path, f"client,time,label,text,acc_x,acc_y\n{rows}"),
        Columns(features=("acc_*",), text="text", n_text_features=8),
    )
    path = write_parquet(
        tmp_path / "t.parquet",
        client=["bob", "ann"],
        time=np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[ms]"),
        label=["dog", "cat"],
        text=["fix the build", "add a test"],
        acc_x=[1.5, 2.5],
        acc_y=[1, 2],
    )

    trace = import_trace(path, Columns(features=("acc_*",), text="text", n_text_features=8))

    assert trace.client_ids == plain.client_ids == ("ann", "bob")
    assert trace.classes == plain.classes
    for name in ("client", "time", "y", "x"):
        assert getattr(trace, name).tolist() == getattr(plain, name).tolist()


@pytest.mark.parametrize(
    ("changes", "columns", "message"),
    [
        ({}, Columns(label="lable"), "no column 'lable'; did you mean 'label'"),
        ({}, Columns(features=("gyro_*",)), "has no column that matches 'gyro_*'"),
        ({"label": ["a", None]}, Columns(), "row 1, column 'label': it is empty"),
        ({"client": [[1], [2]]}, Columns(), "column 'client' holds list"),
        ({"v": [1.0, float("inf")]}, Columns(features=("v",)), "feature 'v' in row 1 is inf; give finite numbers"),
    ],
)
def test_a_bad_parquet_file_gets_one_clear_line(
    tmp_path: Path, changes: dict[str, object], columns: Columns, message: str
) -> None:
    path = write_parquet(tmp_path / "t.parquet", **{"client": [1, 2], "time": [1, 2], "label": ["a", "b"], **changes})

    with pytest.raises(FileFormatError) as caught:
        import_trace(path, columns)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_parquet_without_its_reader_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(FileFormatError, match="is no readable Parquet file"):
        import_trace(tmp_path / "t.parquet")

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(OptionError, match=r"pyarrow is not installed; run: pip install 'fielding\[data\]'"):
        import_trace(tmp_path / "t.parquet")
