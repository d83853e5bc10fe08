"""A run as its folder tells it, be it finished, running, stopped or damaged: what is missing is told, never raised."""

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from fielding._typing import ClientId, Json, Vector
from fielding.distance import Kind
from fielding.errors import CheckpointError, FieldingError, InputError
from fielding.federation.ledger import Ledger
from fielding.records.lock import is_locked
from fielding.records.plan import read_failure
from fielding.records.run_checkpoint import LEDGER, load_run
from fielding.records.run_folder import (
    CLIENTS,
    CONCEPTS,
    EVENTS,
    MANIFEST,
    MEMBERSHIPS,
    REPORTS,
    ROUNDS,
    SUMMARY,
    TIMINGS,
    newest_checkpoint,
    run_reports,
)
from fielding.reporting.numbers.fairness import ClientTests, client_tests
from fielding.traces.reports import ReportStream

Changes: TypeAlias = tuple[int, list[tuple[ClientId, int]]]
"""A round, and clients with the cluster (or true concept) that they have from then on."""


SHOWN_IDS = 8
"""Ids of an event that are kept as examples: all of them would fill the memory."""


_WHO = ("reported", "moved", "joined", "silenced")


Row: TypeAlias = Mapping[str, Json]


def column(rows: Sequence[Row], name: str) -> Vector:
    """Return a figure of each line, NaN where there is none.

    Examples
    --------
    >>> column([{"ari": 0.5}, {"ari": None}, {}], "ari").tolist()
    [0.5, nan, nan]
    """
    values = [row.get(name) for row in rows]
    return np.array([float(value) if isinstance(value, (int, float)) else np.nan for value in values], dtype=np.float64)


def last_line(path: Path, block: int = 1 << 16) -> Row | None:
    """Return the last whole line of a log, read from its end; None if there is none.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    try:
        with path.open("rb") as file:
            position, tail = file.seek(0, 2), b""
            while position and tail[: tail.rfind(b"\n") + 1].count(b"\n") < 2:
                step = min(max(block, len(tail)), position)
                position = file.seek(position - step)
                tail = file.read(step) + tail
        lines = tail[: tail.rfind(b"\n") + 1].splitlines()
        line = json.loads(lines[-1]) if lines else None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    return line if isinstance(line, dict) else None


def sizes_over_time(changes: Sequence[Changes]) -> Iterator[tuple[int, dict[int, int]]]:
    """Yield the sizes of all clusters after each change; clients that are in none are not counted.

    Examples
    --------
    >>> list(sizes_over_time([(0, [("ann", 0), ("bob", 0)]), (4, [("bob", 1)])]))
    [(0, {0: 2}), (4, {0: 1, 1: 1})]
    """
    sizes: dict[int, int] = {}
    where: dict[ClientId, int] = {}
    for at, changed in changes:
        for client, cluster in changed:
            if client in where:
                sizes[where[client]] -= 1
            where[client] = cluster
            sizes[cluster] = sizes.get(cluster, 0) + 1
        yield at, {cluster: size for cluster, size in sizes.items() if size and cluster >= 0}


def round_line(line: Row) -> Row:
    """Return a line of ``rounds.jsonl``; raise if it is none."""
    _whole(line["round"]), _number(line["time_s"])
    return any_line(line)


def any_line(line: Row) -> Row:
    """Return a line; raise if it holds a number that no run writes."""
    if usable(dict(line)) != line:
        raise ValueError
    return line


def event_line(line: Row) -> Row:
    """Return a line of ``events.jsonl`` with numbers of clients instead of their ids."""
    _whole(line["round"])
    kept = any_line({name: value for name, value in line.items() if name not in _WHO and name != "cluster_ids"})
    who = {name: value if isinstance(value := line.get(name), list) else [] for name in _WHO}
    counts: dict[str, Json] = {f"n_{name}": len(ids) for name, ids in who.items()}
    return {"shift": None, "threshold": None, "fired": False, **kept, **counts, "who_moved": who["moved"][:SHOWN_IDS]}


def changes_line(line: Row) -> Changes:
    """Return a line of ``memberships.jsonl`` or ``concepts.jsonl``."""
    changed = line["changed"]
    moves: list[tuple[ClientId, int]] = []
    for pair in changed if isinstance(changed, list) else []:
        if not isinstance(pair, list):
            raise TypeError
        client, cluster = pair
        moves.append((client if isinstance(client, int) else str(client), _whole(cluster)))
    return _whole(line["round"]), moves


def usable(value: Json) -> Json:
    """Return a value without numbers that no run writes and no figure can show, which become None.

    Examples
    --------
    >>> usable({"shift": float("inf"), "threshold": 0.5, "n_clusters": 10**400})
    {'shift': None, 'threshold': 0.5, 'n_clusters': None}
    """
    if isinstance(value, dict):
        return {name: usable(one) for name, one in value.items()}
    if isinstance(value, list):
        return [usable(one) for one in value]
    return None if isinstance(value, (int, float)) and not abs(value) < _LARGEST else value


def _whole(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    if abs(value) >= _LARGEST:
        raise ValueError
    return value


def _number(value: Json) -> float:
    if not isinstance(value, (int, float)):
        raise TypeError
    if not abs(value) < _LARGEST:
        raise ValueError
    return float(value)


_LARGEST = 1e18
"""Larger numbers are damage."""


T = TypeVar("T")


Compact: TypeAlias = Callable[[Row], Any]
"""Makes of a line what is kept of it; a ValueError, KeyError, TypeError or OverflowError says that it is damaged."""


_REMEMBERED = 256
"""Bytes of the last line that tell whether a log is still the same."""


@dataclass(slots=True, eq=False)
class _Log:
    """What was read of a log so far."""

    offset: int = 0
    end: bytes = b""
    rows: list[Any] = field(default_factory=list)
    n_damaged: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lines:
    """The lines of a log.

    Parameters
    ----------
    rows
        What is kept of each line that could be read.
    problem
        What is wrong with the log, in words; nothing if it is whole.
    n_lines
        How many whole lines there are, also those that could not be read.
    """

    rows: list[Any]
    problem: str = ""
    n_lines: int = 0


class LogReader:
    r"""Reads logs of one JSON object a line, and remembers what it has read.

    A log that became shorter or another one (a resumed run cuts off what was not committed; a folder was removed and
    made again) is read anew.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rounds.jsonl"
    ...     _ = path.write_text('{"round": 0}\n{"rou\n{"round": 1}\n{"round"')
    ...     found = LogReader().lines(path, lambda line: line["round"])
    >>> found.rows, found.problem
    ([0, 1], 'rounds.jsonl: 1 of 3 lines cannot be read')
    """

    def __init__(self) -> None:
        self._logs: dict[tuple[Path, Compact], _Log] = {}
        self._kept: dict[Path, tuple[Hashable, Any]] = {}

    def kept(self, path: Path, state: Hashable, read: Callable[[], T]) -> T:
        """Return what was read of something that is no log, and read it again only if its state changed."""
        before = self._kept.get(path)
        if before is None or before[0] != state:
            before = self._kept[path] = (state, read())
        found: T = before[1]
        return found

    def lines(self, path: Path, compact: Compact = dict) -> Lines:
        """Return the lines of a log, the last one only if it is whole; ``compact`` is a function of a module."""
        log = self._logs.setdefault((path, compact), _Log())
        try:
            size = path.stat().st_size
            if size < log.offset or not _goes_on(log, path):
                log = self._logs[path, compact] = _Log()
            if size > log.offset:
                _read_on(log, path, compact)
        except OSError as error:
            return Lines(rows=log.rows, problem=f"{path.name}: {error.strerror or error}", n_lines=len(log.rows))
        n_lines = len(log.rows) + log.n_damaged
        problem = f"{path.name}: {log.n_damaged} of {n_lines} lines cannot be read" if log.n_damaged else ""
        return Lines(rows=log.rows, problem=problem, n_lines=n_lines)


def _goes_on(log: _Log, path: Path) -> bool:
    """Return whether what was read last is still where it was."""
    with path.open("rb") as file:
        file.seek(log.offset - len(log.end))
        return file.read(len(log.end)) == log.end


def _read_on(log: _Log, path: Path, compact: Compact) -> None:
    with path.open("rb") as file:
        file.seek(log.offset)
        for line in file:
            if not line.endswith(b"\n"):
                break
            log.offset += len(line)
            log.end = line[-_REMEMBERED:]
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError
                log.rows.append(compact(row))
            except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
                log.n_damaged += 1


FINISHED, RUNNING, STOPPED, FAILED = "finished", "running", "stopped", "failed"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunRecord:
    """A run.

    Parameters
    ----------
    folder
        Where it is.
    manifest
        The content of ``manifest.json``.
    rounds
        The lines of ``rounds.jsonl``, each with a whole number ``round`` and a number ``time_s``.
    events
        The lines of ``events.jsonl``; instead of ids they hold ``n_reported``, ``n_moved``, ``n_joined``,
        ``n_silenced`` and, as ``who_moved``, the first few ids.
    state
        ``finished``, ``running``, ``stopped`` or ``failed``.
    problems
        What of it is missing or damaged, and why it failed.
    reader
        Reads the logs that are not always needed.
    """

    folder: Path
    manifest: Row
    rounds: Sequence[Row]
    events: Sequence[Row]
    state: str
    problems: tuple[str, ...]
    reader: LogReader

    @property
    def seed(self) -> int | None:
        """Its seed."""
        seed = self.manifest.get("seed")
        return seed if isinstance(seed, int) else None

    @property
    def config(self) -> Row:
        """The resolved config, by section."""
        config = self.manifest.get("config")
        return config if isinstance(config, dict) else {}

    @property
    def settings(self) -> dict[str, Json]:
        """The resolved config by dotted keys, without the seed."""
        return dotted({key: value for key, value in self.config.items() if key != "seed"})

    @property
    def n_expected(self) -> int:
        """How many rounds it was to have; 0 if that is not known."""
        rounds = self.config.get("rounds")
        return rounds if isinstance(rounds, int) else 0

    @property
    def classes(self) -> list[str]:
        """The names of the labels; none if the manifest does not tell."""
        classes = self.manifest.get("classes")
        return [str(one) for one in classes] if isinstance(classes, list) else []

    @property
    def is_deployed(self) -> bool:
        """Whether real devices took part: then times were measured, not simulated."""
        return self.manifest.get("engine") == "flower"

    def setting(self, section: str, name: str) -> Json:
        """Return a value of the config, None if it is not set."""
        values = self.config.get(section)
        return values.get(name) if isinstance(values, dict) else None

    @property
    def gap(self) -> int:
        """Rounds between arrivals of data."""
        gap = self.setting("trace", "gap")
        return gap if isinstance(gap, int) and gap > 0 else 1

    @property
    def arrivals(self) -> list[float]:
        """The rounds after the first in which samples arrived."""
        window = self.setting("trace", "window")
        if not isinstance(window, int):
            return []
        return [float(at) for at in range(1, len(self.rounds)) if (window + at) % self.gap == 0]

    @property
    def is_clustered(self) -> bool:
        """Whether clients were grouped at all."""
        return bool(self.events) or any(row.get("n_clusters") != 1 for row in self.rounds)

    def memberships(self) -> list[Changes]:
        """Return who was in which cluster from which round on, as changes."""
        return self.reader.lines(self.folder / MEMBERSHIPS, changes_line).rows

    def concepts(self) -> list[Changes]:
        """Return which true concept each client had from which round on, as changes; nothing if nobody knows."""
        return self.reader.lines(self.folder / CONCEPTS, changes_line).rows

    def tests(self) -> list[ClientTests]:
        """Return how each client fared in each evaluation."""
        return self.reader.lines(self.folder / CLIENTS, client_tests).rows

    def last_test(self) -> ClientTests | None:
        """Return how each client fared in the last evaluation, without reading the others."""
        try:
            line = last_line(self.folder / CLIENTS)
            return None if line is None else client_tests(line)
        except (InputError, ValueError, KeyError, TypeError, ArithmeticError):
            found = self.tests()
            return found[-1] if found else None

    def timings(self) -> list[Row]:
        """Return the lines of ``timings.jsonl``."""
        return self.reader.lines(self.folder / TIMINGS, any_line).rows

    def costs(self) -> Row | None:
        """Return what was charged by kind of use; None if there is no checkpoint to take it from.

        The logs hold only the sums over all kinds.
        """
        try:
            arrays = load_run(newest_checkpoint(self.folder)).arrays
            parts = {name.removeprefix(LEDGER): array for name, array in arrays.items() if name.startswith(LEDGER)}
            return Ledger.restored(parts).totals()
        except (InputError, CheckpointError, OSError):
            return None

    def reports(self) -> ReportStream | None:
        """Return what clients reported; None if they reported nothing, or it cannot be read."""
        try:
            state = tuple(sorted(path.name for path in (self.folder / REPORTS).iterdir()))
        except OSError:
            return None
        return self.reader.kept(self.folder / REPORTS, state, self._read_reports)

    def _read_reports(self) -> ReportStream | None:
        kinds: tuple[Kind, ...] = ("histogram", "vector")
        for kind in kinds:
            try:
                return run_reports(self.folder, kind)
            except (FieldingError, OSError):
                continue
        return None

    def summary(self) -> Row:
        """Return the content of ``summary.json``; nothing if there is none."""
        return read_record(self.folder / SUMMARY)


def read_run(folder: Path, reader: LogReader | None = None) -> RunRecord:
    """Read the folder of a run, as much as there is of it.

    Parameters
    ----------
    folder
        Of the run.
    reader
        One that may have read some of it before.

    Raises
    ------
    InputError
        If it is not the folder of a run.
    """
    reader = reader or LogReader()
    manifest, problem = _manifest(folder)
    rounds, events = reader.lines(folder / ROUNDS, round_line), reader.lines(folder / EVENTS, event_line)
    failure, cut_off = read_failure(folder), _cut_off(folder, rounds.n_lines)
    problems = [one for one in (failure or "", cut_off, problem, rounds.problem, events.problem) if one]
    for name in (MEMBERSHIPS, CLIENTS):
        if not (folder / name).exists():
            problems.append(f"{name} is missing")
    return RunRecord(
        folder=folder,
        manifest=manifest,
        rounds=rounds.rows,
        events=events.rows,
        state=_state(folder, is_whole=not cut_off, has_failed=failure is not None),
        problems=tuple(problems),
        reader=reader,
    )


def read_manifest(folder: Path) -> Row:
    """Return what a run depends on: versions, seed, config, trainer.

    Raises
    ------
    InputError
        If it is not the folder of a run.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} is not the folder of a run: cannot read {MANIFEST}: {error}") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("config"), dict):
        raise InputError(f"{folder} is not the folder of a run: its {MANIFEST} has no config")
    return {name: usable(value) for name, value in manifest.items()}


def _manifest(folder: Path) -> tuple[Row, str]:
    """Return the manifest of a run, or nothing and what is wrong with it if there are rounds without one."""
    try:
        return read_manifest(folder), ""
    except InputError:
        if not (folder / ROUNDS).exists():
            raise
        return {}, f"{MANIFEST} cannot be read: config and versions are not known"


def read_record(path: Path) -> Row:
    """Return the content of a JSON file; nothing if it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: usable(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _cut_off(folder: Path, n_lines: int) -> str:
    """Return what is wrong if a run that ended has fewer rounds in its log than it had; else nothing."""
    n_rounds = read_record(folder / SUMMARY).get("n_rounds")
    if not isinstance(n_rounds, int) or n_lines >= n_rounds:
        return ""
    return (
        f"{ROUNDS} holds {n_lines} of {n_rounds} rounds, so the run does not count; delete its folder and run it again"
    )


def _state(folder: Path, *, is_whole: bool, has_failed: bool) -> str:
    # A comparison may find that a finished run is not the one it asked for, and writes that down as a failure.
    if (folder / SUMMARY).exists() and is_whole and not has_failed:
        return FINISHED
    if is_locked(folder):
        return RUNNING
    return FAILED if has_failed else STOPPED


def dotted(table: Row, prefix: str = "") -> dict[str, Json]:
    """Return a table of tables as one table of dotted keys.

    Examples
    --------
    >>> dotted({"rounds": 9, "trace": {"gap": 3}})
    {'rounds': 9, 'trace.gap': 3}
    """
    found: dict[str, Json] = {}
    for key, value in table.items():
        found |= dotted(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found
