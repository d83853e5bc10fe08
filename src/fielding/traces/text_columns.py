"""Columns of a CSV file, chunk by chunk: texts in, codes and numbers out, each distinct text parsed once."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Protocol

import numpy as np

from fielding._typing import Vector
from fielding.client.report import LONGEST_ID
from fielding.errors import FileFormatError, InputError
from fielding.traces.csv_table import PLAIN_INTEGER, CsvTable
from fielding.traces.npz_file import Array

LARGEST_CACHE = 100_000
"""Distinct texts that are remembered at most, so that a column of ever new dates does not fill the memory."""
MOST_COUNT = 2**53

NO_DATE = "no date; write dates like 2022-01-31, 2022-01-31T12:00:00 or 2022-01"

_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}")


class CellError(InputError):
    """A text in a column that cannot be what it should be.

    Parameters
    ----------
    at
        Its position in the chunk.
    wanted
        What it is and should be, as the end of a sentence that starts with the text.
    """

    def __init__(self, at: int, wanted: str) -> None:
        super().__init__(f"position {at}: {wanted}")
        self.at = at
        self.wanted = wanted


class Column(Protocol):
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


def fill_columns(table: CsvTable, wanted: Sequence[tuple[int, Column]], on_rows: Callable[[int], None] | None) -> None:
    """Read a CSV file into the columns at these positions.

    Parameters
    ----------
    table
        The file.
    wanted
        Positions of columns in it, and who takes each.
    on_rows
        Called after every chunk with the number of rows so far.
    """
    n_rows = 0
    for rows in table.chunks():
        cells = list(zip(*rows, strict=True))
        for place, column in wanted:
            try:
                column.add(cells[place])
            except CellError as error:
                got, name = cells[place][error.at], table.header[place]
                raise table.mistake(n_rows + error.at, name, got=got, wanted=error.wanted) from None
        n_rows += len(rows)
        if on_rows is not None:
            on_rows(n_rows)
    if n_rows == 0:
        raise FileFormatError(f"{table.path} has a header but no rows; at least one is needed")


def check_names(table: CsvTable, place: int, column: NameColumn) -> None:
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
            parse = number_parser("time") if _is_number(texts[0]) else _cached(_iso_seconds, NO_DATE)
        return parse(texts)

    return parse_times


def count_parser(what: str) -> Callable[[Sequence[str]], Vector]:
    """Return a parser for whole numbers from 0, exact as float64; ``what`` names them in errors."""
    return _cached(_whole_count, f"no {what}; give a whole number that is not negative")


def number_parser(what: str) -> Callable[[Sequence[str]], Vector]:
    """Return a parser for finite numbers; ``what`` names them in errors."""
    return partial(_parse_numbers, what=what)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parse_numbers(texts: Sequence[str], what: str) -> Vector:
    try:
        numbers = np.fromiter(map(float, texts), dtype=np.float64, count=len(texts))
    except ValueError:
        at = next(at for at, text in enumerate(texts) if not _is_number(text))
        raise CellError(at, f"no number; every {what} here must be one") from None
    if not np.isfinite(numbers).all():
        raise CellError(int(np.argmin(np.isfinite(numbers))), f"no finite number; every {what} must be one")
    return numbers


def _cached(parse_one: Callable[[str], float], wanted: str) -> Callable[[Sequence[str]], Vector]:
    """Return a parser of columns that parses each distinct text once."""
    known: dict[str, float] = {}

    def parse(texts: Sequence[str]) -> Vector:
        if len(known) > LARGEST_CACHE:
            known.clear()
        try:
            known.update((text, parse_one(text)) for text in _new(texts, known))
        except ValueError:
            at = next(at for at, text in enumerate(texts) if not _parses(parse_one, text))
            raise CellError(at, wanted) from None
        return np.fromiter(map(known.__getitem__, texts), dtype=np.float64, count=len(texts))

    return parse


def _new(texts: Sequence[str], known: dict[str, float]) -> Iterable[str]:
    return set(texts).difference(known)


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
