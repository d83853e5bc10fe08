"""Damaged files: whatever the bytes, a reader answers or raises an error of ours, on one line."""

import gzip
import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fielding.errors import FileFormatError
from fielding.records.report_file import read_reports
from fielding.traces.importers import Columns, import_trace
from fielding.traces.trace import read_trace

TRACE_CSV = b'client,time,label,count\n1,2022-01-05,"cat, big",3\n2,2022-02-01T10:00:00,dog,1\n\n3,2022-03,cat,2\n'
REPORT_CSV = b"step,client,cat,dog\n0,1,0.5,0.5\n0,2,0,1\n3,1,1,0\n3,2,0,0\n"
EXAMPLES = 200


def archive(**arrays: object) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **{name: np.array(array) for name, array in arrays.items()})
    return file.getvalue()


TRACE_NPZ = archive(client=["a", "b"], time=[0.0, 1.0], y=[0, 1], classes=["cat", "dog"], count=[1, 2])
REPORT_NPZ = archive(step=[0, 1], client=[1, 2], representation=[[0.5, 0.5], [0.0, 1.0]], features=["cat", "dog"])


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Return the content with some bytes changed, cut out, doubled or put in."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        length = draw(st.integers(0, 8))
        piece = draw(
            st.binary(max_size=8) | st.sampled_from([b'"', b",", b"\n", b"\r", b"\x00", b"-", b"nan", b"9" * 30])
        )
        data[at : at + length] = piece if draw(st.booleans()) else bytes(data[at : at + length]) * 2
    return bytes(data)


def settle(read: Callable[[Path], object], path: Path, content: bytes) -> None:
    """Read the file; an error must be ours and fit on a line."""
    path.write_bytes(content)
    try:
        read(path)
    except FileFormatError as error:
        message = str(error)
    else:
        message = ""
    assert "\n" not in message
    assert len(message) < 1000


READERS: dict[str, tuple[bytes, Callable[[Path], object]]] = {
    "trace.npz": (TRACE_NPZ, read_trace),
    "import.npz": (TRACE_NPZ, lambda path: import_trace(path, Columns(count="count"))),
    "import.csv": (TRACE_CSV, lambda path: import_trace(path, Columns(count="count"))),
    "import.csv.gz": (gzip.compress(TRACE_CSV, mtime=0), import_trace),
    "reports.npz": (REPORT_NPZ, read_reports),
    "reports.csv": (REPORT_CSV, read_reports),
    "reports.csv.gz": (gzip.compress(REPORT_CSV, mtime=0), lambda path: read_reports(path, "vector")),
}


@pytest.mark.parametrize("name", sorted(READERS))
def test_the_undamaged_file_is_read(tmp_path: Path, name: str) -> None:
    content, read = READERS[name]
    (tmp_path / name).write_bytes(content)

    assert read(tmp_path / name) is not None


@pytest.mark.parametrize("name", sorted(READERS))
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    content, read = READERS[name]

    settle(read, tmp_path_factory.getbasetemp() / name, data.draw(damaged(content)))


@pytest.mark.parametrize("name", sorted(READERS))
@given(content=st.binary(max_size=200))
def test_bytes_without_meaning_are_refused(tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes) -> None:
    settle(READERS[name][1], tmp_path_factory.getbasetemp() / name, content)


@pytest.mark.parametrize("name", ["import.csv.gz", "reports.csv.gz"])
@given(data=st.data())
def test_damaged_text_in_a_sound_gzip_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    content, read = READERS[name]
    inside = data.draw(damaged(gzip.decompress(content)))

    settle(read, tmp_path_factory.getbasetemp() / name, gzip.compress(inside, mtime=0))


arrays = st.one_of(
    st.sampled_from(
        [
            np.array([]),
            np.array(5),
            np.array([True, False]),
            np.array([1j, 2j]),
            np.array([b"a", b"b"]),
            np.array(["", "b"]),
            np.array(["a\x00b", "\ud800"]),
            np.array([np.nan, np.inf]),
            np.array([2**64 - 1, 0], dtype=np.uint64),
            np.array(["NaT", "2022"], dtype="datetime64[s]"),
            np.array([1, 2], dtype="timedelta64[s]"),
            np.array([(1, 2.0), (3, 4.0)], dtype=[("a", int), ("b", float)]),
            np.array([[1, 2], [3, 4]]),
            np.array([0x110000, 5], dtype=np.uint32).view("<U1"),
            np.array([1e308, -1e308]),
            np.zeros((2, 0)),
            np.zeros((2, 3), dtype=np.float16),
        ]
    ),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=2).map(np.array),
    st.lists(st.floats(), min_size=2, max_size=2).map(np.array),
    st.lists(st.text(max_size=3), min_size=2, max_size=2).map(np.array),
)


@pytest.mark.parametrize("name", [name for name in sorted(READERS) if name.endswith(".npz")])
@given(data=st.data())
def test_arrays_of_any_type_and_shape_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    content, read = READERS[name]
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        good = {one: stored[one] for one in stored.files}
    changed = data.draw(st.dictionaries(st.sampled_from(sorted(good)), arrays, max_size=2))
    file = io.BytesIO()
    with suppress(UnicodeError):  # numpy cannot write every text that it can hold
        np.savez(file, allow_pickle=False, **(good | changed))
        settle(read, tmp_path_factory.getbasetemp() / name, file.getvalue())
