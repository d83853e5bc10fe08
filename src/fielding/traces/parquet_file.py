"""Columns of a Parquet file as arrays; pyarrow reads them, and only those that are asked for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fielding._extras import require
from fielding.errors import FileFormatError, echo
from fielding.traces.npz_file import Array, check_unpacked, first_bytes, missing_name

SUFFIXES = (".parquet", ".pq")


def is_parquet(path: Path) -> bool:
    """Return whether a file is Parquet by its name."""
    return path.suffix.lower() in SUFFIXES


def column_names(path: Path) -> tuple[str, ...]:
    """Return the names of the columns of a Parquet file; nothing else of it is read."""
    return tuple(str(name) for name in _open(path).schema_arrow.names)


def read_columns(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """Return columns of a Parquet file, each of shape ``(n_rows,)``: numbers, truth values, dates, or texts (dtype T).

    FileFormatError if a column is missing, a cell is empty, or a column holds anything else, such as lists.
    """
    table = _read_named(path, names)
    return {name: _as_array(path, name, table.column(name)) for name in names}


def read_frame(path: Path, names: Sequence[str]) -> Any:
    """Return columns of a Parquet file, gaps and categories among them, as a DataFrame of pandas."""
    require("data", "pandas")
    return _read_named(path, names).to_pandas()


def _read_named(path: Path, names: Sequence[str]) -> Any:
    known = column_names(path)
    for name in names:
        if name not in known:
            raise missing_name(path, kind="column", name=name, known=known)
        if known.count(name) > 1:
            raise FileFormatError(f"{path} has {known.count(name)} columns {echo(name)}; rename all but one")
    return _read(path, names)


def sample_cells(path: Path, most_rows: int) -> dict[str, list[str]]:
    """Return some cells of every plain column as texts, evenly spread; an empty cell is an empty text."""
    table = _read(path, None)
    rows = np.linspace(0, table.num_rows - 1, min(most_rows, table.num_rows)).astype(np.int64)
    some = table.take(rows)
    return {
        name: ["" if one is None else str(one) for one in some.column(at).to_pylist()]
        for at, name in enumerate(some.column_names)
        if not (some.schema.types[at].num_fields or "list" in str(some.schema.types[at]))
    }


def _read(path: Path, names: Sequence[str] | None) -> Any:
    try:
        file = _open(path)
        # A run of equal values takes no room in the file, however long it is.
        check_unpacked(path, 8 * file.metadata.num_rows * len(names or file.schema_arrow.names))
        table = file.read(columns=None if names is None else list(names))
    except FileFormatError:
        raise
    except Exception as error:  # damaged bytes make it raise almost anything
        raise FileFormatError(f"{path} is no readable Parquet file ({_short(error)}); write it again") from None
    if not table.num_rows:
        raise FileFormatError(f"{path} has columns but no rows; at least one is needed")
    return table


def _open(path: Path) -> Any:
    first_bytes(path, 1)  # a file that is not there is told like any other
    require("data", "pyarrow")
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(path)
    except Exception as error:
        raise FileFormatError(f"{path} is no readable Parquet file ({_short(error)}); write it again") from None


def _as_array(path: Path, name: str, column: Any) -> Array:
    import pyarrow

    kinds = pyarrow.types
    if column.null_count:
        row = column.is_null().to_numpy().argmax()
        raise FileFormatError(f"{path}, row {row}, column {echo(name)}: it is empty; every row needs a value here")
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kinds.is_decimal(column.type):
        column = column.cast(pyarrow.float64())
    if kinds.is_string(column.type) or kinds.is_large_string(column.type):
        return np.array(column.to_pylist(), dtype=np.dtypes.StringDType())
    found: Array = column.to_numpy()
    if found.dtype.kind not in "biufM":
        raise FileFormatError(f"{path}: column {echo(name)} holds {column.type}; give numbers, dates or texts")
    return found


def _short(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:100] if lines else type(error).__name__
