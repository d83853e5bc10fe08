"""Small files that hold much: they are refused before they fill the memory, and can be let in."""

import gzip
import io
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fielding.errors import FileFormatError, OptionError
from fielding.records.report_file import read_reports
from fielding.traces import csv_table, npz_file
from fielding.traces.csv_table import MOST_COLUMNS, open_table
from fielding.traces.npz_file import UNPACKED_GB, read_arrays, write_arrays
from fielding.traces.parquet_file import read_columns, read_frame, sample_cells

HEAD = b"step,client,a,b\n"


def refused(path: Path, read: Callable[[Path], object] = read_reports) -> str:
    """Return why a file is refused, after less than 64 MB of memory."""
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError) as told:
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert "\n" not in str(told.value)
    return str(told.value)


def packed(path: Path, *parts: tuple[bytes, int]) -> Path:
    with gzip.open(path, "wb", 1) as file:
        for text, times in parts:
            for _ in range(times):
                file.write(text)
    return path


def test_an_npz_that_holds_far_more_than_its_size_is_refused_by_its_headers(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in ("step", "client"):
            with archive.open(f"{name}.npy", "w") as part:
                np.save(part, np.zeros(1, dtype=np.int64))
        with archive.open("representation.npy", "w", force_zip64=True) as part:
            header = {"descr": "<f4", "fortran_order": False, "shape": (1, 300 << 20)}
            np.lib.format.write_array_header_1_0(part, header)
            for _ in range(300):
                part.write(bytes(4 << 20))

    said = refused(tmp_path / "bomb.npz")

    assert "bomb.npz holds more than 1024 MB in " in said
    assert f"if you trust it, set {UNPACKED_GB}" in said


def test_an_array_whose_header_promises_more_than_there_is_gets_no_memory(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**11,)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(32))

    with pytest.raises(FileFormatError, match=r"array 'x' is damaged \(by its header it has shape \(100000000000,\)"):
        read_arrays(tmp_path / "a.npz", ["x"])


@pytest.mark.parametrize("is_lying", [False, True])
def test_a_csv_that_holds_far_more_than_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_lying: bool
) -> None:
    for module in (csv_table, npz_file):
        monkeypatch.setattr(module, "MOST_TEXT", 1 << 20)
    path = packed(tmp_path / "bomb.csv.gz", (HEAD, 1), (b"1,1,0,1\n" * 1000, 1000))
    if is_lying:  # about its length, in its last bytes
        path.write_bytes(path.read_bytes()[:-4] + (99).to_bytes(4, "little"))

    assert "bomb.csv.gz holds more than 1 MB in " in refused(path)


def test_a_packed_file_may_be_let_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_table, "MOST_TEXT", 1 << 10)
    rows = b"".join(b"%d,1,0,1\n" % at for at in range(20_000))
    path = packed(tmp_path / "mine.csv.gz", (HEAD, 1), (rows, 1))
    monkeypatch.setattr(npz_file, "MOST_TIMES", 1)
    with pytest.raises(FileFormatError, match="holds more than"):
        read_reports(path)

    monkeypatch.setenv(UNPACKED_GB, "0.5")
    assert read_reports(path).n_rows == 20_000
    monkeypatch.setenv(UNPACKED_GB, "much")
    with pytest.raises(OptionError, match=f"{UNPACKED_GB} is 'much'; give a number of gigabytes"):
        read_reports(path)


@pytest.mark.parametrize("name", ["wide.csv", "wide.csv.gz"])
def test_a_header_of_too_many_columns_is_refused(tmp_path: Path, name: str) -> None:
    text = b"step,client" + b",a" * 1_000_000 + b"\n"
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)

    assert (
        refused(tmp_path / name) == f"{tmp_path / name} has 1000002 columns; at most {MOST_COLUMNS} are read, use .npz"
    )


@pytest.mark.parametrize("head", [b"", HEAD])
def test_a_line_without_end_is_refused(tmp_path: Path, head: bytes) -> None:
    path = packed(tmp_path / "long.csv.gz", (head, 1), (b"," * (1 << 20), 20))

    assert refused(path) == f"{path} has a line of more than 8,388,608 bytes; is it a CSV file?"


def test_wide_tables_are_read_in_chunks_of_fewer_rows(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("\n".join([",".join("a" * 50_000)] + [",".join("1" * 50_000)] * 50))

    sizes = [len(chunk) for chunk in open_table(tmp_path / "wide.csv").chunks()]

    assert sizes == [20, 20, 10]


@pytest.mark.parametrize(
    "large",
    [
        {"representation": np.zeros((1, 8 << 20), dtype=np.int8)},  # becomes float64
        {"representation": np.zeros((1, 6 << 20), dtype=np.float32)},  # is copied while it is checked
        {"step": np.zeros(1 << 20, dtype=np.int8)},
        {"client": np.zeros(1 << 20, dtype=np.int8)},
        {"features": np.full(1 << 20, "a")},
    ],
    ids=["small numbers", "a wide row", "steps", "clients", "features"],
)
def test_an_npz_is_bounded_by_what_its_arrays_become(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: dict[str, np.ndarray]
) -> None:
    one = np.zeros(1, dtype=np.int64)
    arrays: dict[str, np.ndarray] = {
        "step": one,
        "client": one,
        "representation": np.zeros((1, 1), dtype=np.float32),
        **large,
    }
    write_arrays(tmp_path / "bomb.npz", arrays, compress=True)
    monkeypatch.setenv(UNPACKED_GB, "0.03125")

    assert "bomb.npz holds more than 32 MB in " in refused(tmp_path / "bomb.npz")


def test_an_npz_of_small_numbers_takes_no_more_memory_than_it_is_counted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_clients = 1 << 16
    client = np.arange(n_clients) % 256 - 128
    np.savez_compressed(
        tmp_path / "a.npz",
        step=(np.arange(n_clients) // 256).astype(np.int16),
        client=client.astype(np.int8),
        representation=np.zeros((n_clients, 16), dtype=np.int8),
    )
    monkeypatch.setenv(UNPACKED_GB, "0.015625")
    tracemalloc.start()

    try:
        assert read_reports(tmp_path / "a.npz").representations.dtype == np.float64
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def parquet(path: Path, columns: dict[str, object]) -> Path:
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra 'data'")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path, row_group_size=3000)
    return path


def names(path: Path) -> dict[str, np.ndarray]:
    return read_columns(path, ["name"])


@pytest.mark.parametrize("read", [names, lambda path: read_frame(path, ["name"]), lambda path: sample_cells(path, 9)])
@pytest.mark.parametrize("is_category", [False, True])
def test_a_parquet_file_in_which_many_rows_repeat_a_long_text_is_refused(
    tmp_path: Path, read: Callable[[Path], object], is_category: bool
) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra 'data'")
    texts = pyarrow.DictionaryArray.from_arrays(np.zeros(4000, dtype=np.int32), ["x" * 100_000])
    path = parquet(tmp_path / "bomb.parquet", {"name": texts if is_category else texts.cast("string")})
    before = pyarrow.default_memory_pool().max_memory()

    assert path.stat().st_size < 20_000
    assert "bomb.parquet holds more than 128 MB in " in refused(path, read)
    assert pyarrow.default_memory_pool().max_memory() == before  # whatever making the file took


def test_a_parquet_file_of_pages_that_hold_far_more_than_their_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(tmp_path / "bomb.parquet", {"name": ["x" * (4 << 20)]})
    monkeypatch.setenv(UNPACKED_GB, "0.001953125")

    assert "bomb.parquet holds more than 2 MB in " in refused(path, names)


def test_lists_of_a_parquet_file_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs the extra 'data'")
    from pyarrow.parquet import ParquetFile

    path = parquet(tmp_path / "bomb.parquet", {"name": [[0] * 1000] * 1000, "size": [1] * 1000})
    assert sample_cells(path, 2) == {"size": ["1", "1"]}
    monkeypatch.delattr(ParquetFile, "read_row_group")

    for read in (names, lambda path: read_frame(path, ["name"])):
        assert "column 'name' holds list" in refused(path, read)


def test_texts_of_a_parquet_file_come_back_from_every_group_of_rows(tmp_path: Path) -> None:
    texts = [f"client {at % 700}, who is in the group {at // 3000}" for at in range(7000)]
    path = parquet(tmp_path / "a.parquet", {"name": texts, "gaps": [*texts[:6999], None]})

    assert names(path)["name"].tolist() == texts
    frame = read_frame(path, ["gaps", "name"])
    assert frame["name"].tolist() == texts
    assert not hasattr(frame["name"], "cat")
    assert frame["gaps"].isna().tolist() == [False] * 6999 + [True]
    assert sample_cells(path, 3) == {
        "name": [texts[0], texts[3499], texts[6999]],
        "gaps": [texts[0], texts[3499], ""],
    }
