"""Features from the columns of a CSV file: numbers as they stand, texts hashed."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np

from fielding._typing import Counts, Features
from fielding.errors import FileFormatError, echo
from fielding.traces.csv_table import CsvTable
from fielding.traces.hashing import HashedTexts
from fielding.traces.text_columns import CellError, Column, number_parser

_LARGEST = float(np.finfo(np.float32).max)


class FeatureColumn:
    """A column of numbers that become one feature of every sample."""

    def __init__(self) -> None:
        self._parse = number_parser("feature")
        self._parts: list[Features] = []

    def add(self, texts: Sequence[str]) -> None:
        """Take the next texts of the column, all of them finite numbers."""
        numbers = self._parse(texts)
        if float(np.abs(numbers).max()) > _LARGEST:
            at = int(np.abs(numbers).argmax())
            raise CellError(at, f"too large for a feature; the most is {_LARGEST:.3g}")
        self._parts.append(numbers.astype(np.float32))

    def values(self) -> Features:
        """Return the number of every row."""
        return np.concatenate(self._parts)


class CsvFeatures:
    """The columns of a CSV file that make up the features of its samples.

    Parameters
    ----------
    table
        The file.
    names
        Columns of numbers, in the order of the features; a name such as ``acc_*`` stands for all columns that match it.
    text
        The column of texts, whose features follow the numbers; None if there is none.
    n_text_features
        How many features a text has.
    taken
        Columns that say something else and that no pattern stands for.

    Raises
    ------
    FileFormatError
        If a column is missing, or named twice.
    """

    def __init__(
        self, table: CsvTable, *, names: Sequence[str], text: str | None, n_text_features: int, taken: Sequence[str]
    ) -> None:
        self._names = matching_columns(table, names, [*taken, text])
        self._numbers = [FeatureColumn() for _ in self._names]
        self._texts = None if text is None else HashedTexts(n_text_features)
        self.wanted: list[tuple[int, Column]] = [
            (table.position(name), column) for name, column in zip(self._names, self._numbers, strict=True)
        ]
        if text is not None and self._texts is not None:
            self.wanted.append((table.position(text), self._texts))

    def matrix(self, rows: Counts) -> Features | None:
        """Return the features of some rows, shape ``(n_rows, n_features)``, or None if no columns were named."""
        if not self.wanted:
            return None
        texts = None if self._texts is None else self._texts.features(rows)
        if texts is not None and not self._numbers:
            return texts
        n_texts = 0 if texts is None else texts.shape[1]
        matrix = np.empty((rows.size, len(self._numbers) + n_texts), dtype=np.float32)
        for at, column in enumerate(self._numbers):
            matrix[:, at] = column.values()[rows]
        if texts is not None:
            matrix[:, len(self._numbers) :] = texts
        return matrix


def matching_columns(table: CsvTable, names: Sequence[str], taken: Sequence[str | None]) -> list[str]:
    """Return the columns that names and patterns stand for, each once, in the order of the names."""
    found: list[str] = []
    for name in names:
        if "*" not in name:
            found.append(name)
            continue
        matches = [one for one in table.header if fnmatchcase(one, name) and one not in taken and one not in found]
        if not matches:
            shown = ", ".join(echo(one) for one in table.header[:12])
            raise FileFormatError(f"{table.path} has no column that matches {echo(name)}; it has: {shown}")
        found.extend(matches)
    for name in found:
        if found.count(name) > 1:
            raise FileFormatError(f"{table.path}: feature {echo(name)} is named twice; name it once")
    return found
