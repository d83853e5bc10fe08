"""CSV and ``.npz`` files of others, with columns that the user names, turned into a trace."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fielding._typing import Counts, Vector
from fielding.errors import FileFormatError, InputError, echo
from fielding.traces.columns import (
    encoded_ids,
    encoded_texts,
    in_id_order,
    listed_classes,
    plain_numbers,
    text_names,
    typed_ids,
    whole_numbers,
)
from fielding.traces.csv_table import open_table
from fielding.traces.npz_file import Array, array_names, read_arrays
from fielding.traces.text_columns import (
    CellError,
    Column,
    NameColumn,
    NumberColumn,
    check_names,
    count_parser,
    fill_columns,
    time_parser,
)
from fielding.traces.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns of a file say what.

    Parameters
    ----------
    client
        Who: ids. In a CSV file they become whole numbers if all are written as such, without leading zeros.
    time
        When: unix seconds (plain digits always are), ISO dates with or without time (UTC unless they say otherwise),
        or months such as ``2022-01``.
    label
        What: the class of the sample.
    count
        How many equal samples the row stands for; None if each row is one. Rows with a count of 0 are left out.
    """

    client: str = "client"
    time: str = "time"
    label: str = "label"
    count: str | None = None


DEFAULT_COLUMNS = Columns()


def import_trace(
    path: str | Path, columns: Columns = DEFAULT_COLUMNS, *, on_rows: Callable[[int], None] | None = None
) -> Trace:
    """Read a trace from a CSV file (plain or gzipped) or from an ``.npz`` file.

    Parameters
    ----------
    path
        The file; the suffix ``.npz`` tells arrays from CSV.
    columns
        The names of its columns or arrays. Of an ``.npz`` file ``label`` may also be the array ``y``, whose
        class names are taken from ``classes`` if it is there.
    on_rows
        Called now and then with the number of rows read so far.

    Raises
    ------
    FileFormatError
        If the file is not as it should be; the message names line (or row) and column.
    """
    path = Path(path)
    return import_npz(path, columns) if path.suffix == ".npz" else import_csv(path, columns, on_rows=on_rows)


def import_csv(path: Path, columns: Columns, *, on_rows: Callable[[int], None] | None = None) -> Trace:
    """Read a trace from a CSV file; classes and clients are listed in rising order."""
    table = open_table(path)
    client, label = NameColumn(), NameColumn()
    time, count = NumberColumn(time_parser()), NumberColumn(count_parser("count"))
    places = [table.position(name) for name in (columns.client, columns.time, columns.label)]
    wanted: list[tuple[int, Column]] = list(zip(places, (client, time, label), strict=True))
    if columns.count is not None:
        wanted.append((table.position(columns.count), count))
    fill_columns(table, wanted, on_rows)
    check_names(table, places[0], client)
    check_names(table, places[2], label)
    classes, y = listed_classes(label.names(), label.codes())
    with _naming(path):
        ids, codes = in_id_order(typed_ids(client.names()), client.codes())
        trace = Trace(client_ids=tuple(ids), client=codes, time=time.values(), y=y, classes=classes)
        return trace if columns.count is None else _counted(trace, count.values().astype(np.int64))


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn errors about values into errors about the file that holds them."""
    try:
        yield
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from None


def _counted(trace: Trace, count: Counts) -> Trace:
    """Return the trace with counts, without the rows that stand for no sample."""
    if count.shape != (trace.n_rows,):
        raise InputError(f"count has {count.shape[0]} rows but client has {trace.n_rows}; give one per row")
    if count.min() < 0:
        row = int(count.argmin())
        raise InputError(f"count in row {row} is {int(count[row])}; a count is not negative")
    if not count.any():
        raise InputError("every count is 0; at least one sample is needed")
    return replace(trace.rows(count > 0), count=count[count > 0])


def import_npz(path: Path, columns: Columns) -> Trace:
    """Read a trace from the arrays of an ``.npz`` file; times may be numbers, dates or texts, labels also texts."""
    counts = () if columns.count is None else (columns.count,)
    wanted = (columns.client, columns.time, columns.label, *counts)
    names = array_names(path, wanted)
    label = "y" if columns.label not in names and "y" in names else columns.label
    arrays = read_arrays(path, (columns.client, columns.time, label, *counts), ("classes", "x"))
    with _naming(path):
        ids, client = encoded_ids(arrays[columns.client])
        classes, y = _array_labels(arrays[label], arrays.get("classes"))
        time = _array_times(arrays[columns.time])
        trace = Trace(client_ids=tuple(ids), client=client, time=time, y=y, classes=classes, x=arrays.get("x"))
        return _counted(trace, whole_numbers("count", arrays[counts[0]])) if counts else trace


def _array_labels(labels: Array, classes: Array | None) -> tuple[tuple[str, ...], Array]:
    """Return the classes and codes of labels that are texts, numbers, or positions in a list of classes."""
    if labels.ndim == 1 and labels.dtype.kind == "U":
        return listed_classes(*encoded_texts(labels))
    numbers = whole_numbers("label", labels, below=2**31)
    if classes is not None:
        return text_names("classes", classes), numbers.astype(np.int32)
    distinct, codes = np.unique(numbers, return_inverse=True)
    return text_names("classes", distinct), codes.astype(np.int32)


def _array_times(times: Array) -> Vector:
    if times.ndim != 1 or times.dtype.kind != "U":
        return plain_numbers("time", times)
    names, codes = encoded_texts(times)
    try:
        return time_parser()(names)[codes]
    except CellError as error:
        row = int(np.argmax(codes == error.at))
        raise InputError(f"time in row {row}: {echo(names[error.at])} is {error.wanted}") from None
