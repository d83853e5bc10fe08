import gzip
from pathlib import Path

import pytest

from fielding.errors import FileFormatError
from fielding.traces.csv_table import CHUNK, open_table


def write(folder: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows_of(path: Path) -> list[list[str]]:
    return [row for chunk in open_table(path).chunks() for row in chunk]


def test_rows_come_as_they_stand(tmp_path: Path) -> None:
    path = write(tmp_path, 'a,b\n1,"x, y"\n2,"said ""no"""\n')

    assert open_table(path).header == ("a", "b")
    assert rows_of(path) == [["1", "x, y"], ["2", 'said "no"']]


def test_a_byte_order_mark_windows_lines_and_blank_lines_do_no_harm(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbfa,b\r\n1,2\r\n\r\n3,4\r\n\r\n")

    assert open_table(path).header == ("a", "b")
    assert rows_of(path) == [["1", "2"], ["3", "4"]]


def test_a_gzipped_file_is_known_by_its_bytes(tmp_path: Path) -> None:
    assert rows_of(write(tmp_path, gzip.compress(b"a\n1\n", mtime=0), "t.csv.gz")) == [["1"]]
    assert rows_of(write(tmp_path, gzip.compress(b"a\n1\n", mtime=0), "t.csv")) == [["1"]]


def test_large_files_come_in_chunks(tmp_path: Path) -> None:
    path = write(tmp_path, "a\n" + "1\n" * (CHUNK + 1))

    assert [len(chunk) for chunk in open_table(path).chunks()] == [CHUNK, 1]


def test_lines_are_counted_as_an_editor_counts_them(tmp_path: Path) -> None:
    table = open_table(write(tmp_path, 'a,b\n1,"x\ny"\n\n2,z\n3,z\n'))

    assert [table.line_of(row) for row in range(3)] == [2, 5, 6]


def test_a_row_of_another_width_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n1,2\n\n1,2,3\n")

    with pytest.raises(FileFormatError, match=r"t\.csv, line 4: 3 cells but the header has 2; quote cells"):
        rows_of(path)


def test_a_row_far_below_is_named_by_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n" + "1,2\n" * (2 * CHUNK) + "1\n")

    with pytest.raises(FileFormatError, match=f"line {2 * CHUNK + 2}: 1 cells"):
        rows_of(path)


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "t.csv", "is empty; a CSV file whose first line names its columns is wanted"),
        (b"\n\n", "t.csv", "has no header"),
        (b"PK\x03\x04", "t.csv", "is a zip or .npz file, not CSV"),
        (b"a,b\n1,2\n", "t.csv.gz", r"is not gzipped \(it starts with b'a,'\)"),
        (
            gzip.compress(b"a,b\n" + b"1,2\n" * 1000, mtime=0)[:-12],
            "t.csv.gz",
            "the gzip data are damaged or cut short",
        ),
        (b"\x1f\x8b\x08 no gzip at all", "t.csv.gz", "t.csv.gz"),
        (b"a,b\n1,2\n1,\xff\n", "t.csv", "line 3: not UTF-8; save the file as UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "t.csv", "line 1: not UTF-8"),
        (b'a,b\n1,"x"y\n', "t.csv", "line 2: no valid CSV .*; check the quotes"),
        (b'a,b\n1,"x\n', "t.csv", "line 2: no valid CSV"),
        (b"a,b\n1," + b"x" * 200_000 + b"\n", "t.csv", "line 2: no valid CSV .field larger than field limit"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes, name: str, message: str) -> None:
    path = write(tmp_path, content, name)

    with pytest.raises(FileFormatError, match=message) as caught:
        rows_of(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"none.csv cannot be read \(No such file or directory\)"):
        open_table(tmp_path / "none.csv")


def test_a_missing_column_is_named_with_the_nearest(tmp_path: Path) -> None:
    table = open_table(write(tmp_path, "client,tiem,label\n"))

    with pytest.raises(FileFormatError, match=r"has no column 'time'; did you mean 'tiem'\? It has: 'client', 'tiem'"):
        table.position("time")


def test_a_column_that_stands_twice_is_refused(tmp_path: Path) -> None:
    table = open_table(write(tmp_path, "client,time,time\n"))

    with pytest.raises(FileFormatError, match="has 2 columns 'time'; rename all but one"):
        table.position("time")


@pytest.mark.parametrize("mark", [";", "\t"])
def test_semicolons_and_tabs_separate_cells_where_the_header_has_no_comma(tmp_path: Path, mark: str) -> None:
    path = write(tmp_path, f'"a"{mark}b\n1,5{mark}"x{mark}y"\n')

    assert open_table(path).header == ("a", "b")
    assert rows_of(path) == [["1,5", f"x{mark}y"]]
    with pytest.raises(FileFormatError, match=r"1 cells but the header has 2; quote cells that hold"):
        rows_of(write(tmp_path, f"a{mark}b\n1,5\n"))


def test_a_comma_in_the_header_counts_more_than_other_marks(tmp_path: Path) -> None:
    assert rows_of(write(tmp_path, "a,b;c\n1,2;3\n")) == [["1", "2;3"]]
