import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fielding._typing import ClientId
from fielding.client.report import ReportBatch
from fielding.errors import FileFormatError, InputError, OptionError
from fielding.records.report_file import read_reports, write_reports
from fielding.traces.npz_file import Array
from fielding.traces.reports import ReportStream, gather_reports

names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=5)


def write(folder: Path, content: str, name: str = "r.csv") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def listed(stream: ReportStream) -> list[tuple[int, dict[ClientId, list[float]]]]:
    """Return the stream as plain values."""
    return [(step, dict(zip(batch.client_ids, batch.representations.tolist(), strict=True))) for step, batch in stream]


@st.composite
def streams(draw: st.DrawFn) -> ReportStream:
    ids = draw(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=3, unique=True)
        # A text that looks like a number comes back from CSV as one, as documented.
        | st.lists(names, min_size=1, max_size=3, unique=True).filter(lambda ids: not any(map(_is_numeric, ids)))
    )
    cells = draw(
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, len(ids) - 1)), min_size=1, max_size=10, unique=True)
    )
    shape = (len(cells), draw(st.integers(1, 3)))
    values = draw(hnp.arrays(np.float32, shape, elements=st.floats(-(2.0**100), 2.0**100, width=32)))
    seen = sorted({client for _, client in cells})
    return ReportStream(
        kind="vector",
        client_ids=tuple(sorted(ids[at] for at in seen)),
        client=np.array([sorted(ids[one] for one in seen).index(ids[at]) for _, at in cells], dtype=np.int32),
        step=np.array([step for step, _ in cells], dtype=np.int64),
        representations=values,
    )


def _is_numeric(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", ["r.npz", "r.csv", "r.csv.gz"])
@given(stream=streams())
def test_reports_that_were_written_are_read_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, name: str, stream: ReportStream
) -> None:
    path = tmp_path_factory.getbasetemp() / name

    write_reports(stream, path)
    found = read_reports(path, "vector")

    assert found.client_ids == stream.client_ids
    assert listed(found) == listed(stream)


@pytest.mark.parametrize("name", ["r.npz", "r.csv", "r.csv.gz"])
def test_equal_reports_give_equal_bytes_and_keep_the_names_of_their_features(tmp_path: Path, name: str) -> None:
    stream = gather_reports(
        [(0, ReportBatch(client_ids=["a"], representations=np.array([[0.1, 0.9]])))],
        kind="histogram",
        features=("cat", "dog, big"),
    )
    (tmp_path / "other").mkdir()
    for folder in (tmp_path, tmp_path / "other"):
        write_reports(stream, folder / name)

    assert (tmp_path / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    assert read_reports(tmp_path / name).features == ("cat", "dog, big")


def test_features_named_like_the_other_columns_get_other_names(tmp_path: Path) -> None:
    batch = ReportBatch(client_ids=[1], representations=np.array([[0.5, 0.5]]))
    write_reports(gather_reports([(3, batch)], kind="histogram", features=("step", "dog")), tmp_path / "r.csv")

    assert (tmp_path / "r.csv").read_text() == "step,client,f0,f1\n3,1,0.5,0.5\n"


def test_steps_rise_whatever_the_order_of_rows(tmp_path: Path) -> None:
    path = write(tmp_path, "step,client,cat,dog\n7,b,1,0\n2,b,0.5,0.5\n7,a,0,1\n2,a,0,0\n")

    assert listed(read_reports(path)) == [
        (2, {"b": [0.5, 0.5], "a": [0.0, 0.0]}),
        (7, {"b": [1.0, 0.0], "a": [0.0, 1.0]}),
    ]
    assert len(read_reports(path)) == 2


def test_columns_may_stand_anywhere(tmp_path: Path) -> None:
    path = write(tmp_path, "cat,client,dog,step\n0.25,9,0.75,1\n")

    assert read_reports(path).features == ("cat", "dog")
    assert listed(read_reports(path)) == [(1, {9: [0.25, 0.75]})]


@pytest.mark.parametrize(
    ("column", "ids"),
    [
        (["2", "10"], (2, 10)),
        (["02", "10"], ("02", "10")),
        (["+2", "10"], ("+2", "10")),
        (["2", "x"], ("2", "x")),
    ],
)
def test_ids_in_text_files_are_numbers_if_all_are_written_plainly(
    tmp_path: Path, column: list[str], ids: tuple[ClientId, ...]
) -> None:
    path = write(tmp_path, "step,client,f\n" + "".join(f"0,{one},1\n" for one in column))

    assert set(read_reports(path).client_ids) == set(ids)


def test_ids_in_arrays_keep_their_type(tmp_path: Path) -> None:
    for name, ids in (("a.npz", ["7", "8"]), ("b.npz", [7, 8])):
        np.savez(tmp_path / name, step=[0, 0], client=ids, representation=np.ones((2, 1)))

    assert read_reports(tmp_path / "a.npz").client_ids == ("7", "8")
    assert read_reports(tmp_path / "b.npz").client_ids == (7, 8)


def test_rows_in_order_are_handed_on_without_a_copy(tmp_path: Path) -> None:
    np.savez(tmp_path / "r.npz", step=[0, 0, 1], client=[1, 2, 1], representation=np.eye(3, dtype=np.float32))

    stream = read_reports(tmp_path / "r.npz")

    assert stream.representations.dtype == np.float32
    assert all(np.shares_memory(batch.representations, stream.representations) for _, batch in stream)


def test_reading_a_large_matrix_needs_little_more_than_the_matrix(tmp_path: Path) -> None:
    n_rows, n_features = 20_000, 100
    matrix = np.full((n_rows, n_features), 1.0 / n_features, dtype=np.float32)
    np.savez(tmp_path / "r.npz", step=np.zeros(n_rows, np.int64), client=np.arange(n_rows), representation=matrix)

    tracemalloc.start()
    read_reports(tmp_path / "r.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 2.5 * matrix.nbytes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("step,client\n0,a\n", "r.csv has no features; give one column per feature beside step and client"),
        ("step,clients,f\n", "has no column 'client'; did you mean 'clients'?"),
        ("client,f\n", "has no column 'step'"),
        ("step,client,f\n", "has a header but no rows"),
        ("step,client,f\n0,a,1\nx,a,1\n", "line 3, column 'step': 'x' is no step; give a whole number"),
        ("step,client,f\n-1,a,1\n", "line 2, column 'step': '-1' is no step"),
        ("step,client,f\n0.5,a,1\n", "line 2, column 'step': '0.5' is no step"),
        ("step,client,f\n0,a,one\n", "line 2, column 'f': 'one' is no number"),
        ("step,client,f\n0,a,nan\n", "line 2, column 'f': 'nan' is no finite number"),
        ("step,client,f\n0,a,1e39\n", "line 2: the representation holds inf at position 0"),
        ("step,client,f\n0,,1\n", "line 2, column 'client': '' is empty"),
        ("step,client,f\n0,a\n", "line 2: 2 cells but the header has 3"),
        ("step,client,f,g\n0,a,1,0\n0,b,0.5,0.6\n", "line 3: the histogram sums to 1.1, not to 1"),
        ("step,client,f,g\n0,a,1,0\n\n0,b,1.5,-0.5\n", "line 4: the histogram holds the negative share -0.5"),
        (
            "step,client,f\n0,a,1\n1,b,1\n1,a,1\n0,b,1\n1,b,1\n",
            "line 3 and line 6: client 'b' reports twice in step 1; keep one",
        ),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path, content)

    with pytest.raises(FileFormatError) as caught:
        read_reports(path)

    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


GOOD: dict[str, Array] = {
    "step": np.array([0, 0, 1]),
    "client": np.array([1, 2, 1]),
    "representation": np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]),
}


def test_a_row_of_zeros_is_valid(tmp_path: Path) -> None:
    np.savez(tmp_path / "r.npz", allow_pickle=False, **GOOD)

    assert listed(read_reports(tmp_path / "r.npz"))[1] == (1, {1: [0.0, 0.0]})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"step": np.array([0, 0])}, "has 2 steps and 3 clients"),
        ({"step": np.array([0, -1, 0])}, "row 1: step -1; steps are not negative"),
        ({"step": np.array([0.0, 0.5, 1.0])}, "step in row 1 is 0.5; a whole number"),
        ({"step": np.array(["0", "0", "1"])}, "step has shape (3,) and type <U1"),
        ({"client": np.array([[1, 2, 1]])}, "client has shape (1, 3)"),
        ({"client": np.array(["a", "b\n", "a"])}, "has control characters"),
        ({"client": np.array([1, 1, 1])}, "row 0 and row 1: client 1 reports twice in step 0"),
        ({"representation": np.ones((3, 0))}, "representation has shape (3, 0)"),
        ({"representation": np.ones(3)}, "representation has shape (3,)"),
        ({"representation": np.ones((2, 1))}, "representation has shape (2, 1)"),
        ({"representation": np.full((3, 1), "x")}, "representation has shape (3, 1) and type <U1; give numbers"),
        ({"representation": np.array([[1.0], [np.nan], [np.nan]])}, "row 1: the representation holds nan at position"),
        ({"representation": np.array([[1.0], [0.0], [2.0]])}, "row 2: the histogram sums to 2, not to 1"),
        ({name: array[:0] for name, array in GOOD.items()}, "has 0 steps and 0 clients"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, changed: dict[str, Array], message: str) -> None:
    path = tmp_path / "r.npz"
    np.savez(path, allow_pickle=False, **(GOOD | changed))

    with pytest.raises(FileFormatError) as caught:
        read_reports(path)

    assert str(path) in str(caught.value)
    assert message in str(caught.value)


@given(st.integers(1, 300), st.data())
def test_of_many_bad_rows_the_first_is_named(
    tmp_path_factory: pytest.TempPathFactory, n_rows: int, data: st.DataObject
) -> None:
    bad = data.draw(st.lists(st.integers(0, n_rows - 1), min_size=1, max_size=5))
    rows = np.ones((n_rows, 1))
    rows[bad] = 3.0
    path = tmp_path_factory.getbasetemp() / "bad.npz"
    np.savez(path, step=np.zeros(n_rows, np.int64), client=np.arange(n_rows), representation=rows)

    with pytest.raises(FileFormatError, match=rf", row {min(bad)}: the histogram sums to 3"):
        read_reports(path)


def test_vectors_may_be_any_finite_numbers(tmp_path: Path) -> None:
    path = write(tmp_path, "step,client,f,g\n0,a,-7,2.5\n")

    assert listed(read_reports(path, "vector")) == [(0, {"a": [-7.0, 2.5]})]


def test_progress_is_told_in_rows(tmp_path: Path) -> None:
    told: list[int] = []

    read_reports(write(tmp_path, "step,client,f\n0,a,1\n1,a,1\n"), on_rows=told.append)

    assert told == [2]


def test_an_unknown_kind_or_format_is_refused(tmp_path: Path) -> None:
    stream = gather_reports([(0, ReportBatch(client_ids=[1], representations=np.ones((1, 1))))], kind="histogram")

    with pytest.raises(OptionError, match=r"unknown kind of representation 'histo'; did you mean 'histogram'\?"):
        read_reports(tmp_path / "r.csv", "histo")
    with pytest.raises(OptionError, match=r"'r\.json' says no format; end the name with \.npz, \.csv or \.csv\.gz"):
        write_reports(stream, tmp_path / "r.json")


def test_no_report_at_all_is_no_stream() -> None:
    with pytest.raises(InputError, match="there is no report at all"):
        gather_reports([], kind="histogram")


def test_gzip_is_known_by_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(gzip.compress(b"step,client,f\n0,a,1\n"))

    assert listed(read_reports(tmp_path / "r.csv")) == [(0, {"a": [1.0]})]
