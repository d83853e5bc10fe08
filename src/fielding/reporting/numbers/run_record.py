"""A run as its folder tells it, be it finished, running, stopped or damaged: what is missing is told, never raised."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Json, Vector
from fielding.atomic import check_no_pipe
from fielding.distance import Kind
from fielding.errors import CheckpointError, FieldingError, InputError
from fielding.federation.evaluation import TREATMENTS
from fielding.federation.ledger import Ledger
from fielding.json_text import parse_json
from fielding.records.changes import Change, changes_in
from fielding.records.lock import is_locked
from fielding.records.manifest import read_json
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
    read_run_reports,
)
from fielding.traces.reports import ReportStream

T = TypeVar("T")
Row: TypeAlias = Mapping[str, Json]
Changes: TypeAlias = tuple[int, list[tuple[ClientId, int]]]
"""A round, and clients with the cluster (or true concept) that they have from then on; -1 for none."""
Parse: TypeAlias = Callable[[Row], Any]
"""Makes of a line what is kept of it; a ValueError, KeyError, TypeError or OverflowError says that it is damaged."""

FINISHED, RUNNING, STOPPED, FAILED = "finished", "running", "stopped", "failed"
SHOWN_IDS = 8  # ids of an event that are kept as examples: all of them would fill the memory
_CLIENT_LISTS = ("reported", "moved", "joined", "silenced")
_LARGEST = 1e18  # larger numbers are damage
_LARGEST_ROUND = 2**31
_COMPARED_BYTES = 256  # bytes of the last line that tell whether a log is still the same


def column(rows: Sequence[Row], name: str) -> Vector:
    """Return a figure of each line, NaN where there is none.

    Examples
    --------
    >>> column([{"ari": 0.5}, {"ari": None}, {}], "ari").tolist()
    [0.5, nan, nan]
    """
    values = [row.get(name) for row in rows]
    return np.array([float(value) if isinstance(value, (int, float)) else np.nan for value in values], dtype=np.float64)


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


def flatten(table: Row, prefix: str = "") -> dict[str, Json]:
    """Return a table of tables as one table of dotted keys.

    Examples
    --------
    >>> flatten({"rounds": 9, "trace": {"gap": 3}})
    {'rounds': 9, 'trace.gap': 3}
    """
    found: dict[str, Json] = {}
    for key, value in table.items():
        found |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


# ---------------------------------------------------------------- lines of logs


def parse_line(line: Row) -> Row:
    """Return a line; raise if it holds a number that no run writes."""
    if _drop_damage(dict(line)) != line:
        raise ValueError
    return line


def parse_round(line: Row) -> Row:
    """Return a line of ``rounds.jsonl``; raise if it is none.

    The score on the next interval has its name also where an older version called it prequential.

    Examples
    --------
    >>> parse_round({"round": 0, "time_s": 9.0, "prequential_accuracy": 0.5})
    {'round': 0, 'time_s': 9.0, 'next_accuracy': 0.5}
    """
    _whole(line["round"])
    time = line["time_s"]
    if not isinstance(time, (int, float)):
        raise TypeError
    return parse_line({name.replace("prequential", "next"): value for name, value in line.items()})


def parse_event(line: Row) -> Row:
    """Return a line of ``events.jsonl`` with numbers of clients instead of their ids."""
    _whole(line["round"])
    kept = parse_line({key: value for key, value in line.items() if key not in (*_CLIENT_LISTS, "cluster_ids")})
    clients = {name: value if isinstance(value := line.get(name), list) else [] for name in _CLIENT_LISTS}
    counts: dict[str, Json] = {f"n_{name}": len(ids) for name, ids in clients.items()}
    moved = clients["moved"][:SHOWN_IDS]
    return {"shift": None, "threshold": None, "fired": False, **kept, **counts, "who_moved": moved}


def parse_changes(line: Row) -> Changes:
    """Return a line of ``memberships.jsonl`` or ``concepts.jsonl``."""
    changed = line["changed"]
    moves: list[tuple[ClientId, int]] = []
    for pair in changed if isinstance(changed, list) else []:
        if not isinstance(pair, list):
            raise TypeError
        client, cluster = pair
        moves.append((client if isinstance(client, int) else str(client), _whole(cluster)))
    return _whole(line["round"]), moves


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClientTests:
    """All clients that were tested after a round.

    ``cluster`` is -1 for none; ``correct`` of the ``n_test`` test samples of each its model got right, and
    ``otherwise`` how many with what it made of its model, by the names of ``TREATMENTS``. ``done_s``: when the
    cluster of each was done with the round, if that was sooner than the latest cluster was, else NaN; None if none was.
    """

    round_index: int
    client_ids: tuple[ClientId, ...]
    cluster: npt.NDArray[np.int32]
    n_test: npt.NDArray[np.int32]
    correct: npt.NDArray[np.int32]
    otherwise: Mapping[str, npt.NDArray[np.int32]]
    done_s: Vector | None = None
    # By expert: how much each client believes it, and its last log loss; NaN where that is not known.
    expert_weights: Mapping[str, Vector] = field(default_factory=dict)
    expert_losses: Mapping[str, Vector] = field(default_factory=dict)

    def accuracy(self, how: str = "") -> Vector:
        """Return the accuracy of each client, NaN without test samples; ``how`` may name one of ``otherwise``."""
        right = self.otherwise[how] if how else self.correct
        blank = np.full(self.n_test.shape, np.nan)
        return np.asarray(np.divide(right, self.n_test, out=blank, where=self.n_test > 0), dtype=np.float64)


def parse_client_tests(line: Row) -> ClientTests:
    """Return a line of ``clients.jsonl``; raise if it is damaged.

    Examples
    --------
    >>> line = {"round": 4, "client": ["ann", "bob"], "cluster": [0, 1], "n_test": [4, 2], "correct": [1, 2]}
    >>> one = parse_client_tests(line)
    >>> one.round_index, one.accuracy().tolist()
    (4, [0.25, 1.0])
    """
    ids, round_index = line["client"], line["round"]
    if not isinstance(ids, list) or not isinstance(round_index, int):
        raise TypeError
    if not 0 <= round_index < _LARGEST_ROUND:
        raise ValueError
    found = {name: np.array(line[name], dtype=np.int32) for name in ("cluster", "n_test", "correct")}
    otherwise = {name: np.array(line[name], dtype=np.int32) for name in TREATMENTS if name in line}
    if any(values.shape != (len(ids),) for values in (*found.values(), *otherwise.values())):
        raise ValueError
    experts = {}
    for what in ("expert_weights", "expert_losses"):
        by_expert = line.get(what, {})
        if not isinstance(by_expert, dict):
            raise TypeError
        experts[what] = {name: np.array(values, dtype=np.float64) for name, values in by_expert.items()}
        if any(values.shape != (len(ids),) for values in experts[what].values()):
            raise ValueError
    client_ids = tuple(one if isinstance(one, int) else str(one) for one in ids)
    done_s, sooner = None, line.get("cluster_time_s")
    if isinstance(sooner, dict):
        times = {int(cluster): float(str(time_s)) for cluster, time_s in sooner.items()}
        done_s = np.array([times.get(cluster, np.nan) for cluster in found["cluster"].tolist()])
    return ClientTests(
        round_index=round_index,
        client_ids=client_ids,
        cluster=found["cluster"],
        n_test=found["n_test"],
        correct=found["correct"],
        otherwise=otherwise,
        done_s=done_s,
        expert_weights=experts["expert_weights"],
        expert_losses=experts["expert_losses"],
    )


def _drop_damage(value: Json) -> Json:
    """Return a value with None for numbers that no run writes and no figure can show: infinite or huge ones."""
    if isinstance(value, dict):
        return {name: _drop_damage(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_drop_damage(one) for one in value]
    return None if isinstance(value, (int, float)) and not abs(value) < _LARGEST else value


def _whole(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    if abs(value) >= _LARGEST:
        raise ValueError
    return value


# ---------------------------------------------------------------- logs


@dataclass(slots=True, eq=False)
class _Log:
    offset: int = 0
    end: bytes = b""
    rows: list[Any] = field(default_factory=list)
    n_damaged: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lines:
    """What is kept of each line of a log, what is wrong with it in words, and how many whole lines there are."""

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
        self._logs: dict[tuple[Path, Parse], _Log] = {}
        self._kept: dict[Path, tuple[Hashable, Any]] = {}
        self.failures: list[str] = []  # what is there but the system did not let be read

    def keep(self, path: Path, state: Hashable, read: Callable[[], T]) -> T:
        """Return what was read of something that is no log, and read it again only if its state changed."""
        before = self._kept.get(path)
        if before is None or before[0] != state:
            before = self._kept[path] = (state, read())
        found: T = before[1]
        return found

    def lines(self, path: Path, parse: Parse = dict) -> Lines:
        """Return the lines of a log, the last one only if it is whole; ``parse`` is a function of a module."""
        log = self._logs.setdefault((path, parse), _Log())
        try:
            check_no_pipe(path)
            size = path.stat().st_size
            with path.open("rb") as file:
                file.seek(max(0, log.offset - len(log.end)))
                if size < log.offset or file.read(len(log.end)) != log.end:
                    log = self._logs[path, parse] = _Log()
                file.seek(log.offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    log.offset += len(line)
                    log.end = line[-_COMPARED_BYTES:]
                    try:
                        row = parse_json(line)
                        if not isinstance(row, dict):
                            raise ValueError
                        log.rows.append(parse(row))
                    except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
                        log.n_damaged += 1
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                self.failures.append(f"cannot read {path}: {error.strerror or error}")
            return Lines(rows=log.rows, problem=f"{path.name}: {error.strerror or error}", n_lines=len(log.rows))
        n_lines = len(log.rows) + log.n_damaged
        problem = f"{path.name}: {log.n_damaged} of {n_lines} lines cannot be read" if log.n_damaged else ""
        return Lines(rows=log.rows, problem=problem, n_lines=n_lines)


def last_line(path: Path, block: int = 1 << 16) -> Row | None:
    """Return the last whole line of a log, read from its end; None if there is none.

    InputError if it cannot be read.
    """
    try:
        check_no_pipe(path)
        with path.open("rb") as file:
            position, tail = file.seek(0, 2), b""
            while position and tail[: tail.rfind(b"\n") + 1].count(b"\n") < 2:
                step = min(max(block, len(tail)), position)
                position = file.seek(position - step)
                tail = file.read(step) + tail
        lines = tail[: tail.rfind(b"\n") + 1].splitlines()
        line = parse_json(lines[-1]) if lines else None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    return line if isinstance(line, dict) else None


# ---------------------------------------------------------------- runs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunRecord:
    """A run."""

    folder: Path
    manifest: Row
    rounds: Sequence[Row]  # the lines of rounds.jsonl, each with a whole number round and a number time_s
    # The lines of events.jsonl; instead of ids they hold n_reported, n_moved, n_joined, n_silenced and, as who_moved,
    # the first few ids.
    events: Sequence[Row]
    state: str  # finished, running, stopped or failed
    problems: tuple[str, ...]  # what of it is missing or damaged, and why it failed
    reader: LogReader  # reads the logs that are not always needed

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
        return flatten({key: value for key, value in self.config.items() if key != "seed"})

    @property
    def changes(self) -> list[Change]:
        """The settings that changed while it went on; not those that no round was run by."""
        return [one for one in changes_in(self.manifest) if one.round_index < len(self.rounds)]

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
        if isinstance(window, str):  # by time: training starts with whole intervals
            window = 0
        if not isinstance(window, int):
            return []
        return [float(at) for at in range(1, len(self.rounds)) if (window + at) % self.gap == 0]

    @property
    def is_clustered(self) -> bool:
        """Whether clients were grouped at all."""
        return bool(self.events) or any(row.get("n_clusters") != 1 for row in self.rounds)

    def memberships(self) -> list[Changes]:
        """Return the cluster of each client, as changes."""
        return self.reader.lines(self.folder / MEMBERSHIPS, parse_changes).rows

    def concepts(self) -> list[Changes]:
        """Return the true concept of each client, as changes; nothing where it is not known."""
        return self.reader.lines(self.folder / CONCEPTS, parse_changes).rows

    def tests(self) -> list[ClientTests]:
        """Return how each client fared in each evaluation."""
        return self.reader.lines(self.folder / CLIENTS, parse_client_tests).rows

    def last_test(self) -> ClientTests | None:
        """Return how each client fared in the last evaluation, without reading the others."""
        try:
            line = last_line(self.folder / CLIENTS)
            return None if line is None else parse_client_tests(line)
        except (InputError, ValueError, KeyError, TypeError, ArithmeticError):
            found = self.tests()
            return found[-1] if found else None

    def timings(self) -> list[Row]:
        """Return the lines of ``timings.jsonl``."""
        return self.reader.lines(self.folder / TIMINGS, parse_line).rows

    def costs(self) -> Row | None:
        """Return what was charged by kind of use; None if there is no checkpoint to take it from.

        The logs hold only the sums over all kinds.
        """
        try:
            arrays = load_run(newest_checkpoint(self.folder)).arrays
            parts = {name.removeprefix(LEDGER): array for name, array in arrays.items() if name.startswith(LEDGER)}
            return Ledger.restored(parts).totals()
        except (InputError, CheckpointError, OSError) as error:
            if isinstance(error.__cause__, OSError):
                self.reader.failures.append(str(error))
            return None

    def reports(self) -> ReportStream | None:
        """Return what clients reported; None if they reported nothing, or it cannot be read."""

        def read() -> ReportStream | None:
            kinds: tuple[Kind, ...] = ("histogram", "vector")
            for kind in kinds:
                try:
                    return read_run_reports(self.folder, kind)
                except (FieldingError, OSError):
                    continue
            return None

        try:
            state = tuple(sorted(path.name for path in (self.folder / REPORTS).iterdir()))
        except OSError:
            return None
        return self.reader.keep(self.folder / REPORTS, state, read)

    def summary(self) -> Row:
        """Return the content of ``summary.json``; nothing if there is none."""
        return _read_summary(self.folder)


def read_run(folder: Path, reader: LogReader | None = None) -> RunRecord:
    """Read the folder of a run, as much as there is of it; InputError if it is not the folder of a run.

    ``reader`` is one that may have read some of it before.
    """
    reader = reader or LogReader()
    problem, failure = "", read_failure(folder)
    try:
        manifest = _read_manifest(folder)
    except InputError:
        if not (folder / ROUNDS).exists():
            raise
        manifest, problem = {}, f"{MANIFEST} cannot be read: config and versions are not known"
    rounds, events = reader.lines(folder / ROUNDS, parse_round), reader.lines(folder / EVENTS, parse_event)
    summary, cut_off = _read_summary(folder), ""
    if not summary and (folder / SUMMARY).exists():
        reader.failures.append(f"cannot read {folder / SUMMARY}")
    n_rounds = summary.get("n_rounds")
    if isinstance(n_rounds, int) and rounds.n_lines < n_rounds:
        cut_off = (
            f"{ROUNDS} holds {rounds.n_lines} of {n_rounds} rounds, so the run does not count; delete its folder and "
            "run it again"
        )
    problems = [one for one in (failure or "", cut_off, problem, rounds.problem, events.problem) if one]
    problems += [f"{name} is missing" for name in (MEMBERSHIPS, CLIENTS) if not (folder / name).exists()]
    problems += [str(row["note"]) for row in rounds.rows if "note" in row]
    # A comparison may find that a finished run is not the one it asked for, and writes that down as a failure.
    if (folder / SUMMARY).exists() and not cut_off and failure is None:
        state = FINISHED
    else:
        state = RUNNING if is_locked(folder) else STOPPED if failure is None else FAILED
    return RunRecord(
        folder=folder,
        manifest=manifest,
        rounds=rounds.rows,
        events=events.rows,
        state=state,
        problems=tuple(problems),
        reader=reader,
    )


def _read_manifest(folder: Path) -> Row:
    try:
        check_no_pipe(folder / MANIFEST)
        manifest = parse_json((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} is not the folder of a run: cannot read {MANIFEST}: {error}") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("config"), dict):
        raise InputError(f"{folder} is not the folder of a run: its {MANIFEST} has no config")
    return {name: _drop_damage(value) for name, value in manifest.items()}


def _read_summary(folder: Path) -> Row:
    return {name: _drop_damage(value) for name, value in read_json(folder / SUMMARY).items()}
