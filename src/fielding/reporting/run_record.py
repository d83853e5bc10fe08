"""A run as its folder tells it, be it finished, running, stopped or damaged: what is missing is told, never raised."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fielding._typing import Json
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
from fielding.reporting.client_tests import ClientTests, client_tests
from fielding.reporting.log_reader import LogReader, Row
from fielding.reporting.run_lines import Changes, any_line, changes_line, event_line, last_line, round_line, usable
from fielding.traces.reports import ReportStream

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
