"""The reports file that `replay` reads: every report of every step, as ``.npz`` or as CSV."""

import csv
import gzip
import io
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import numpy as np

from fielding.atomic import replaced_file
from fielding.client.report import CHUNK, checked_rows, row_chunks
from fielding.distance import Kind, checked_kind
from fielding.errors import FileFormatError, InputError, OptionError, ReportError, echo
from fielding.traces.csv_table import (
    CsvColumn,
    NameColumn,
    NumberColumn,
    check_printable,
    count_parser,
    encode_ids,
    fill_columns,
    id_array,
    number_parser,
    open_table,
    parse_ids,
    sort_ids,
    text_names,
    whole_numbers,
)
from fielding.traces.npz_file import Array, check_unpacked, read_arrays, write_arrays
from fielding.traces.reports import ReportStream

FLOATS = (np.float32, np.float64)  # what representations may stay; other numbers become float64
REPORT_BYTES = 48  # that reading takes per report beside its representation: step, code and order, each in 64 bits
NAME_BYTES = 104  # that reading takes per name of a feature, beside the array of them


def read_reports(
    path: str | Path, kind: str = "histogram", *, on_rows: Callable[[int], None] | None = None
) -> ReportStream:
    """Read a reports file.

    Parameters
    ----------
    path
        ``.npz`` with ``step`` (n,), ``client`` (n,), ``representation`` (n, d) and maybe ``features`` (d,), or CSV
        (also gzipped) with the columns ``step``, ``client`` and one per feature.
    kind
        ``"histogram"`` or ``"vector"``: what a valid representation is. A row of zeros is valid in both.
    on_rows
        Called now and then with the number of rows read so far (CSV only).

    Returns
    -------
    The stream. Ids keep their type; in CSV they are whole numbers if all are written as such, without leading zeros
    or plus signs. Rows of an ``.npz`` keep their float type, those of CSV become float32.

    Raises
    ------
    FileFormatError
        If it is not such a file; the message names the line or row.
    """
    path, known = Path(path), checked_kind(kind)
    if path.suffix == ".npz":
        return _read_npz(path, known)
    return _read_csv(path, known, on_rows)


def write_reports(reports: ReportStream, path: str | Path) -> None:
    """Write a reports file, whole or not at all; the suffix .npz, .csv or .csv.gz decides the format.

    Values are stored as float32.
    """
    path = Path(path)
    if path.suffix == ".npz":
        arrays: dict[str, Array] = {
            "step": reports.step,
            "client": id_array(reports.client_ids)[reports.client],
            "representation": reports.representations.astype(np.float32, copy=False),
        }
        if reports.features:
            arrays["features"] = np.array(reports.features)
        write_arrays(path, arrays, compress=False)
    elif path.name.endswith((".csv", ".csv.gz")):
        _write_csv(reports, path)
    else:
        raise OptionError(f"{echo(path.name)} says no format; end the name with .npz, .csv or .csv.gz")


def _read_npz(path: Path, kind: Kind) -> ReportStream:
    arrays = read_arrays(path, ("step", "client", "representation"), ("features",))
    check_unpacked(path, _memory_of(arrays))
    try:
        step = whole_numbers("step", arrays["step"])
        client_ids, client = encode_ids(arrays["client"])
        features = text_names("features", arrays["features"]) if "features" in arrays else ()
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from None
    if not step.size == client.size > 0:
        raise FileFormatError(f"{path} has {step.size} steps and {client.size} clients; give one of each per report")
    if step.min() < 0:
        raise FileFormatError(f"{path}, row {int(step.argmin())}: step {int(step.min())}; steps are not negative")
    rows = arrays["representation"]
    if rows.ndim != 2 or rows.shape[0] != step.size or rows.shape[1] == 0 or rows.dtype.kind not in "fiu":
        raise FileFormatError(
            f"{path}: representation has shape {rows.shape} and type {rows.dtype}; give numbers of shape "
            f"({step.size}, n_features)"
        )
    stream = ReportStream(
        kind=kind,
        client_ids=tuple(client_ids),
        client=client,
        step=step,
        representations=rows if rows.dtype in FLOATS else rows.astype(np.float64),
        features=features if len(features) == rows.shape[-1] else (),
    )
    return _check_stream(path, stream, lambda row: f"row {row}")


def _memory_of(arrays: dict[str, Array]) -> int:
    """Return how many bytes reading these arrays takes, with what they become and the copies that checks make.

    The headers bound what is stored, but one byte of it becomes eight, and eight more while it is checked.
    """
    rows = arrays["representation"]
    n_bytes = sum(one.nbytes for one in arrays.values())
    n_bytes += REPORT_BYTES * max(arrays["step"].size, arrays["client"].size)
    n_bytes += NAME_BYTES * (arrays["features"].size if "features" in arrays else 0)
    n_bytes += 0 if rows.dtype in FLOATS else 8 * rows.size
    # Checked are CHUNK rows at a time, which may be all there are, and wide.
    n_checked = rows.size // len(rows) * min(CHUNK, len(rows)) if rows.ndim and len(rows) else 0
    return n_bytes + (rows.itemsize if rows.dtype in FLOATS else 8) * n_checked


def _read_csv(path: Path, kind: Kind, on_rows: Callable[[int], None] | None) -> ReportStream:
    table = open_table(path)
    places = [table.position("step"), table.position("client")]
    features = [at for at in range(len(table.header)) if at not in places]
    if not features:
        raise FileFormatError(f"{path} has no features; give one column per feature beside step and client")
    step, client = NumberColumn(count_parser("step")), NameColumn()
    values = [NumberColumn(number_parser("feature")) for _ in features]
    wanted: list[tuple[int, CsvColumn]] = [(places[0], step), (places[1], client), *zip(features, values, strict=True)]
    fill_columns(table, wanted, on_rows)
    check_printable(table, places[1], client)
    client_ids, codes = sort_ids(parse_ids(client.names()), client.codes())
    matrix = np.empty((values[0].values().size, len(values)), dtype=np.float32)
    with np.errstate(over="ignore"):  # numbers that float32 cannot hold become infinite
        for at, column in enumerate(values):
            matrix[:, at] = column.values()
    stream = ReportStream(
        kind=kind,
        client_ids=tuple(client_ids),
        client=codes,
        step=step.values().astype(np.int64),
        representations=matrix,
        features=tuple(table.header[at] for at in features),
    )
    return _check_stream(path, stream, lambda row: f"line {table.line_of(row)}")


def _check_stream(path: Path, stream: ReportStream, place: Callable[[int], str]) -> ReportStream:
    """Return the stream if every row is a representation and no client reports twice in a step."""
    try:
        checked_rows(stream.representations, stream.n_rows, kind=stream.kind, width=None)
    except ReportError:
        first, stop = 0, stream.n_rows
        while stop - first > 1:  # the first row that is no representation, by halving
            middle = (first + stop) // 2
            first, stop = (first, middle) if _why_bad(stream, first, middle) else (middle, stop)
        raise FileFormatError(f"{path}, {place(first)}: {_why_bad(stream, first)}") from None
    order = np.lexsort((stream.client, stream.step))
    same = (np.diff(stream.step[order]) == 0) & (np.diff(stream.client[order]) == 0)
    if same.any():
        at = np.flatnonzero(same)
        earliest = at[np.argmin(order[at + 1])]
        row, again = int(order[earliest]), int(order[earliest + 1])
        who, when = echo(stream.client_ids[stream.client[row]]), int(stream.step[row])
        raise FileFormatError(
            f"{path}, {place(row)} and {place(again)}: client {who} reports twice in step {when}; keep one"
        )
    return stream


def _why_bad(stream: ReportStream, first: int, stop: int | None = None) -> str:
    """Return what is wrong with the rows from ``first`` (alone, or up to ``stop``), or nothing."""
    rows = stream.representations[first : first + 1 if stop is None else stop]
    try:
        checked_rows(rows, rows.shape[0], kind=stream.kind, width=None)
    except ReportError as error:
        # Seen alone it is row 0, which would mislead beside its place in the file.
        return str(error).replace(" in row 0", "", 1)
    return ""


def _write_csv(reports: ReportStream, path: Path) -> None:
    """Write a CSV file, gzipped if its name says so; equal reports give equal bytes."""
    features, n_features = reports.features, reports.representations.shape[1]
    if len(features) != n_features or {"step", "client"} & set(features):  # they cannot head columns
        features = tuple(f"f{at}" for at in range(n_features))
    with ExitStack() as stack:
        raw: BinaryIO | gzip.GzipFile = stack.enter_context(replaced_file(path))
        if path.suffix == ".gz":
            # No name and no time in the header: they would make equal files differ.
            raw = stack.enter_context(gzip.GzipFile("", "wb", 6, raw, 0))
        text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("step", "client", *features))
        for part in row_chunks(reports.n_rows, 4096):
            # float32 before text: the shortest digits that give the same number back.
            values = reports.representations[part].astype(np.float32, copy=False).astype(np.str_).tolist()
            ids = [reports.client_ids[code] for code in reports.client[part].tolist()]
            rows = zip(reports.step[part].tolist(), ids, values, strict=True)
            writer.writerows([step, client_id, *shares] for step, client_id, shares in rows)
        text.detach()  # which flushes, but leaves the file open until it is synced
