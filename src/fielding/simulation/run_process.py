"""What a process does that has one run to do: it does it, tells how far it is, and how it ended."""

import contextlib
import faulthandler
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from fielding._typing import Json
from fielding.engine.config_reader import config_from
from fielding.errors import FieldingError
from fielding.simulation.experiment import Start, run
from fielding.simulation.watching import TRAINING, Watching

OUTPUT = "output.txt"
"""What the process of a run printed, if anything; it is not for the terminal, where many runs are told of at once."""
TELL_EVERY_S = 0.1
"""Seconds between two words about how far a run is."""
LONGEST_TRACEBACK = 20_000
Beside: TypeAlias = Callable[[Path, Watching, Callable[[str], None]], AbstractContextManager[Watching]]
"""What goes on beside a run in a folder: it is told of rounds, and tells in turn whom it was given; what users should
know it tells to the last, in a line. It can be pickled."""


def work(line: Connection, table: Mapping[str, Json], folder: Path, beside: Beside | None = None) -> None:
    """Do a run, or what is left of it, telling of it through a pipe.

    Steps are records with ``phase``, ``n_rounds`` and ``accuracy``; a ``note`` is what users should know. The last word
    is a ``summary``, an ``error`` with the ``traceback`` of a bug, or ``is_stopped``. SIGTERM ends the run with the
    round in hand, and so does a pipe that nobody listens to any more.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _keep_output(folder)
    teller = _Teller(line)
    signal.signal(signal.SIGTERM, teller.ask_to_stop)
    outcome = _outcome(teller, table, folder, beside or _alone)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is over
    with contextlib.suppress(OSError):
        line.send(outcome)
    line.close()


@dataclass(slots=True, eq=False)
class _Teller:
    """Tells how far a run is; knows whether it should end."""

    line: Connection
    phase: str = "starting"
    accuracy: float | None = None
    told_at: float = 0.0
    is_asked: bool = False

    def ask_to_stop(self, _number: int, _frame: FrameType | None) -> None:
        """Note that the run should end; before it trains there is no round to wait for."""
        self.is_asked = True
        if self.phase != TRAINING:
            raise SystemExit

    def on_phase(self, phase: str) -> None:
        self.phase = phase
        self._tell(0)
        self.told_at = 0.0  # the first round is told in any case: where a resumed run goes on is not known before

    def after_round(self, row: Mapping[str, Json]) -> bool:
        if isinstance(measured := row.get("accuracy"), float):
            self.accuracy = measured
        if time.monotonic() - self.told_at >= TELL_EVERY_S:
            self._tell(int(str(row["round"])) + 1)
        return not self.is_asked

    def note(self, text: str) -> None:
        """Tell in a line what users should know beside the results."""
        with contextlib.suppress(OSError):
            self.line.send({"note": text})

    def _tell(self, n_rounds: int) -> None:
        self.told_at = time.monotonic()
        try:
            self.line.send({"phase": self.phase, "n_rounds": n_rounds, "accuracy": self.accuracy})
        except OSError:  # the parent is gone: nobody waits for this run
            self.is_asked = True


def _alone(_folder: Path, watching: Watching, _note: Callable[[str], None]) -> AbstractContextManager[Watching]:
    """Let nothing go on beside a run."""
    return nullcontext(watching)


def _outcome(teller: _Teller, table: Mapping[str, Json], folder: Path, beside: Beside) -> dict[str, Any]:
    """Return how the run ended."""
    watching = Watching(after_round=teller.after_round, on_phase=teller.on_phase)
    try:
        with beside(folder, watching, teller.note) as told:
            result = run(config_from(table), folder, start=Start(resume=True), watch=told, page=False)
    except FieldingError as error:
        return {"summary": None, "error": str(error)}
    except MemoryError:
        return {"summary": None, "error": "there was not enough memory; try fewer runs at a time"}
    except BaseException as error:  # a bug, perhaps in a method of the user's own, or its sys.exit
        if teller.is_asked:
            return {"is_stopped": True}
        return {"summary": None, "error": bug_words(error), "traceback": traceback.format_exc()[-LONGEST_TRACEBACK:]}
    for text in result.notes:
        teller.note(text)
    if result.summary is None:
        return {"is_stopped": True}
    return {"summary": dict(result.summary)}


def bug_words(error: BaseException) -> str:
    """Return in a line what went wrong in code, and where.

    Examples
    --------
    >>> try:
    ...     {}["a"]
    ... except KeyError as error:
    ...     print(bug_words(error))
    KeyError: 'a' (<doctest fielding.simulation.run_process.bug_words[0]>, line 2)
    """
    what = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    last = traceback.extract_tb(error.__traceback__)[-1:]
    return what + "".join(f" ({Path(one.filename).name}, line {one.lineno})" for one in last)


def _keep_output(folder: Path) -> None:
    """Let what this process prints, and a crash of its libraries, go to a file; if there can be none, to nowhere."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        target = os.open(folder / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError:  # the run will tell
        target = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for number in (1, 2):
        os.dup2(target, number)
    os.close(target)
    faulthandler.enable()
