"""CSV files, plain or gzipped, a chunk of rows at a time; every mistake is named by file, line and column."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from fielding.errors import FileFormatError, echo
from fielding.traces.npz_file import ZIP_MAGIC, first_bytes, missing_name, unreadable

if TYPE_CHECKING:
    from _csv import Reader

CHUNK = 2048
"""Rows that are split at a time: their cells stay in the cache, which makes reading twice as fast as larger chunks."""
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvTable:
    """A CSV file whose header has been read; made by :func:`open_table`.

    Parameters
    ----------
    path
        Where the file is.
    header
        The names of the columns.
    delimiter
        What stands between two cells.
    """

    path: Path
    header: tuple[str, ...]
    delimiter: str = ","

    def position(self, name: str) -> int:
        """Return where the column of this name stands, or raise with the nearest name."""
        if self.header.count(name) > 1:
            raise FileFormatError(f"{self.path} has {self.header.count(name)} columns {echo(name)}; rename all but one")
        if name not in self.header:
            raise missing_name(self.path, kind="column", name=name, known=self.header)
        return self.header.index(name)

    def chunks(self) -> Iterator[list[list[str]]]:
        """Yield the rows below the header in chunks; blank lines are left out, every row is as wide as the header."""
        n_rows = 0
        with _reader(self.path) as reader:
            next(reader)
            while rows := list(islice(reader, CHUNK)):
                kept = rows if all(rows) else [row for row in rows if row]
                if set(map(len, kept)) - {len(self.header)}:
                    self._refuse_ragged(kept, n_rows)
                n_rows += len(kept)
                if kept:
                    yield kept

    def line_of(self, row: int) -> int:
        """Return the line on which a row (0 = the first below the header) starts; reads the file again."""
        with _reader(self.path) as reader:
            next(reader)
            begins = reader.line_num + 1
            for cells in reader:
                if cells:
                    row -= 1
                if row < 0:
                    break
                begins = reader.line_num + 1
            return begins

    def mistake(self, row: int, column: str, *, got: str, wanted: str) -> FileFormatError:
        """Return the error for one cell."""
        return FileFormatError(f"{self.path}, line {self.line_of(row)}, column {echo(column)}: {echo(got)} is {wanted}")

    def _refuse_ragged(self, rows: list[list[str]], first: int) -> None:
        """Raise for the first row that is not as wide as the header."""
        at = next(at for at, row in enumerate(rows) if len(row) != len(self.header))
        raise FileFormatError(
            f"{self.path}, line {self.line_of(first + at)}: {len(rows[at])} cells but the header has "
            f"{len(self.header)}; quote cells that hold {self.delimiter!r}"
        )


def open_table(path: Path) -> CsvTable:
    """Read the header of a CSV file, which may be gzipped whatever its name.

    Cells are separated by commas; by semicolons or tabs if the header has those and no comma.

    Raises
    ------
    FileFormatError
        If the file is missing, empty, no text in UTF-8, or damaged.
    """
    start = first_bytes(path, 2)
    if not start:
        raise FileFormatError(f"{path} is empty; a CSV file whose first line names its columns is wanted")
    if start == ZIP_MAGIC:
        raise FileFormatError(f"{path} is a zip or .npz file, not CSV; give it the suffix .npz if it holds arrays")
    if path.suffix == ".gz" and start != GZIP_MAGIC:
        raise FileFormatError(f"{path} is not gzipped (it starts with {start!r}); drop the suffix .gz or pack it")
    with _reader(path) as reader:
        header, delimiter = next(reader, []), reader.dialect.delimiter
    if not any(header):
        raise FileFormatError(f"{path} has no header; its first line must name the columns")
    return CsvTable(path=path, header=tuple(header), delimiter=delimiter)


@contextmanager
def _reader(path: Path) -> Iterator["Reader"]:
    """Open a file as CSV and turn whatever goes wrong while reading it into one clear error."""
    try:
        with _text(path) as text:
            first = text.readline()
            reader = csv.reader(chain([first], text), delimiter=_delimiter(first), strict=True)
            yield reader
    except UnicodeDecodeError:
        raise FileFormatError(f"{path}, line {_undecodable_line(path)}: not UTF-8; save the file as UTF-8") from None
    except csv.Error as error:
        raise FileFormatError(f"{path}, line {reader.line_num}: no valid CSV ({error}); check the quotes") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileFormatError(f"{path}: the gzip data are damaged or cut short ({error}); get the file again") from None
    except OSError as error:
        raise unreadable(path, error) from None


def _delimiter(header: str) -> str:
    """Return what separates cells: a comma, unless the header has none but semicolons or tabs.

    Examples
    --------
    >>> _delimiter("client;time;label"), _delimiter("client,note;label"), _delimiter("label")
    (';', ',', ',')
    """
    return next((mark for mark in (",", ";", "\t") if mark in header), ",")


@contextmanager
def _text(path: Path) -> Iterator[io.TextIOWrapper]:
    with _bytes(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
        yield text


def _bytes(path: Path) -> io.BufferedReader:
    """Open the unpacked bytes of a file."""
    if first_bytes(path, 2) == GZIP_MAGIC:
        return io.BufferedReader(gzip.GzipFile(path, "rb"), 1 << 20)
    return path.open("rb")


def _undecodable_line(path: Path) -> int:
    """Return the first line that is not UTF-8, or the last one that can be read."""
    number = 0
    with _bytes(path) as raw, suppress(OSError, EOFError, zlib.error):
        for line in raw:
            number += 1
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                break
    return number
