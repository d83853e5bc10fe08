"""What a file of one's own holds, guessed: which column says what, and into which intervals its time is cut."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from fielding.config.keys import TraceSection
from fielding.errors import FileFormatError, InputError, echo
from fielding.traces.csv_table import open_table, time_parser
from fielding.traces.features import GAPS, MOST_CATEGORIES
from fielding.traces.histograms import WindowPlan
from fielding.traces.importers import FEW_VALUES, Columns
from fielding.traces.intervals import LAST_MOMENT, parse_span
from fielding.traces.natural import n_rounds
from fielding.traces.npz_file import array_names, read_arrays
from fielding.traces.parquet_file import is_parquet, sample_cells
from fielding.traces.pool import scale_note
from fielding.traces.sources import deal_samples, first_samples
from fielding.traces.trace import Trace

MOST_ROWS = 20_000  # rows of a file that guesses rest on, evenly spread
_WORDS = {
    "time": "time timestamp datetime date ts when epoch created_at unixtime month day year",
    "client": (
        "client client_id user user_id userid uid device device_id participant subject_id person patient author "
        "customer account member writer worker player driver household hospital station sensor camera vehicle store "
        "shop site node machine location place city region country subject"
    ),
    "label": (
        "label y target class category activity outcome diagnosis species sentiment genre topic kind type status "
        "result state"
    ),
    "text": "text message body content sentence comment review description subject title tweet summary note",
}
NAMES = {role: tuple(words.split()) for role, words in _WORDS.items()}
"""Names by which columns are known, the surest first; a part of a name will do, as of ``event_time``."""
SURE = (
    *("time", "timestamp", "datetime", "date", "ts", "client", "client_id", "user", "user_id", "userid", "device_id"),
    *("label", "y", "target", "class", "text"),
)
"""Names that count whatever is in the column; under others it must also look as it should."""
QUESTIONS = {"time": "when", "client": "who", "label": "which class", "text": "the text"}
COUNTS = ("count", "counts", "n", "n_samples", "frequency")  # names of columns that say how many samples a row is
FEATURES = "x"  # the array of an .npz file that holds all features
NO_COLUMNS = (FEATURES, "classes", "concept", "is_test")  # arrays of an .npz file that mean something else
STEPS = (
    *("1s", "2s", "5s", "15s", "30s", "1m", "5m", "15m", "30m", "1h", "2h", "3h", "6h", "12h", "1d", "2d", "3d"),
    *("7d", "14d", "30d", "90d", "365d"),
)
"""Intervals to choose from."""
FEWEST_INTERVALS, MOST_INTERVALS = 8, 200
ENOUGH = 20  # samples of a client in an interval, so that its label mix can be told
FEWEST_IN_CATEGORY = 5  # rows of each value of a column, on average, that is taken for a category
SHORTEST_SPAN = 1e-6  # times that differ by less are the same
USUAL_ROUNDS, LONGEST_GAP, INTERVALS_IN_WINDOW = 200, 20, 5
MOST_PARTICIPANTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSample:
    """Some cells of a column as texts, and what they look like."""

    name: str
    cells: Sequence[str]
    numbers: Sequence[float] | None = field(init=False)  # None unless all are finite numbers
    n_distinct: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", _finite_numbers(self.cells))
        object.__setattr__(self, "n_distinct", len(set(self.cells)))

    @property
    def has_fractions(self) -> bool:
        """Whether it holds numbers, and not whole ones alone."""
        return self.numbers is not None and any(one % 1.0 for one in self.numbers)

    @property
    def is_date(self) -> bool:
        """Whether it holds dates, or numbers that are dates as seconds since 1970 or in a smaller unit."""
        if self.numbers is not None:
            return min(self.numbers) > LAST_MOMENT / 100.0  # 2001
        try:
            time_parser()(self.cells)
        except InputError:
            return False
        return True

    @property
    def is_category(self) -> bool:
        """Whether each of a few values stands in many rows."""
        n_rows = len(self.cells)
        is_measured = self.has_fractions and self.n_distinct > FEW_VALUES
        return "" not in self.cells and not is_measured and 2 <= self.n_distinct <= max(2, n_rows // 5)

    @property
    def is_prose(self) -> bool:
        """Whether it holds texts of several words, most of them different."""
        n_words = sum(len(cell.split()) for cell in self.cells)
        return self.numbers is None and n_words >= 2 * len(self.cells) and self.n_distinct * 2 > len(self.cells)

    @property
    def is_row_number(self) -> bool:
        """Whether it counts the rows."""
        numbers = np.array(self.numbers or [0.0, 0.0])
        return bool((np.diff(numbers) > 0.0).all() and not (numbers % 1.0).any())


def _finite_numbers(cells: Sequence[str]) -> list[float] | None:
    try:
        numbers = [float(cell) for cell in cells]
    except ValueError:
        return None
    return numbers if numbers and np.isfinite(numbers).all() else None


FITS: dict[str, Callable[[ColumnSample], bool]] = {
    "time": lambda one: one.is_date,
    "client": lambda one: one.is_category and not one.is_date,
    "label": lambda one: one.is_category and not one.is_date,
    "text": lambda one: one.is_prose,
}
"""What the column of a role must hold, unless its name is sure."""
NEEDED = ("time", "client", "label")  # roles without which there is no trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """Which columns say what, and which are left out for which reason."""

    columns: Columns
    left_out: Mapping[str, str]


def sample_file(path: Path) -> dict[str, ColumnSample]:
    """Return some cells of every column of a CSV or Parquet file, or of every list in an ``.npz`` file."""
    if path.suffix == ".npz":
        names = [name for name in array_names(path, ("client", "time", "y")) if name not in NO_COLUMNS]
        lists = {name: array for name, array in read_arrays(path, names).items() if array.ndim == 1}
        n_rows = max((array.size for array in lists.values()), default=0)
        stride = max(1, -(-n_rows // MOST_ROWS))
        cells = {
            name: [str(one) for one in array[::stride].tolist()]
            for name, array in lists.items()
            if array.size == n_rows
        }
    elif is_parquet(path):
        cells = sample_cells(path, MOST_ROWS)
    else:
        cells = _sample_csv(path)
    return {name: ColumnSample(name=name, cells=some) for name, some in cells.items()}


def _sample_csv(path: Path) -> dict[str, list[str]]:
    """Return every so many rows of a CSV file, by column."""
    table, kept, stride, n_rows = open_table(path), list[list[str]](), 1, 0
    for rows in table.chunks():
        kept += rows[-n_rows % stride :: stride]
        n_rows += len(rows)
        if len(kept) > 2 * MOST_ROWS:
            kept, stride = kept[::2], stride * 2
    if not kept:
        raise FileFormatError(f"{path} has a header but no rows; at least one is needed")
    return {name: list(cells) for name, cells in zip(table.header, zip(*kept, strict=True), strict=True)}


def is_pool_file(path: Path, given: Mapping[str, str | None]) -> bool:
    """Return whether a file holds features and labels, but neither clients nor times."""
    if path.suffix != ".npz" or given.get("client") or given.get("time"):
        return False
    names = array_names(path, NO_COLUMNS)
    return FEATURES in names and not any(_plain(name) in NAMES[role] for name in names for role in ("client", "time"))


def guess_columns(path: Path, given: Mapping[str, str | None], features: Sequence[str] = ()) -> Guess:
    """Return which column says what.

    ``given``: what the user names, by ``client``, ``time``, ``label`` and ``text``; ``features`` likewise. If text or
    features are named, no others are taken. FileFormatError if a column is not there, or cannot be guessed; the message
    names the option and the columns that there are.
    """
    samples = sample_file(path)
    found = {role: name for role, name in given.items() if name is not None}

    def named(one: ColumnSample) -> bool:
        return any(fnmatchcase(one.name, pattern) for pattern in features)

    for guess in (_by_name, _by_values):  # names say more, so all of them come first
        for role in NEEDED:
            left = [one for one in samples.values() if one.name not in found.values() and not named(one)]
            if role not in found and (one := guess(role, left)) is not None:
                found[role] = one.name
    for role in NEEDED:
        if role not in found:
            left = [one for one in samples.values() if one.name not in found.values()]
            these = ", ".join(echo(one.name) for one in left[:12]) + (", ..." if len(left) > 12 else "")
            what = f"which column says {QUESTIONS[role]}? name it with --{role}"
            raise FileFormatError(f"{path}: {what}; there are: {these or 'none'}")
    left = [one for one in samples.values() if one.name not in found.values() and not named(one)]
    has_features = path.suffix == ".npz" and FEATURES in array_names(path, NO_COLUMNS)
    if features or "text" in found or has_features:
        why = dict.fromkeys((one.name for one in left), "not named")
        return Guess(columns=_columns(found, tuple(features)), left_out=why)
    prose = [one for one in left if one.is_prose]
    if prose:
        found["text"] = (_by_name("text", prose) or prose[0]).name
    why = {one.name: reason for one in left if one.name != found.get("text") and (reason := _reason_against(one))}
    numbers = tuple(one.name for one in left if one.name != found.get("text") and one.name not in why)
    if not numbers and "text" not in found:
        reasons = ", ".join(f"{echo(name)} ({reason})" for name, reason in list(why.items())[:8]) or "none are left"
        raise FileFormatError(
            f"{path}: no column can be a feature: {reasons}; name columns of numbers with --features, or one of text "
            "with --text"
        )
    return Guess(columns=_columns(found, numbers), left_out=why)


def _columns(found: Mapping[str, str], features: tuple[str, ...]) -> Columns:
    return Columns(
        client=found["client"],
        time=found["time"],
        label=found["label"],
        text=found.get("text"),
        features=features,
    )


def _reason_against(one: ColumnSample) -> str | None:
    """Return why a column is no feature, None if it can be one."""
    if "," in one.name or "*" in one.name or one.name != one.name.strip() or not one.name:
        return "its name cannot stand in a list"
    known = ColumnSample(name=one.name, cells=[cell for cell in one.cells if cell not in GAPS])
    if not known.cells:
        return "empty"
    if known.n_distinct == 1 and len(known.cells) == len(one.cells):
        return "always the same"
    if known.numbers is None:
        if known.is_date:
            return "dates"
        if any(_finite_numbers([cell]) is None and _is_infinite(cell) for cell in known.cells):
            return "infinite numbers"
        is_many = known.n_distinct > min(MOST_CATEGORIES, max(2, len(known.cells) // FEWEST_IN_CATEGORY))
        return f"{known.n_distinct:,} different texts" if is_many else None
    if _plain(one.name) in COUNTS and not any(number % 1.0 for number in known.numbers):
        return "a number of equal samples, and such rows cannot be trained on"
    return "counts the rows" if one.is_row_number else None


def _is_infinite(cell: str) -> bool:
    try:
        return math.isinf(float(cell))
    except ValueError:
        return False


def _by_name(role: str, left: Sequence[ColumnSample]) -> ColumnSample | None:
    """Return the column that is called like the role: by its whole name, else by a part of it."""
    known, fit = NAMES[role], FITS[role]
    whole, parts = list[tuple[int, ColumnSample]](), list[tuple[int, ColumnSample]]()
    for one in left:
        plain = _plain(one.name)
        if plain in known and (plain in SURE or fit(one)):
            whole.append((known.index(plain), one))
        parts += [(known.index(word), one) for word in plain.split("_") if word in known and fit(one)]
    ranked = whole or parts
    return min(ranked, key=lambda pair: pair[0])[1] if ranked else None


def _by_values(role: str, left: Sequence[ColumnSample]) -> ColumnSample | None:
    """Return the only column that holds what fits the role; None if there are several."""
    may_be = [one for one in left if not one.is_prose and (role == "time" or not one.has_fractions)]
    fitting = [one for one in may_be if FITS[role](one)]
    return fitting[0] if len(fitting) == 1 else None


def _plain(name: str) -> str:
    """Return a name in lower case with words parted by underscores.

    Examples
    --------
    >>> _plain("userId"), _plain("Event Time"), _plain("created-at")
    ('user_id', 'event_time', 'created_at')
    """
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()).strip("_")


def choose_plan(trace: Trace, interval: str | None = None) -> tuple[WindowPlan, int]:
    """Return intervals and rounds that suit a trace, and how many rounds it lasts.

    The interval is the shortest in which most samples lie where their client has 20 or more, such that there are 8 to
    200 of them; the longest of these if there is none. Clients that were each there for a short while only are counted
    from their own start. About 200 rounds; windows show five intervals; the last interval is tested on alone.

    Examples
    --------
    >>> trace = Trace(client_ids=("a",), client=np.zeros(900, dtype=np.int32), time=np.arange(900) * 3600.0,
    ...               y=np.zeros(900, dtype=np.int32), classes=("cat",))
    >>> choose_plan(trace)
    (WindowPlan(interval='1d', gap=5, window=25, align='calendar'), 165)
    """
    first, last = np.full(len(trace.client_ids), np.inf), np.full(len(trace.client_ids), -np.inf)
    np.minimum.at(first, trace.client, trace.time)
    np.maximum.at(last, trace.client, trace.time)
    span, own = float(np.ptp(trace.time)), last - first
    if span < SHORTEST_SPAN:
        raise InputError("all samples have the same time, so nothing can drift; name another column with --time")
    align = "client" if float(np.median(own[trace.client])) < span / 3.0 else "calendar"
    reach = span if align == "calendar" else float(own.max())
    if reach < SHORTEST_SPAN:
        align, reach = "calendar", span
    if interval is None:
        fitting = [one for one in STEPS if FEWEST_INTERVALS <= reach / parse_span(one) <= MOST_INTERVALS]
        full = [one for one in fitting if _share_in_full_cells(trace, one, align) >= 0.5]
        interval = (full or fitting[::-1] or [f"{reach / 10.0:.9f}".rstrip("0").rstrip(".")])[0]
    n_intervals = int(trace.interval_of(interval, align=align).max()) + 1
    gap = max(1, min(LONGEST_GAP, round(USUAL_ROUNDS / n_intervals)))
    window = gap * max(1, min(INTERVALS_IN_WINDOW, n_intervals // 3))
    plan = WindowPlan(interval=interval, gap=gap, window=window, align=align)
    return plan, plan.step_of(n_intervals - 1) or n_rounds(n_intervals, plan)


def participants_for(n_clients: int) -> int:
    """Return how many of so many clients train in a round, if nothing is known of them."""
    return max(1, min(MOST_PARTICIPANTS, n_clients // 2))


def config_for(trace: Trace) -> dict[str, Any]:
    """Return a config that runs over all of a trace; see :meth:`fielding.Trace.config`."""
    plan, rounds = choose_plan(trace)
    section = {"interval": plan.interval, "align": plan.align, "gap": plan.gap, "window": plan.window}
    dealt = deal_samples(TraceSection(**section), rounds=rounds, seed=1, source=trace)  # type: ignore[arg-type]
    if scale_note(dealt.pool, first_samples(dealt)) is not None:
        section["standardize"] = True
    participants = participants_for(len(trace.client_ids))
    return {"rounds": rounds, "trace": section, "training": {"participants": participants}}


def _share_in_full_cells(trace: Trace, interval: str, align: str) -> float:
    """Return the share of rows whose client has enough samples in their interval."""
    interval_of = trace.interval_of(interval, align=align)
    key = trace.client.astype(np.int64) * (int(interval_of.max()) + 1) + interval_of
    _, sizes = np.unique(key, return_counts=True)
    return float(sizes[sizes >= ENOUGH].sum() / trace.n_rows)
