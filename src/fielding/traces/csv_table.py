"""CSV files, plain or gzipped, a chunk of rows at a time; every mistake is named by file, line and column."""

import csv
import gzip
import io
import math
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from fielding._typing import ClientId, Counts, Vector
from fielding.client.report import LONGEST_ID, checked_ids, id_order, row_chunks
from fielding.errors import FileFormatError, InputError, echo
from fielding.traces.npz_file import (
    MOST_TEXT,
    ZIP_MAGIC,
    Array,
    check_unpacked,
    first_bytes,
    missing_name,
    most_unpacked,
    unreadable,
)

PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
"""Texts that are whole numbers and nothing else: no leading zero, no plus sign, at most 19 digits."""


def parse_ids(texts: Sequence[str]) -> list[ClientId]:
    """Return the ids of a text file: whole numbers if every one is written as such, else the texts themselves.

    Examples
    --------
    >>> parse_ids(["7", "10"]), parse_ids(["007", "10"])
    ([7, 10], ['007', '10'])
    """
    if all(map(PLAIN_INTEGER.fullmatch, texts)):
        numbers = [int(text) for text in texts]
        if all(-(2**63) <= number < 2**63 for number in numbers):
            return cast(list[ClientId], numbers)
    return list(texts)


def sort_ids(client_ids: Sequence[ClientId], codes: Array) -> tuple[list[ClientId], Array]:
    """Return distinct ids, all of one type, in rising order, and positions in that order in place of the codes."""
    checked = checked_ids(client_ids)
    order = id_order(checked)
    ranks = np.empty(len(checked), dtype=np.int32)
    ranks[order] = np.arange(len(checked), dtype=np.int32)
    return [checked[at] for at in order.tolist()], ranks[codes]


TEXTS = "UT"  # kinds of arrays of texts: of fixed width, and of any


def encode_ids(client: Array) -> tuple[list[ClientId], Array]:
    """Return the distinct ids of an array, rising, and for each row its position among them as int32."""
    if client.ndim != 1 or client.dtype.kind not in f"iu{TEXTS}":
        raise InputError(
            f"client has shape {client.shape} and type {client.dtype}; give one whole number or text (dtype U) per row"
        )
    if client.dtype.kind in "iu":
        numbers, codes = np.unique(client, return_inverse=True)
        return checked_ids(numbers.tolist()), codes.astype(np.int32)
    names, codes = encode_texts(client)
    return sort_ids(cast(list[ClientId], names), codes)


def encode_texts(texts: Array) -> tuple[list[str], Array]:
    """Return the distinct texts of an array in order of appearance, and for each row its position as int32."""
    # A dictionary, not numpy.unique: sorting a million texts of fixed width takes ten times as long.
    seen: defaultdict[str, int] = defaultdict(count().__next__)
    codes = np.empty(texts.shape[0], dtype=np.int32)
    for part in row_chunks(texts.shape[0]):
        try:
            codes[part] = [seen[text] for text in texts[part].tolist()]
        except (ValueError, SystemError) as error:
            raise InputError(f"a text between rows {part.start} and {part.stop} is no Unicode ({error})") from None
    return list(seen), codes


def id_array(client_ids: Sequence[ClientId]) -> Array:
    """Return the ids as an array that needs no pickle: int64, or texts of fixed width."""
    return np.array(client_ids, dtype=np.int64 if isinstance(client_ids[0], int) else np.str_)


def whole_numbers(name: str, array: Array, *, below: int = 2**62) -> Counts:
    """Return an array of whole numbers as int64, or raise :class:`InputError` with the first row that is none."""
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise InputError(f"{name} has shape {array.shape} and type {array.dtype}; give one whole number per row")
    bad = ~(np.abs(array.astype(np.float64)) < below)
    if array.dtype.kind == "f":
        bad |= array != np.floor(array)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"{name} in row {row} is {array[row]}; a whole number below {below:.2g} is wanted")
    return array.astype(np.int64)


def plain_numbers(name: str, array: Array) -> Vector:
    """Return numbers or dates as float64, dates as unix seconds, or raise :class:`InputError`."""
    if array.ndim != 1 or array.dtype.kind not in "iufM":
        raise InputError(f"{name} has shape {array.shape} and type {array.dtype}; give one number per row")
    if array.dtype.kind != "M":
        return array.astype(np.float64)
    if np.isnat(array).any():
        raise InputError(f"{name} in row {int(np.argmax(np.isnat(array)))} is no date (NaT); every row needs one")
    microseconds: Vector = array.astype("datetime64[us]").astype(np.float64)
    return microseconds / 1e6


def text_names(name: str, array: Array) -> tuple[str, ...]:
    """Return an array of names as texts; numbers become their digits."""
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        raise InputError(f"{name} has shape {array.shape} and type {array.dtype}; give a list of names (dtype U)")
    try:
        return tuple(str(one) for one in array.tolist())
    except (ValueError, SystemError) as error:
        raise InputError(f"{name} holds {echo(error)}; give names of printable text") from None


def sort_classes(names: Sequence[str], codes: Array) -> tuple[tuple[str, ...], Array]:
    """Return the classes in rising order (by number if all are whole numbers, else by text) and the codes for it.

    Examples
    --------
    >>> classes, codes = sort_classes(["10", "9"], np.array([0, 1, 1]))
    >>> classes, codes.tolist()
    (('9', '10'), [1, 0, 0])
    """
    order = id_order(parse_ids(names))
    ranks = np.empty(len(names), dtype=np.int32)
    ranks[order] = np.arange(len(names), dtype=np.int32)
    return tuple(names[at] for at in order.tolist()), ranks[codes]


if TYPE_CHECKING:
    from _csv import Reader

    from _typeshed import WriteableBuffer

CHUNK = 2048
"""Rows that are split at a time: their cells stay in the cache, which makes reading twice as fast as larger chunks."""
MOST_CELLS = 1 << 20  # of wide tables fewer rows are split at a time
MOST_COLUMNS = 100_000
LONGEST_LINE = 1 << 23  # bytes
GZIP_MAGIC = b"\x1f\x8b"
MOST_DEFLATED = 1032  # bytes that one of gzip can stand for


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvTable:
    """A CSV file whose header has been read; made by :func:`open_table`."""

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
            while rows := list(islice(reader, max(1, min(CHUNK, MOST_CELLS // len(self.header))))):
                kept = rows if all(rows) else [row for row in rows if row]
                if set(map(len, kept)) - {len(self.header)}:
                    at = next(at for at, row in enumerate(kept) if len(row) != len(self.header))
                    raise FileFormatError(
                        f"{self.path}, line {self.line_of(n_rows + at)}: {len(kept[at])} cells but the header has "
                        f"{len(self.header)}; quote cells that hold {self.delimiter!r}"
                    )
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


def open_table(path: Path) -> CsvTable:
    """Read the header of a CSV file, which may be gzipped whatever its name.

    Cells are separated by commas; by semicolons or tabs if the header has those and no comma.

    Raises :class:`FileFormatError` if the file is missing, empty, no text in UTF-8, or damaged.
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
        with _bytes(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
            first = text.readline()
            # A comma, unless the header has none but semicolons or tabs.
            delimiter = next((mark for mark in (",", ";", "\t") if mark in first), ",")
            if (n_columns := first.count(delimiter) + 1) > MOST_COLUMNS:
                raise FileFormatError(f"{path} has {n_columns} columns; at most {MOST_COLUMNS} are read, use .npz")
            reader = csv.reader(chain([first], text), delimiter=delimiter, strict=True)
            yield reader
    except UnicodeDecodeError:
        raise FileFormatError(f"{path}, line {_undecodable_line(path)}: not UTF-8; save the file as UTF-8") from None
    except csv.Error as error:
        raise FileFormatError(f"{path}, line {reader.line_num}: no valid CSV ({error}); check the quotes") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileFormatError(f"{path}: the gzip data are damaged or cut short ({error}); get the file again") from None
    except OSError as error:
        raise unreadable(path, error) from None


class _BoundedBytes(io.RawIOBase):
    """The unpacked bytes of a file, as long as neither all of them nor a line are more than they may be."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._most = path, math.inf
        self._raw: io.BufferedReader | gzip.GzipFile
        if first_bytes(path, 2) == GZIP_MAGIC:
            with path.open("rb") as file:
                n_packed = file.seek(-min(4, path.stat().st_size), os.SEEK_END)
                n_bytes = int.from_bytes(file.read(), "little")
            # The length in its last bytes may be wrong: reading counts as well.
            if n_bytes <= MOST_DEFLATED * n_packed:
                check_unpacked(path, n_bytes, MOST_TEXT)
            self._most, self._raw = most_unpacked(path, MOST_TEXT), gzip.GzipFile(path, "rb")
        else:
            self._raw = path.open("rb")
        self._n_bytes, self._n_of_line = 0, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        n_read = self._raw.readinto(view)
        newest = bytes(view[:n_read]).rfind(b"\n")
        self._n_bytes += n_read
        self._n_of_line = self._n_of_line + n_read if newest < 0 else n_read - newest
        if self._n_bytes > self._most:
            check_unpacked(self._path, self._n_bytes, MOST_TEXT)
        if self._n_of_line > LONGEST_LINE:
            raise FileFormatError(f"{self._path} has a line of more than {LONGEST_LINE:,} bytes; is it a CSV file?")
        return n_read

    def close(self) -> None:
        self._raw.close()
        super().close()


def _bytes(path: Path) -> io.BufferedReader:
    """Open the unpacked bytes of a file."""
    return io.BufferedReader(_BoundedBytes(path), 1 << 20)


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


LARGEST_CACHE = 100_000
"""Distinct texts that are remembered at most, so that a column of ever new dates does not fill the memory."""
MOST_COUNT = 2**53

NO_DATE = "no date; write dates like 2022-01-31, 2022-01-31T12:00:00 or 2022-01"

_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}")


class CellError(InputError):
    """A text in a column that cannot be what it should be; ``wanted`` ends a sentence that starts with the text.

    ``at``: its position among the texts at hand; a negative one, that many before the first of them, needs ``got``.
    """

    def __init__(self, at: int, wanted: str, got: str | None = None) -> None:
        super().__init__(f"position {at}: {wanted}")
        self.at = at
        self.wanted = wanted
        self.got = got


class CsvColumn(Protocol):
    """Takes a column of a file, chunk by chunk."""

    def add(self, texts: Sequence[str]) -> None:
        """Take the next texts, or raise :class:`CellError`."""
        ...


class NameColumn:
    """A column of ids or labels: every distinct text gets the next code."""

    def __init__(self) -> None:
        self._codes: defaultdict[str, int] = defaultdict(count().__next__)
        self._parts: list[Array] = []

    def add(self, texts: Sequence[str]) -> None:
        """Take the next texts of the column, none of them empty."""
        if "" in texts:
            raise CellError(texts.index(""), "empty; every row needs a value here")
        self._parts.append(np.fromiter(map(self._codes.__getitem__, texts), dtype=np.int32, count=len(texts)))

    def names(self) -> list[str]:
        """Return the distinct texts in the order of their codes."""
        return list(self._codes)

    def codes(self) -> Array:
        """Return the code of every row, int32."""
        return np.concatenate(self._parts)


class NumberColumn:
    """A column of numbers; how a text becomes one is decided by the parser."""

    def __init__(self, parse: Callable[[Sequence[str]], Vector]) -> None:
        self._parse = parse
        self._parts: list[Vector] = []

    def add(self, texts: Sequence[str]) -> None:
        """Take the next texts of the column."""
        self._parts.append(self._parse(texts))

    def values(self) -> Vector:
        """Return the number of every row."""
        return np.concatenate(self._parts)


def fill_columns(
    table: CsvTable, wanted: Sequence[tuple[int, CsvColumn]], on_rows: Callable[[int], None] | None
) -> None:
    """Read a CSV file into columns, each given by its position in the file; ``on_rows`` gets the rows so far."""
    n_rows = 0
    for rows in table.chunks():
        cells = list(zip(*rows, strict=True))
        for place, column in wanted:
            try:
                column.add(cells[place])
            except CellError as error:
                got, name = cells[place][error.at] if error.got is None else error.got, table.header[place]
                raise table.mistake(n_rows + error.at, name, got=got, wanted=error.wanted) from None
        n_rows += len(rows)
        if on_rows is not None:
            on_rows(n_rows)
    if n_rows == 0:
        raise FileFormatError(f"{table.path} has a header but no rows; at least one is needed")


def check_printable(table: CsvTable, place: int, column: NameColumn) -> None:
    """Raise for the first id or label that is too long or not printable, with its line."""
    for code, name in enumerate(column.names()):
        if len(name) > LONGEST_ID or not name.isprintable():
            wanted = f"no name; use 1 to {LONGEST_ID} printable characters"
            raise table.mistake(int(np.argmax(column.codes() == code)), table.header[place], got=name, wanted=wanted)


def time_parser() -> Callable[[Sequence[str]], Vector]:
    """Return a parser for times: the first text decides whether they are numbers or dates."""
    parse: Callable[[Sequence[str]], Vector] | None = None

    def parse_times(texts: Sequence[str]) -> Vector:
        nonlocal parse
        if parse is None:
            parse = number_parser("time") if _parses(float, texts[0]) else _parse_once(_iso_seconds, NO_DATE)
        return parse(texts)

    return parse_times


def count_parser(what: str) -> Callable[[Sequence[str]], Vector]:
    """Return a parser for whole numbers from 0, exact as float64; ``what`` names them in errors."""
    return _parse_once(_whole_count, f"no {what}; give a whole number that is not negative")


def number_parser(what: str) -> Callable[[Sequence[str]], Vector]:
    """Return a parser for finite numbers; ``what`` names them in errors."""

    def parse(texts: Sequence[str]) -> Vector:
        try:
            numbers = np.fromiter(map(float, texts), dtype=np.float64, count=len(texts))
        except ValueError:
            at = next(at for at, text in enumerate(texts) if not _parses(float, text))
            raise CellError(at, f"no number; every {what} here must be one") from None
        if not np.isfinite(numbers).all():
            raise CellError(int(np.argmin(np.isfinite(numbers))), f"no finite number; every {what} must be one")
        return numbers

    return parse


def _parse_once(parse_one: Callable[[str], float], wanted: str) -> Callable[[Sequence[str]], Vector]:
    """Return a parser of columns that parses each distinct text once."""
    known: dict[str, float] = {}

    def parse(texts: Sequence[str]) -> Vector:
        if len(known) > LARGEST_CACHE:
            known.clear()
        try:
            known.update((text, parse_one(text)) for text in set(texts).difference(known))
        except ValueError:
            at = next(at for at, text in enumerate(texts) if not _parses(parse_one, text))
            raise CellError(at, wanted) from None
        return np.fromiter(map(known.__getitem__, texts), dtype=np.float64, count=len(texts))

    return parse


def _parses(parse_one: Callable[[str], float], text: str) -> bool:
    try:
        parse_one(text)
    except ValueError:
        return False
    return True


def _iso_seconds(text: str) -> float:
    """Return the unix seconds of a date, a date with time or a month; without a zone it is UTC."""
    moment = datetime.fromisoformat(f"{text}-01" if _MONTH.fullmatch(text) else text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _whole_count(text: str) -> float:
    number = float(int(text)) if PLAIN_INTEGER.fullmatch(text) else float(text)
    if not (0.0 <= number < MOST_COUNT) or math.floor(number) != number:
        raise ValueError
    return number
