"""A trace: who saw which label when. Everything that drifts in Fielding starts as one of these."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fielding._typing import ClientId, Codes, Counts, Mask, Vector
from fielding.client.report import checked_ids, id_order
from fielding.errors import FileFormatError, InputError, OptionError, echo
from fielding.rng import client_keys
from fielding.traces.csv_table import encode_ids, id_array, plain_numbers, text_names, whole_numbers
from fielding.traces.features import InputColumn, columns_from, columns_record
from fielding.traces.intervals import (
    LAST_MOMENT,
    MOST_BLOCKS,
    Align,
    Interval,
    checked_align,
    interval_indices,
    natural_unit,
    parse_interval,
)
from fielding.traces.npz_file import Array, read_arrays, write_arrays
from fielding.traces.pool import Blocks

if TYPE_CHECKING:
    from fielding.traces.diagnosis import Verdict

EARLIEST_DATE = 1e8  # numbers below this are hardly meant as unix times: 1973
MOST_SAMPLES = 2**53  # samples beyond this could not be counted exactly in a float64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Trace:
    """Labelled samples of many clients over time, in any order of rows.

    Parameters
    ----------
    client_ids
        The distinct clients, all whole numbers or all texts.
    client
        Whose sample a row is, as a position in ``client_ids``, shape ``(n_rows,)``.
    time
        When it came: unix seconds, or whatever number the user has, shape ``(n_rows,)``.
    y
        Its label, as a position in ``classes``, shape ``(n_rows,)``.
    x
        Its features, shape ``(n_rows, ...)``, or None.
    count
        How many equal samples the row stands for, at least 1, shape ``(n_rows,)``; None means one each.
    concept
        The true group of each row, from 0, shape ``(n_rows,)``, where a trace was made and its maker knows; None where
        not. For scoring and for the oracle alone: no other method sees it.
    columns
        What the features were made of, if they were columns of a table. A number that is missing there is NaN in ``x``,
        and becomes the mean of what is known when samples are dealt.

    Examples
    --------
    >>> trace = Trace(client_ids=("a", "b"), client=np.array([0, 0, 1]), time=np.array([0.0, 9.0, 5.0]),
    ...               y=np.array([0, 1, 1]), classes=("cat", "dog"))
    >>> trace.interval_of("5s").tolist(), trace.interval_of("5s", align="client").tolist()
    ([0, 1, 1], [0, 1, 0])
    """

    client_ids: tuple[ClientId, ...]
    client: Codes
    time: Vector
    y: Codes
    classes: tuple[str, ...]
    x: Array | None = None
    count: Counts | None = None
    concept: Codes | None = None
    columns: tuple[InputColumn, ...] = ()

    def __post_init__(self) -> None:
        checked_ids(self.client_ids)
        for name in self.classes:
            if not (isinstance(name, str) and name and name.isprintable()):
                raise InputError(f"class {echo(name)} is no name; use printable text of at least one character")
        if len(set(self.classes)) < len(self.classes):
            twice = next(name for name in self.classes if self.classes.count(name) > 1)
            raise InputError(f"class {echo(twice)} stands twice in the list; each class needs a name of its own")
        _check_codes("client", self.client, len(self.client_ids))
        n_rows = self.client.shape[0]
        if n_rows == 0:
            raise InputError("the trace has no rows; at least one sample is needed")
        optional = (("x", self.x), ("count", self.count), ("concept", self.concept))
        for name, column in (("time", self.time), ("y", self.y), *optional):
            if column is not None and (column.shape[:1] != (n_rows,) or (column.ndim > 1 and name != "x")):
                raise InputError(f"{name} has shape {column.shape} but client has {n_rows} rows; give one per sample")
        _check_codes("y", self.y, len(self.classes))
        if not np.isfinite(self.time).all():
            row = int(np.argmin(np.isfinite(self.time)))
            raise InputError(f"time in row {row} is {self.time[row]}; every sample needs a finite time")
        _check_counts(self.count)
        if self.concept is not None:
            _check_codes("concept", self.concept, 2**31)
        n_made = sum(one.n_features for one in self.columns)
        if self.columns and self.x is not None and self.x.ndim > 1 and self.x.shape[1:] != (n_made,):
            raise InputError(f"columns make {n_made} features, but x has shape {self.x.shape}; leave columns out")

    @classmethod
    def from_dataframe(
        cls,
        frame: Any,
        *,
        client: str,
        time: str,
        label: str,
        features: str | Sequence[str] | None = None,
        text: str | None = None,
        count: str | None = None,
        n_text_features: int = 512,
    ) -> "Trace":
        """Return the rows of a DataFrame as a trace, a sample each.

        Parameters
        ----------
        frame
            Of pandas, or anything with ``to_pandas()`` (polars, pyarrow, Hugging Face). Levels of its index count as
            columns.
        client
            Column of ids: whole numbers, or what else becomes texts.
        time
            Column of dates (UTC unless they have a time zone), periods, texts such as ``2022-01-31T12:00``, or numbers:
            unix seconds, or whatever counts up.
        label
            Column of classes: whole numbers, texts, truth values, or categories, whose order is kept.
        features
            Columns that say what a sample looks like; all other columns by default, none beside a text. Numbers stay;
            a gap is NaN until samples are dealt, then the mean of what is known of its feature at the start, and one
            more feature tells where gaps are. Texts and categories become a feature per distinct value.
        text
            Column of sentences, whose words are hashed into ``n_text_features`` features.
        count
            Column that says how many equal samples a row stands for.

        Raises
        ------
        InputError
            If a column is missing or does not hold what it should; the message names column, row and remedy.

        Examples
        --------
        >>> import pandas
        >>> frame = pandas.DataFrame({
        ...     "phone": ["a", "b", "a"], "when": ["2026-01-01", "2026-01-01", "2026-01-02"],
        ...     "speed": [0.5, None, 2.5], "what": ["sit", "sit", "walk"]})
        >>> trace = Trace.from_dataframe(frame, client="phone", time="when", label="what")
        >>> trace.classes, trace.client_ids, trace.x.tolist()
        (('sit', 'walk'), ('a', 'b'), [[0.5, 0.0], [nan, 1.0], [2.5, 0.0]])
        """
        from fielding.traces import frames

        taken = [name for name in (client, time, label, text, count) if name is not None]
        frame = frames.plain_frame(frame, taken)
        ids, codes = frames.read_ids(frame, client)
        classes, y = frames.read_labels(frame, label)
        names = [features] if isinstance(features, str) else features
        if names is None:  # with a text alone, the text is what samples look like
            names = [] if text is not None else [name for name in frame.columns if name not in taken]
        columns, x = frames.read_features(frame, names, text, n_text_features)
        return cls(
            client_ids=ids,
            client=codes,
            time=frames.read_times(frame, time),
            y=y,
            classes=classes,
            x=x,
            count=None if count is None else frames.read_counts(frame, count),
            columns=columns,
        )

    def __repr__(self) -> str:
        """Return how many clients, classes and samples there are, and from when to when."""
        first, last = float(self.time.min()), float(self.time.max())
        if first > EARLIEST_DATE and last < LAST_MOMENT:
            times = " to ".join(str(np.datetime64(int(one), "s")).partition("T")[0] for one in (first, last))
        else:
            times = f"times {first:g} to {last:g}"
        shape = "without features" if self.x is None else f"of shape {self.x.shape[1:]}"
        counts = f"{len(self.client_ids):,} clients, {len(self.classes):,} classes, {int(self.weights.sum()):,} samples"
        return f"<fielding.Trace: {counts} {shape}, {times}>"

    def info(self, interval: str | None = None) -> "Verdict":
        """Return whether and how this trace drifts, whether groups look worthwhile, and what to use.

        The verdict of ``fielding data info``, which prints as lines. ``interval``: between which moments drift is
        measured, by default that of :meth:`config`.
        """
        from fielding.traces.diagnosis import judge_trace
        from fielding.traces.guessing import choose_plan
        from fielding.traces.statistics import describe_trace

        plan, _ = choose_plan(self, interval)
        return judge_trace(self, describe_trace(self, plan.interval, align=plan.align))

    def config(self) -> dict[str, Any]:
        """Return a config that runs over all of this trace: its rounds, intervals, and how many clients train.

        The interval is the shortest in which most clients have samples enough; the last one is only tested on. For
        ``run(trace.config(), own=trace)``, and to build on: ``{**trace.config(), "method": {"name": "ifca"}}``.
        """
        from fielding.traces.guessing import config_for

        return config_for(self)

    @property
    def n_rows(self) -> int:
        """Rows; with counts, a row may be many samples."""
        return int(self.client.shape[0])

    @property
    def weights(self) -> Counts:
        """How many samples each row stands for, shape ``(n_rows,)``."""
        return np.ones(self.n_rows, dtype=np.int64) if self.count is None else self.count

    def samples_per_client(self) -> Counts:
        """Return how many samples each client has, shape ``(n_clients,)``."""
        sums = np.bincount(self.client, weights=self.count, minlength=len(self.client_ids))
        return sums.astype(np.int64)

    def rows(self, keep: Mask) -> "Trace":
        """Return a trace of some rows and of the clients that still have one; the classes stay."""
        seen = np.zeros(len(self.client_ids), dtype=np.bool_)
        seen[self.client[keep]] = True
        codes = np.cumsum(seen, dtype=np.int32) - 1
        return replace(
            self,
            client_ids=tuple(one for one, is_seen in zip(self.client_ids, seen.tolist(), strict=True) if is_seen),
            client=codes[self.client[keep]].astype(np.int32),
            time=self.time[keep],
            y=self.y[keep],
            x=None if self.x is None else self.x[keep],
            count=None if self.count is None else self.count[keep],
            concept=None if self.concept is None else self.concept[keep],
        )

    def last(self, span: float) -> "Trace":
        """Return the samples of the last ``span`` seconds.

        A span of whole days ends with the day (UTC) of the last sample and begins at a midnight, one of whole hours
        at a full hour, and so on; so the last 1,050 days are 1,050 dates.
        """
        if not 0.0 < span < np.inf:
            raise OptionError(f"span is {echo(span)}; give a positive number of seconds")
        end, unit = float(self.time.max()), natural_unit(span)
        if unit > 0.0:
            return self.rows(self.time >= (np.floor(end / unit) + 1.0) * unit - span)
        return self.rows(self.time > end - span)

    def most_active(self, n_clients: int) -> "Trace":
        """Return the samples of the ``n_clients`` clients that have most; a tie goes to the lower id."""
        if n_clients < 1:
            raise OptionError(f"{echo(n_clients)} clients were asked for; keep at least one")
        by_id = id_order(self.client_ids)
        order = by_id[np.argsort(-self.samples_per_client()[by_id], kind="stable")]
        chosen = np.zeros(len(self.client_ids), dtype=np.bool_)
        chosen[order[:n_clients]] = True
        return self.rows(chosen[self.client])

    def first_times(self, interval: Interval, align: Align) -> Vector:
        """Return where interval 0 of each client begins, shape ``(n_clients,)``.

        On the calendar that is the first sample of the trace, moved back to midnight (UTC), the full hour, minute or
        second if the interval is a whole number of those.
        """
        if align == "client":
            first = np.full(len(self.client_ids), np.inf)
            np.minimum.at(first, self.client, self.time)
            return first
        start = float(self.time.min())
        unit = 0.0 if interval == "month" else natural_unit(interval)
        return np.full(len(self.client_ids), np.floor(start / unit) * unit if unit > 0.0 else start)

    def interval_of(self, interval: Interval | str, *, align: str = "calendar") -> Counts:
        """Return the interval of each row, from 0, shape ``(n_rows,)``.

        ``interval``: seconds, a text such as ``"1d"``, or ``"month"``. ``align`` ``"calendar"``: all clients count from
        the same moment; ``"client"``: each from its own first sample.
        """
        length, known = parse_interval(interval), checked_align(align)
        return interval_indices(self.time, length, self.first_times(length, known)[self.client])

    def blocks_of(self, length: float, *, fold: int = 0) -> Blocks:
        """Return in which block of so many seconds each row lies, counted from time 0 whatever the trace begins with.

        Examples
        --------
        >>> trace = Trace(client_ids=("a",), client=np.zeros(3, dtype=np.int32), time=np.array([3599.0, 3600.0, -1.0]),
        ...               y=np.zeros(3, dtype=np.int32), classes=("cat",))
        >>> trace.blocks_of(3600.0).index.tolist()
        [0, 1, -1]
        """
        index = np.floor(self.time / length)
        if not float(np.abs(index).max()) < MOST_BLOCKS:
            raise InputError(f"the times reach {float(np.abs(self.time).max()):g}; give a block longer than {length:g}")
        keys = client_keys(self.client_ids)
        return Blocks(owner=keys[self.client], index=index.astype(np.int64), fold=fold)


def _check_codes(name: str, codes: Array, n_known: int) -> None:
    if codes.ndim != 1 or codes.dtype.kind not in "iu":
        raise InputError(f"{name} has shape {codes.shape} and type {codes.dtype}; give one whole number per sample")
    bad = (codes < 0) | (codes >= n_known)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"{name} in row {row} is {int(codes[row])}; it must lie between 0 and {n_known - 1}")


def _check_counts(count: Counts | None) -> None:
    if count is None:
        return
    if count.ndim != 1 or count.dtype.kind not in "iu":
        raise InputError(f"count has shape {count.shape} and type {count.dtype}; give one whole number per row")
    if int(count.min()) < 1:
        raise InputError(
            f"count in row {int(count.argmin())} is {int(count.min())}; a row stands for at least 1 sample"
        )
    if not float(count.sum(dtype=np.float64)) < MOST_SAMPLES:
        raise InputError(f"the counts add up to {float(count.sum(dtype=np.float64)):g} samples; the most is 2^53")


def read_trace(path: str | Path) -> Trace:
    """Read a trace file: ``.npz`` with ``client``, ``time``, ``y``, ``classes``, maybe ``x``, ``count``, ``concept``.

    ``client`` holds whole numbers or texts, ``time`` numbers, ``y`` positions in ``classes``, ``columns`` what features
    were made of, if :func:`write_trace` knew it; errors name the array and row.
    """
    path = Path(path)
    arrays = read_arrays(path, ("client", "time", "y", "classes"), ("x", "count", "concept", "columns"))
    try:
        client_ids, client = encode_ids(arrays["client"])
        return Trace(
            client_ids=tuple(client_ids),
            client=client,
            time=plain_numbers("time", arrays["time"]),
            y=whole_numbers("y", arrays["y"], below=2**31).astype(np.int32),
            classes=text_names("classes", arrays["classes"]),
            x=arrays.get("x"),
            count=whole_numbers("count", arrays["count"]) if "count" in arrays else None,
            concept=concepts_of(arrays),
            columns=columns_from(arrays["columns"].tolist()) if "columns" in arrays else (),
        )
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from None


def concepts_of(arrays: Mapping[str, Array]) -> Codes | None:
    """Return the true group of each row from the arrays of a file; None if it does not tell."""
    return whole_numbers("concept", arrays["concept"], below=2**31).astype(np.int32) if "concept" in arrays else None


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write a trace in the format of :func:`read_trace`, whole or not at all; the name must end with .npz."""
    if Path(path).suffix != ".npz":
        raise OptionError(f"{echo(Path(path).name)} is no name for a trace; end it with .npz")
    arrays: dict[str, Array] = {
        "client": id_array(trace.client_ids)[trace.client],
        "time": trace.time,
        "y": trace.y,
        "classes": np.array(trace.classes),
    }
    made_of = np.array([json.dumps(one) for one in columns_record(trace.columns)]) if trace.columns else None
    more = {"x": trace.x, "count": trace.count, "concept": trace.concept, "columns": made_of}
    arrays |= {name: array for name, array in more.items() if array is not None}
    write_arrays(Path(path), arrays, compress=True)
