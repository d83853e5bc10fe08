"""Columns of a Parquet file as arrays; pyarrow reads them, and only those that are asked for.

Texts are read as dictionaries: one that many rows repeat takes hardly any room in the file, and none in memory before
all that the rows hold has been counted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fielding._extras import require
from fielding.errors import FileFormatError, echo
from fielding.traces.npz_file import MOST_TEXT, Array, check_unpacked, first_bytes, missing_name

SUFFIXES = (".parquet", ".pq")
TEXT_CELL = 16  # bytes that a cell of an array of texts (dtype T) takes, beside the text if it is long


def is_parquet(path: Path) -> bool:
    """Return whether a file is Parquet by its name."""
    return path.suffix.lower() in SUFFIXES


def column_names(path: Path) -> tuple[str, ...]:
    """Return the names of the columns of a Parquet file; nothing else of it is read."""
    return tuple(str(name) for name in _open(path).schema_arrow.names)


def read_columns(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """Return columns of a Parquet file, each of shape ``(n_rows,)``: numbers, truth values, dates, or texts (dtype T).

    FileFormatError if a column is missing, a cell is empty, a column holds anything else, such as lists, or a small
    file holds more than a packed one may.
    """
    table = _read(path, names)
    return {name: _as_array(path, name, table.column(name)) for name in names}


def read_frame(path: Path, names: Sequence[str]) -> Any:
    """Return columns of a Parquet file, gaps and categories among them, as a DataFrame of pandas."""
    require("data", "pandas")
    table, schema = _read(path, names), _open(path).schema_arrow
    for at, name in enumerate(names):
        if _is_text(kind := schema.field(name).type):  # as a dictionary pandas would take it for a category
            table = table.set_column(at, name, table.column(at).cast(kind))
    return table.to_pandas()


def sample_cells(path: Path, most_rows: int) -> dict[str, list[str]]:
    """Return some cells of every plain column as texts, evenly spread; an empty cell is an empty text."""
    table = _read(path, [one.name for one in _open(path).schema_arrow if _cell_bytes(one.type)])
    rows = np.linspace(0, table.num_rows - 1, min(most_rows, table.num_rows)).astype(np.int64)
    some = table.take(rows)
    return {
        name: ["" if one is None else str(one) for one in some.column(at).to_pylist()]
        for at, name in enumerate(some.column_names)
    }


def _read(path: Path, names: Sequence[str]) -> Any:
    """Return columns as a table, texts as dictionaries, or raise before they take more memory than they may."""
    file = _open(path)
    import pyarrow

    schema = file.schema_arrow
    for name in names:
        if name not in schema.names:
            raise missing_name(path, kind="column", name=name, known=schema.names)
        if schema.names.count(name) > 1:
            raise FileFormatError(f"{path} has {schema.names.count(name)} columns {echo(name)}; rename all but one")
        if not _cell_bytes(schema.field(name).type):
            raise _unfit(path, name, schema.field(name).type)
    try:
        groups = [file.metadata.row_group(at) for at in range(file.num_row_groups)]
        if not (n_rows := sum(group.num_rows for group in groups)):
            raise FileFormatError(f"{path} has columns but no rows; at least one is needed")
        # A run of equal values takes no room in the file, however long it is; nor does a page of them.
        check_unpacked(path, n_rows * sum(_cell_bytes(schema.field(name).type) for name in names))
        chunks = [group.column(at) for group in groups for at in range(group.num_columns)]
        check_unpacked(path, sum(one.total_uncompressed_size for one in chunks if one.path_in_schema in names))
        file = _open(path, [name for name in names if _is_text(schema.field(name).type)])
        parts, n_bytes = [], 0
        for at in range(len(groups)):  # one by one, since a dictionary has room for 2 GB
            parts.append(file.read_row_group(at, columns=list(names)))
            n_bytes += sum(_text_bytes(chunk) for column in parts[-1].columns for chunk in column.chunks)
            check_unpacked(path, n_bytes, MOST_TEXT)
        return pyarrow.concat_tables(parts)
    except pyarrow.ArrowCapacityError:
        raise FileFormatError(
            f"{path} has more than 2 GB of different texts in a row group; write it again with smaller ones"
        ) from None
    except FileFormatError:
        raise
    except Exception as error:  # damaged bytes make it raise almost anything
        raise _unreadable(path, error) from None


def _open(path: Path, dictionaries: Sequence[str] = ()) -> Any:
    first_bytes(path, 1)  # a file that is not there is told like any other
    require("data", "pyarrow")
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(path, read_dictionary=list(dictionaries))
    except Exception as error:
        raise _unreadable(path, error) from None


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _cell_bytes(kind: Any) -> int:
    """Return how many bytes a cell of a type takes, those of its text aside; 0 if it is one that is not read."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    if _is_text(kind) or types.is_null(kind):
        return TEXT_CELL
    try:
        return max(8, int(kind.bit_width) // 8)
    except ValueError:  # of any width: lists, structures, bytes
        return 0


def _text_bytes(chunk: Any) -> int:
    """Return how many bytes the texts of a dictionary take when each row has its own; 0 for other columns."""
    from pyarrow import compute, types

    if not types.is_dictionary(chunk.type) or not _is_text(chunk.type.value_type):
        return 0
    lengths = compute.binary_length(chunk.dictionary)
    # Rows may use few texts of the dictionary, which is in memory all the same.
    return max(compute.sum(one).as_py() or 0 for one in (lengths, lengths.take(chunk.indices)))


def _as_array(path: Path, name: str, column: Any) -> Array:
    import pyarrow

    kinds = pyarrow.types
    if column.null_count:
        row = column.is_null().to_numpy().argmax()
        raise FileFormatError(f"{path}, row {row}, column {echo(name)}: it is empty; every row needs a value here")
    if kinds.is_dictionary(column.type) and _is_text(column.type.value_type):
        texts, first = np.empty(len(column), dtype=np.dtypes.StringDType()), 0
        for chunk in column.chunks:  # each distinct text is decoded once
            distinct = np.array(chunk.dictionary.to_pylist(), dtype=texts.dtype)
            texts[first : first + len(chunk)] = distinct[chunk.indices.to_numpy()]
            first += len(chunk)
        return texts
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kinds.is_decimal(column.type):
        column = column.cast(pyarrow.float64())
    found: Array = column.to_numpy()
    if found.dtype.kind not in "biufM":
        raise _unfit(path, name, column.type)
    return found


def _unfit(path: Path, name: str, kind: Any) -> FileFormatError:
    return FileFormatError(f"{path}: column {echo(name)} holds {kind}; give numbers, dates or texts")


def _unreadable(path: Path, error: Exception) -> FileFormatError:
    lines = str(error).splitlines()
    told = lines[0][:100] if lines else type(error).__name__
    return FileFormatError(f"{path} is no readable Parquet file ({told}); write it again")
