"""CSV and ``.npz`` files of others, with columns that the user names, turned into a trace or a pool of samples."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from fielding._typing import Counts, Features, Vector
from fielding.errors import FileFormatError, InputError, echo
from fielding.traces.csv_table import (
    TEXTS,
    CellError,
    CsvColumn,
    CsvTable,
    NameColumn,
    NumberColumn,
    check_printable,
    count_parser,
    encode_ids,
    encode_texts,
    fill_columns,
    open_table,
    parse_ids,
    plain_numbers,
    sort_classes,
    sort_ids,
    text_names,
    time_parser,
    whole_numbers,
)
from fielding.traces.features import (
    TEXT_FEATURES,
    FeatureColumn,
    HashedTexts,
    InputColumn,
    columns_from,
    frame_features,
    hash_texts,
    text_column,
)
from fielding.traces.intervals import epoch_seconds
from fielding.traces.npz_file import Array, array_names, missing_name, read_arrays
from fielding.traces.parquet_file import column_names, is_parquet, read_columns, read_frame
from fielding.traces.pool import Pool
from fielding.traces.trace import Trace, concepts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns of a file say what.

    Parameters
    ----------
    client
        Who: ids. In a CSV file they become whole numbers if all are written as such, without leading zeros.
    time
        When: unix seconds (plain digits always are, or milli-, micro- or nanoseconds if they are that large), ISO dates
        with or without time (UTC unless they say otherwise), or months such as ``2022-01``.
    label
        What: the class of the sample.
    count
        How many equal samples the row stands for; None if each row is one. Rows with a count of 0 are left out.
    features
        What the sample looks like: columns that become features as :meth:`fielding.Trace.from_dataframe` says, whatever
        the file; ``acc_*`` stands for all columns that begin so. Of an ``.npz`` file they are arrays of finite numbers,
        and the array ``x`` is taken if neither features nor text are named.
    text
        What the sample looks like in words: a column of texts, hashed into ``n_text_features`` features that follow the
        others.
    """

    client: str = "client"
    time: str = "time"
    label: str = "label"
    count: str | None = None
    features: tuple[str, ...] = ()
    text: str | None = None
    n_text_features: int = TEXT_FEATURES


DEFAULT_COLUMNS = Columns()


def feature_names(text: str | None) -> tuple[str, ...]:
    """Return the columns that a text names, separated by commas."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


Narrow = Callable[[Trace], Trace]
"""Leaves out rows of a trace, for example ``lambda trace: trace.last(86400.0).most_active(10)``."""
OnNote = Callable[[str], None]  # called with each line that a user should know of how a file was understood


def ignore_note(_note: str) -> None:
    """Tell nobody."""


FEW_VALUES = 20  # numbers with fractions, such as stars of a review, are classes if they are no more than this
MANY_CLASSES, LEAST_PER_CLASS = 100, 3
"""More classes than this need so many samples each on average; else they are ids, times or measurements."""


def check_labels(name: str, classes: Sequence[str], n_samples: int) -> None:
    """Raise if what is named as the label is a measurement or an id and not a class.

    Examples
    --------
    >>> check_labels("temperature", [f"{one / 10}" for one in range(150, 250)], 5000)
    Traceback (most recent call last):
    ...
    fielding.errors.InputError: label 'temperature' has 100 different numbers with fractions, such as '15.1': ...
    """
    fractions = [text for text in classes if _has_fraction(text)]
    remedy = "name a column of classes (--label, trace.label), or cut the numbers into ranges first"
    if len(classes) > FEW_VALUES and len(fractions) * 2 > len(classes):
        raise InputError(
            f"label {echo(name)} has {len(classes):,} different numbers with fractions, such as {echo(fractions[0])}: "
            f"no classes; {remedy}"
        )
    if len(classes) > MANY_CLASSES and n_samples < LEAST_PER_CLASS * len(classes):
        raise InputError(
            f"label {echo(name)} has {len(classes):,} different values in {n_samples:,} samples, such as "
            f"{echo(classes[0])}: too many for classes; {remedy}"
        )


def _has_fraction(text: str) -> bool:
    try:
        number = float(text)
    except ValueError:
        return False
    return not number.is_integer()


def import_trace(
    path: str | Path,
    columns: Columns = DEFAULT_COLUMNS,
    *,
    on_rows: Callable[[int], None] | None = None,
    narrow: Narrow | None = None,
    on_note: OnNote = ignore_note,
) -> Trace:
    """Read a trace from a CSV file (plain or gzipped), a Parquet file or an ``.npz`` file.

    Parameters
    ----------
    columns
        The names of its columns or arrays. Of an ``.npz`` file ``label`` may also be the array ``y``, whose
        class names are taken from ``classes`` if it is there.
    narrow
        Leaves out rows before features are made, so that those left out cost no memory. It sees row numbers as ``x``.
    on_note
        Called with what a user should know of how the file was understood.
    """
    path = Path(path)
    if path.suffix == ".npz":
        return import_npz(path, columns, narrow=narrow, on_note=on_note)
    if is_parquet(path):
        return import_parquet(path, columns, narrow=narrow, on_note=on_note)
    return import_csv(path, columns, on_rows=on_rows, narrow=narrow, on_note=on_note)


def import_csv(
    path: Path,
    columns: Columns,
    *,
    on_rows: Callable[[int], None] | None = None,
    narrow: Narrow | None = None,
    on_note: OnNote = ignore_note,
) -> Trace:
    """Read a trace from a CSV file; classes and clients are listed in rising order."""
    table = open_table(path)
    taken = [name for name in (columns.client, columns.time, columns.label, columns.count) if name is not None]
    samples = CsvFeatures(
        table, names=columns.features, text=columns.text, n_text_features=columns.n_text_features, taken=taken
    )
    client, label = NameColumn(), NameColumn()
    time, count = NumberColumn(time_parser()), NumberColumn(count_parser("count"))
    places = [table.position(name) for name in (columns.client, columns.time, columns.label)]
    wanted: list[tuple[int, CsvColumn]] = list(zip(places, (client, time, label), strict=True))
    if columns.count is not None:
        wanted.append((table.position(columns.count), count))
    fill_columns(table, [*wanted, *samples.wanted], on_rows)
    check_printable(table, places[0], client)
    check_printable(table, places[2], label)
    classes, y = sort_classes(label.names(), label.codes())
    with naming(path):
        ids, codes = sort_ids(parse_ids(client.names()), client.codes())
        counts = None if columns.count is None else count.values().astype(np.int64)
        check_labels(columns.label, classes, y.size if counts is None else int(counts.sum()))
        seconds, note = epoch_seconds(time.values(), name=columns.time)
        trace = Trace(client_ids=tuple(ids), client=codes, time=seconds, y=y, classes=classes)
        trace, rows = _narrow(trace, counts, narrow)
    if note is not None:
        on_note(note)
    return replace(trace, x=samples.matrix(rows), columns=samples.columns())


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn errors about values into errors about the file that holds them."""
    try:
        yield
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from None


def _narrow(trace: Trace, count: Counts | None, narrow: Narrow | None) -> tuple[Trace, Counts]:
    """Return what is left of a trace without features, and which rows of the file that is; a count of 0 leaves out."""
    trace = replace(trace, x=np.arange(trace.n_rows, dtype=np.int64))
    if count is not None:
        if count.shape != (trace.n_rows,):
            raise InputError(f"count has {count.shape[0]} rows but client has {trace.n_rows}; give one per row")
        if count.min() < 0:
            row = int(count.argmin())
            raise InputError(f"count in row {row} is {int(count[row])}; a count is not negative")
        if not count.any():
            raise InputError("every count is 0; at least one sample is needed")
        trace = replace(trace.rows(count > 0), count=count[count > 0])
    trace = trace if narrow is None else narrow(trace)
    return trace, np.arange(0) if trace.x is None else trace.x


def import_npz(path: Path, columns: Columns, *, narrow: Narrow | None = None, on_note: OnNote = ignore_note) -> Trace:
    """Read a trace from the arrays of an ``.npz`` file; times may be numbers, dates or texts, labels also texts."""
    counts = () if columns.count is None else (columns.count,)
    wanted = (columns.client, columns.time, columns.label, *counts)
    label = _label_array(array_names(path, wanted), columns)
    described = (*columns.features, *(() if columns.text is None else (columns.text,)))
    optional = ("classes", "concept") if described else ("classes", "concept", "x", "columns")
    arrays = read_arrays(path, (columns.client, columns.time, label, *counts, *described), optional)
    with naming(path):
        x = _array_features(arrays, columns) if described else arrays.get("x")
        made_of = columns_from(arrays["columns"].tolist()) if "columns" in arrays else ()
    return _trace_of(path, arrays, replace(columns, label=label), x, made_of, narrow=narrow, on_note=on_note)


def import_parquet(
    path: Path, columns: Columns, *, narrow: Narrow | None = None, on_note: OnNote = ignore_note
) -> Trace:
    """Read a trace from the columns of a Parquet file; those of features and text may be patterns, as in a CSV file."""
    taken = [name for name in (columns.client, columns.time, columns.label, columns.count) if name is not None]
    text = () if columns.text is None else (columns.text,)
    table = CsvTable(path=path, header=column_names(path))
    columns = replace(columns, features=tuple(matching_columns(table, columns.features, [*taken, *text])))
    arrays = read_columns(path, taken)
    with naming(path):
        described = read_frame(path, [*columns.features, *text])
        made_of, x = frame_features(described, columns.features, columns.text, columns.n_text_features)
    return _trace_of(path, arrays, columns, x, made_of, narrow=narrow, on_note=on_note)


def _trace_of(
    path: Path,
    arrays: dict[str, Array],
    columns: Columns,
    x: Array | None,
    made_of: tuple[InputColumn, ...],
    *,
    narrow: Narrow | None,
    on_note: OnNote,
) -> Trace:
    """Return the trace that the arrays of a file make up; ``x`` are its features, ``made_of`` the columns they were."""
    with naming(path):
        ids, client = encode_ids(arrays[columns.client])
        classes, y = _array_labels(columns.label, arrays[columns.label], arrays.get("classes"))
        counts = None if columns.count is None else whole_numbers("count", arrays[columns.count])
        check_labels(columns.label, classes, y.size if counts is None else int(counts.sum()))
        time, note = _array_times(columns.time, arrays[columns.time])
        concept = concepts_of(arrays)
        trace = Trace(client_ids=tuple(ids), client=client, time=time, y=y, classes=classes, x=x, concept=concept)
        n_rows = trace.n_rows
        trace, rows = _narrow(trace, counts, narrow)
        trace = replace(trace, x=x if x is None or trace.n_rows == n_rows else x[rows], columns=made_of)
    if note is not None:
        on_note(note)
    return trace


def _label_array(names: list[str], columns: Columns) -> str:
    return "y" if columns.label not in names and "y" in names else columns.label


def _array_features(arrays: dict[str, Array], columns: Columns) -> Array:
    """Return the named arrays of numbers side by side, then the hashed texts, shape ``(n_rows, n_features)``."""
    parts = []
    for name in columns.features:
        given = arrays[name]
        numbers = plain_numbers(name, given.astype(np.int8) if given.dtype.kind == "b" else given).astype(np.float32)
        if not np.isfinite(numbers).all():
            row = int(np.argmin(np.isfinite(numbers)))
            raise InputError(f"{name} in row {row} is {arrays[name][row]}; every feature must be a finite number")
        parts.append(numbers[:, None])
    if columns.text is not None:
        texts = arrays[columns.text]
        if texts.ndim != 1 or texts.dtype.kind not in TEXTS:
            raise InputError(f"{columns.text} has shape {texts.shape} and type {texts.dtype}; give one text per row")
        parts.append(hash_texts(texts.tolist(), columns.n_text_features))
    if len({part.shape[0] for part in parts}) > 1:
        raise InputError("the arrays of features differ in length; give one row of each per sample")
    return np.concatenate(parts, axis=1)


def import_pool(path: str | Path, columns: Columns = DEFAULT_COLUMNS) -> Pool:
    """Read a pool of samples without clients and times: an ``.npz`` file with ``x``, labels and maybe ``classes``."""
    path = Path(path)
    names = array_names(path, ("x", columns.label))
    if "x" not in names:
        raise missing_name(path, kind="array", name="x", known=names)
    label = _label_array(names, columns)
    arrays = read_arrays(path, ("x", label), ("classes",))
    with naming(path):
        classes, y = _array_labels(label, arrays[label], arrays.get("classes"))
        check_labels(label, classes, y.size)
        return Pool(x=arrays["x"], y=y, classes=classes)


def import_samples(
    path: str | Path,
    columns: Columns = DEFAULT_COLUMNS,
    *,
    narrow: Narrow | None = None,
    on_note: OnNote = ignore_note,
) -> Pool | Trace:
    """Read a file of samples: a pool if it is an ``.npz`` file that knows neither clients nor times, else a trace."""
    path = Path(path)
    if path.suffix == ".npz" and not {columns.client, columns.time} & set(array_names(path, ("x", columns.label))):
        return import_pool(path, columns)
    return import_trace(path, columns, narrow=narrow, on_note=on_note)


def header_of(path: Path) -> tuple[str, ...]:
    """Return the names of the columns of a CSV or Parquet file, or of the arrays of an ``.npz`` file."""
    if path.suffix == ".npz":
        return tuple(array_names(path, ("client", "time", "y")))
    return column_names(path) if is_parquet(path) else open_table(path).header


def _array_labels(name: str, labels: Array, classes: Array | None) -> tuple[tuple[str, ...], Array]:
    """Return the classes and codes of labels that are texts, numbers, or positions in a list of classes."""
    if labels.ndim == 1 and labels.dtype.kind in TEXTS:
        return sort_classes(*encode_texts(labels))
    if labels.dtype.kind == "b":
        return sort_classes(*encode_texts(labels.astype(np.str_)))
    if labels.ndim == 1 and labels.dtype.kind == "f" and classes is None and np.isfinite(labels).all():
        distinct, codes = np.unique(labels, return_inverse=True)
        if (distinct % 1.0).any():  # stars of a review, or no classes at all, which check_labels tells
            return tuple(map(str, distinct.tolist())), codes.astype(np.int32)
    numbers = whole_numbers(name, labels, below=2**31)
    if classes is not None:
        return text_names("classes", classes), numbers.astype(np.int32)
    distinct, codes = np.unique(numbers, return_inverse=True)
    return text_names("classes", distinct), codes.astype(np.int32)


def _array_times(name: str, times: Array) -> tuple[Vector, str | None]:
    """Return times in seconds, and what to tell of how they were understood."""
    if times.ndim == 1 and times.dtype.kind == "M":
        return plain_numbers(name, times), None
    if times.ndim != 1 or times.dtype.kind not in TEXTS:
        return epoch_seconds(plain_numbers(name, times), name=name)
    names, codes = encode_texts(times)
    try:
        seconds = time_parser()(names)
    except CellError as error:
        row = int(np.argmax(codes == error.at))
        raise InputError(f"time in row {row}: {echo(names[error.at])} is {error.wanted}") from None
    return epoch_seconds(seconds[codes], name=name)


class CsvFeatures:
    """The columns of a CSV file that make up the features of its samples.

    A name such as ``acc_*`` stands for all columns that match it and are not ``taken``; the features of the column
    ``text`` follow the numbers. A column that is missing, or named twice, raises.
    """

    def __init__(
        self, table: CsvTable, *, names: Sequence[str], text: str | None, n_text_features: int, taken: Sequence[str]
    ) -> None:
        self._columns = [FeatureColumn(name) for name in matching_columns(table, names, [*taken, text])]
        self._text = "" if text is None else text
        self._texts = None if text is None else HashedTexts(n_text_features)
        self.wanted: list[tuple[int, CsvColumn]] = [(table.position(one.name), one) for one in self._columns]
        if self._texts is not None:
            self.wanted.append((table.position(self._text), self._texts))

    def columns(self) -> tuple[InputColumn, ...]:
        """Return what the columns became."""
        found = [one.column() for one in self._columns]
        return (*found, *(() if self._texts is None else (text_column(self._text, self._texts.n_features),)))

    def matrix(self, rows: Counts) -> Features | None:
        """Return the features of some rows, shape ``(n_rows, n_features)``, or None if no columns were named."""
        if not self.wanted:
            return None
        texts = None if self._texts is None else self._texts.features(rows)
        if texts is not None and not self._columns:
            return texts
        matrix = np.empty((rows.size, sum(one.n_features for one in self.columns())), dtype=np.float32)
        first = 0
        for column in self._columns:
            part = column.features(rows)
            matrix[:, first : first + part.shape[1]] = part
            first += part.shape[1]
        if texts is not None:
            matrix[:, first:] = texts
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
