"""Logs that may still grow or be damaged: read once, then only what was added; damage is told, not raised."""

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from fielding._typing import Json

T = TypeVar("T")
Row: TypeAlias = Mapping[str, Json]
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
