"""Runs in processes of their own, some at a time: one that breaks or is killed breaks alone, and none outlives us."""

import contextlib
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from fielding._typing import Json
from fielding.simulation.run_process import OUTPUT, Beside, work

TICK_S = 0.2
"""Seconds between two looks at whether to stop."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What tells numpy's libraries how many threads to take; a process reads it when it loads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run that came to its end.

    Parameters
    ----------
    name
        Of the run, and of its folder.
    summary
        Its figures; None if it failed.
    error
        Why it failed, in a line.
    traceback
        Where in the code, if that is known.
    """

    name: str
    summary: Mapping[str, Json] | None
    error: str | None = None
    traceback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How far a run has come.

    Parameters
    ----------
    name
        Of the run.
    n_rounds
        Rounds that are done, also those of an earlier beginning.
    accuracy
        The newest; None before the first evaluation since it was begun or resumed.
    phase
        What it does: ``"reading digits"``, ``"training"``.
    """

    name: str
    n_rounds: int = 0
    accuracy: float | None = None
    phase: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What users should know of a run, beside its results.

    Parameters
    ----------
    name
        Of the run.
    text
        A line: that a tracker could not be told of it, or that features lie on scales that models do not learn from.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """Who is told how some runs come along, and asked whether to go on.

    Parameters
    ----------
    on_step
        Told now and then how far a run has come, first when it begins.
    on_done
        Told of every run that is done, as soon as it is.
    on_note
        Told what users should know of a run.
    is_stopped
        Asked several times a second. After a first True, runs end with the round in hand and no others are begun.
    beside
        What goes on beside each run in its process, such as trackers.
    """

    on_step: Callable[[Step], None] = lambda _step: None
    on_done: Callable[[Finished], None] = lambda _one: None
    on_note: Callable[[Note], None] = lambda _note: None
    is_stopped: Callable[[], bool] = lambda: False
    beside: Beside | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A run that is to be done: its name, its config as a table, and where to."""

    name: str
    table: Mapping[str, Json]
    folder: Path


def run_in_processes(jobs: Iterable[Job], *, n_jobs: int, following: Following) -> dict[str, Finished]:
    """Do some runs, or what is left of them, each in a process of its own.

    A script that calls this must do so below ``if __name__ == "__main__":``, as the new processes load it.

    Parameters
    ----------
    jobs
        The runs, in the order in which they are begun.
    n_jobs
        How many at a time.
    following
        Who is told, and whether to go on.

    Returns
    -------
    What became of each run that ended; those that were stopped are left out. If this process is interrupted, the others
    are killed; what their runs committed is kept.
    """
    crew = _Crew(following)
    waiting = deque(jobs)
    try:
        while waiting or crew.members:
            if following.is_stopped() and not crew.is_leaving:
                waiting.clear()
                crew.leave()
            while waiting and len(crew.members) < n_jobs:
                crew.begin(waiting.popleft())
            crew.listen()
    finally:
        crew.kill()
    return crew.ended


@dataclass(slots=True, kw_only=True, eq=False)
class _Member:
    """A process, its run, and the last word that it had on it."""

    job: Job
    process: SpawnProcess
    outcome: Mapping[str, Any] | None = None


class _Crew:
    """The processes that are at work."""

    def __init__(self, following: Following) -> None:
        self._following = following
        self.members: dict[Connection, _Member] = {}
        self.ended: dict[str, Finished] = {}
        self.is_leaving = False

    def begin(self, job: Job) -> None:
        """Start the process of a run."""
        # Spawned, not forked: a fork of a process with threads may hang.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        order = (theirs, dict(job.table), job.folder, self._following.beside)
        process = context.Process(target=work, args=order, name=job.name)
        with _as_a_child_should_begin():
            process.start()
        theirs.close()  # else the pipe would not end with the process
        self.members[ours] = _Member(job=job, process=process)
        self._following.on_step(Step(name=job.name, phase="starting"))

    def leave(self) -> None:
        """Ask all to end with the round in hand."""
        self.is_leaving = True
        for member in self.members.values():
            member.process.terminate()

    def listen(self) -> None:
        """Hear what the processes have to say within a tick."""
        said_something = wait(list(self.members), timeout=TICK_S)
        for line in [one for one in self.members if one in said_something]:
            try:
                self._hear(self.members[line], line.recv())
            except (EOFError, OSError):
                self._end(line)

    def kill(self) -> None:
        """End all processes that are left, at once."""
        for line, member in self.members.items():
            member.process.kill()
            member.process.join()
            member.process.close()
            line.close()
            _is_kept(member.job.folder / OUTPUT)
        self.members.clear()

    def _hear(self, member: _Member, word: Mapping[str, Any]) -> None:
        if "phase" in word:
            self._following.on_step(Step(name=member.job.name, **word))
        elif "note" in word:
            self._following.on_note(Note(name=member.job.name, text=word["note"]))
        else:
            member.outcome = word

    def _end(self, line: Connection) -> None:
        member = self.members.pop(line)
        line.close()
        member.process.join()
        code = member.process.exitcode or 0
        member.process.close()
        has_output = _is_kept(member.job.folder / OUTPUT)
        outcome = member.outcome or {}
        if self.is_leaving and (not outcome or outcome.get("is_stopped")):
            return
        one = _finished(member.job.name, outcome or {"summary": None, "error": _death_words(code, has_output)})
        self.ended[one.name] = one
        self._following.on_done(one)


def _finished(name: str, outcome: Mapping[str, Any]) -> Finished:
    if outcome.get("is_stopped"):
        return Finished(name=name, summary=None, error="its process was told to end (SIGTERM) by somebody else")
    return Finished(name=name, **outcome)


def _death_words(code: int, has_output: bool) -> str:
    """Return in words how a process ended that did not say so itself.

    Examples
    --------
    >>> _death_words(-9, False)
    'its process was killed (SIGKILL); was there not enough memory? Try fewer runs at a time'
    >>> _death_words(3, True)
    'its process ended with code 3 and did not say why; see output.txt in its folder'
    >>> _death_words(-6, False)
    'its process was killed (SIGABRT)'
    """
    where = f"; see {OUTPUT} in its folder" if has_output else ""
    if code >= 0:
        return f"its process ended with code {code} and did not say why{where}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = "; was there not enough memory? Try fewer runs at a time" if name == "SIGKILL" else where
    return f"its process was killed ({name}){hint}"


def _is_kept(path: Path) -> bool:
    """Return whether a process printed something; if not, remove the empty file."""
    with contextlib.suppress(OSError):
        if path.stat().st_size:
            return True
        path.unlink()
    return False


@contextlib.contextmanager
def _as_a_child_should_begin() -> Iterator[None]:
    """Let a process start with one thread for matrix products, and deaf to Ctrl-C, which the parent answers for all.

    Both are inherited. The signal is only held back here, so that none is lost to the parent itself.
    """
    missing = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, "1"))
    can_mask = hasattr(signal, "pthread_sigmask")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if can_mask else set()
    try:
        yield
    finally:
        if can_mask:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for name in missing:
            del os.environ[name]
