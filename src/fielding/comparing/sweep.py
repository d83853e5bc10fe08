"""Many runs, some at a time, each in a process of its own; what is done already is not done again.

A run that breaks or is killed breaks alone, and no process outlives the one that started it.
"""

import contextlib
import faulthandler
import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, TypeAlias

from fielding._typing import Json
from fielding.atomic import make_private
from fielding.config.keys import Config
from fielding.config.parts import own_parts, remember_own
from fielding.config.reader import config_from, config_table
from fielding.errors import FieldingError, InputError, error_words
from fielding.ray_cluster import LOCAL
from fielding.records.manifest import read_json
from fielding.records.run_folder import ROUNDS, SUMMARY, check_same_config
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import TRAINING, Start, Watching, recorded_table, run
from fielding.traces.catalog import Source

OUTPUT = "output.txt"
"""What the process of a run printed, if anything; it is not for the terminal, where many runs are told of at once."""
TELL_EVERY_S = 0.1  # seconds between two words about how far a run is
TICK_S = 0.2  # seconds between two looks at whether to stop
LONGEST_TRACEBACK = 20_000
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What tells numpy's libraries how many threads to take; a process reads it when it loads them."""
Beside: TypeAlias = Callable[[Path, Watching, Callable[[str], None]], AbstractContextManager[Watching]]
"""What goes on beside a run in a folder: it is told of rounds and tells those on that it was given, and notes for users
it passes to the last, in a line. It can be pickled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run that came to its end: its figures, or why it failed, in a line, and where in the code if that is known."""

    name: str
    summary: Mapping[str, Json] | None
    error: str | None = None
    traceback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How far a run has come: rounds that are done, also those of an earlier beginning, and what it does.

    ``accuracy`` is the newest, ``served`` the same as clients are served; None before the first evaluation since it was
    begun or resumed, and without experts.
    """

    name: str
    n_rounds: int = 0
    accuracy: float | None = None
    served: float | None = None
    phase: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What users should know of a run beside its results, in a line.

    That a tracker could not be told of it, or that features lie on scales that models do not learn from.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """Callbacks that follow some runs and say whether to go on."""

    # Told now and then how far a run has come, first when it begins.
    on_step: Callable[[Step], None] = lambda _step: None
    on_done: Callable[[Finished], None] = lambda _one: None  # told of every run that is done, as soon as it is
    on_note: Callable[[Note], None] = lambda _note: None  # told what users should know of a run
    # Asked several times a second. After a first True, runs end with the round in hand and no others are begun.
    is_stopped: Callable[[], bool] = lambda: False
    beside: Beside | None = None  # what goes on beside each run in its process, such as trackers


def sweep(
    configs: Mapping[str, Config],
    out: Path,
    *,
    n_jobs: int = 1,
    on_done: Callable[[Finished], None] = lambda _one: None,
) -> dict[str, Finished]:
    """Do some runs into a folder each, or what is left of them.

    Parameters
    ----------
    configs
        What to run, by the name of the folder in ``out``.
    out
        Where to. A run that is whole there is not done again, one that was stopped goes on.
    n_jobs
        How many runs at a time, each in a process of its own; 1 does them in this process, one after the other.
    on_done
        Told of every run that is done, as soon as it is.

    Returns
    -------
    What became of each run, in the order given; a run that fails does not stop the others, nor does a folder that
    holds a run of another config.

    Raises
    ------
    InputError
        If ``n_jobs`` is less than 1.
    """
    if n_jobs > 1:
        return sweep_in_processes(configs, out, n_jobs=n_jobs, following=Following(on_done=on_done))
    found = _find_whole(configs, out, n_jobs, on_done)
    for name, config in configs.items():
        if name in found:
            continue
        try:
            result = run(config, out / name, start=Start(resume=True, may_change=False), page=False)
            found[name] = Finished(name=name, summary=result.summary)
        except FieldingError as error:
            found[name] = Finished(name=name, summary=None, error=str(error))
        except Exception as error:  # a bug, perhaps in a method of the user's own
            found[name] = Finished(name=name, summary=None, error=bug_words(error), traceback=traceback.format_exc())
        on_done(found[name])
    return {name: found[name] for name in configs}


def sweep_in_processes(
    configs: Mapping[str, Config],
    out: Path,
    *,
    n_jobs: int | None,
    following: Following | None = None,
    samples: Source | None = None,
    on: str = LOCAL,
) -> dict[str, Finished]:
    """Do some runs as :func:`sweep` does, always in processes of their own, so that even a killed one fails alone.

    ``samples`` are the caller's own, in place of what the configs name. They, and parts that configs name but that
    cannot be imported, are sent to the processes. ``on``: ``"local"``, ``"ray"`` or ``"ray://HOST:PORT"``.

    Runs share the cores of this machine evenly, unless a config says how many ``workers`` it wants. On Ray each
    has one, and ``n_jobs`` of None stands for as many runs at a time as fit.

    Returns what became of each run, in the order given; those that were stopped on the way, or not begun, are left out.
    """
    following = following or Following()
    n_at_once = n_cores() if n_jobs is None else n_jobs
    found = _find_whole(configs, out, n_at_once, following.on_done)
    todo = {name: config_table(config) for name, config in configs.items() if name not in found}
    n_workers = max(1, n_cores() // max(1, min(n_at_once, len(todo)))) if on == LOCAL else 1
    brought = packed(samples, todo.values()) if todo else None
    jobs = (
        RunJob(name=name, table={"workers": n_workers, **one}, folder=out / name, brought=brought)
        for name, one in todo.items()
    )
    if on == LOCAL:
        found |= run_in_processes(jobs, n_jobs=n_at_once, following=following)
    else:
        from fielding.comparing.ray_runs import run_on_ray

        found |= run_on_ray(jobs, out, on=on, n_jobs=n_jobs, following=following)
    return {name: found[name] for name in configs if name in found}


def unfinished(names: Iterable[str], out: Path) -> list[str]:
    """Return those of some runs that are still to be done, or to be ended, by the names of their folders."""
    return [name for name in names if _read_summary(out / name) is None]


def n_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _find_whole(
    configs: Mapping[str, Config], out: Path, n_jobs: int, on_done: Callable[[Finished], None]
) -> dict[str, Finished]:
    """Return the runs that need not be done: those that are whole, or other ones than were asked for."""
    if n_jobs < 1:
        raise InputError(f"the number of runs at a time is {n_jobs}; give at least 1")
    found = {}
    for name, config in configs.items():
        summary = _read_summary(out / name)
        if summary is None:
            continue
        found[name] = Finished(name=name, summary=summary)
        try:
            check_same_config(out / name, recorded_table(config))
        except FieldingError as error:
            found[name] = Finished(name=name, summary=None, error=str(error))
    for one in found.values():
        on_done(one)
    return found


def _read_summary(folder: Path) -> dict[str, Json] | None:
    """Return the figures of a run that is whole; None if it is not, or its log holds fewer rounds than the run had."""
    found = read_json(folder / SUMMARY)
    if not found:
        return None
    n_lines, n_rounds = 0, found.get("n_rounds")
    with contextlib.suppress(OSError), (folder / ROUNDS).open("rb") as file:
        n_lines = sum(1 for _ in file)
    return None if isinstance(n_rounds, int) and n_lines < n_rounds else found


# ---------------------------------------------------------------- the parent


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """A run that is to be done: its name, its config as a table, where to, and what the caller brings along, packed."""

    name: str
    table: Mapping[str, Json]
    folder: Path
    brought: bytes | None = None


def packed(samples: Source | None, tables: Iterable[Mapping[str, Json]]) -> bytes | None:
    """Return samples and own parts that tables name, as bytes for another process; None if there are none.

    InputError if one of them cannot be sent.
    """
    parts = own_parts({text for table in tables for text in _texts(dict(table))})
    if samples is None and not parts:
        return None
    import cloudpickle  # what a notebook defines can be sent by value alone

    try:
        found: bytes = cloudpickle.dumps((samples, parts))
    except Exception as error:  # whatever an object of the user's own says to it
        names = ", ".join(sorted(parts)) or "the samples"
        raise InputError(f"{names} cannot be sent to processes of their own: {error_words(error)}") from error
    return found


def _texts(value: Json) -> Iterator[str]:
    """Yield all texts in a table."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def run_in_processes(jobs: Iterable[RunJob], *, n_jobs: int, following: Following) -> dict[str, Finished]:
    """Do some runs, or what is left of them, each in a process of its own, ``n_jobs`` at a time, in the order given.

    Returns what became of each run that ended; those that were stopped are left out. If this process is interrupted,
    the others are killed; what their runs committed is kept.
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

    job: RunJob
    process: SpawnProcess
    outcome: Mapping[str, Any] | None = None


class _Crew:
    def __init__(self, following: Following) -> None:
        self._following = following
        self.members: dict[Connection, _Member] = {}
        self.ended: dict[str, Finished] = {}
        self.is_leaving = False

    def begin(self, job: RunJob) -> None:
        # Spawned, not forked: a fork of a process with threads may hang.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        order = (theirs, dict(job.table), job.folder, self._following.beside, job.brought)
        process = context.Process(target=work, args=order, name=job.name)
        with _inherited_by_child():
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
            member = self.members[line]
            try:
                word = line.recv()
                if "phase" in word:
                    self._following.on_step(Step(name=member.job.name, **word))
                elif "note" in word:
                    self._following.on_note(Note(name=member.job.name, text=word["note"]))
                else:
                    member.outcome = word
            except (EOFError, OSError):
                self._end(line)

    def kill(self) -> None:
        for line, member in self.members.items():
            member.process.kill()
            member.process.join()
            member.process.close()
            line.close()
            _keeps_output(member.job.folder / OUTPUT)
        self.members.clear()

    def _end(self, line: Connection) -> None:
        member = self.members.pop(line)
        line.close()
        member.process.join()
        code = member.process.exitcode or 0
        member.process.close()
        has_output = _keeps_output(member.job.folder / OUTPUT)
        name, outcome = member.job.name, member.outcome
        is_stopped = outcome is not None and bool(outcome.get("is_stopped"))
        if self.is_leaving and (outcome is None or is_stopped):
            return
        if outcome is None:
            one = Finished(name=name, summary=None, error=_death_words(code, has_output))
        elif is_stopped:
            one = Finished(name=name, summary=None, error="its process was told to end (SIGTERM) by somebody else")
        else:
            one = Finished(name=name, **outcome)
        self.ended[name] = one
        self._following.on_done(one)


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


def _keeps_output(path: Path) -> bool:
    """Return whether a process printed something; if not, remove the empty file."""
    with contextlib.suppress(OSError):
        if path.stat().st_size:
            return True
        path.unlink()
    return False


@contextlib.contextmanager
def _inherited_by_child() -> Iterator[None]:
    """Let a process start with one thread for matrix products, and deaf to Ctrl-C, which the parent answers for all.

    The signal is only held back here, so that none is lost to the parent itself.
    """
    missing = [name for name in THREADS if name not in os.environ]
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")  # a new process loads that of its parent, and would run it again
    os.environ.update(dict.fromkeys(missing, "1"))
    can_mask = hasattr(signal, "pthread_sigmask")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if can_mask else set()
    try:
        yield
    finally:
        sys.modules["__main__"] = script
        if can_mask:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for name in missing:
            del os.environ[name]


# ---------------------------------------------------------------- the child


def work(
    line: Connection,
    table: Mapping[str, Json],
    folder: Path,
    beside: Beside | None = None,
    brought: bytes | None = None,
) -> None:
    """Do a run, or what is left of it, telling of it through a pipe; ``brought`` is what :func:`packed` made.

    Steps are records with ``phase``, ``n_rounds``, ``accuracy`` and ``served``; a ``note`` is what users should know.
    The last word is a ``summary``, an ``error`` with the ``traceback`` of a bug, or ``is_stopped``. SIGTERM ends the
    run with the round in hand, and so does a pipe whose other end is closed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What this process prints, and a crash of its libraries, goes to a file; if there can be none, to nowhere.
    try:
        make_private(folder)
        target = os.open(folder / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError:  # the run will tell
        target = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for number in (1, 2):
        os.dup2(target, number)
    os.close(target)
    faulthandler.enable()
    teller = _Teller(line)
    signal.signal(signal.SIGTERM, teller.ask_to_stop)
    outcome = _outcome(teller, table, folder, beside, brought)
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
    served: float | None = None
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
        if isinstance(measured := row.get("served_accuracy"), float):
            self.served = measured
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
            self.line.send(
                {"phase": self.phase, "n_rounds": n_rounds, "accuracy": self.accuracy, "served": self.served}
            )
        except OSError:  # the parent is gone, and with it all that waits for this run
            self.is_asked = True


def _outcome(
    teller: _Teller, table: Mapping[str, Json], folder: Path, beside: Beside | None, brought: bytes | None
) -> dict[str, Any]:
    watching = Watching(after_round=teller.after_round, on_phase=teller.on_phase)
    try:
        samples, parts = (None, {}) if brought is None else pickle.loads(brought)
        remember_own(parts)
        with nullcontext(watching) if beside is None else beside(folder, watching, teller.note) as watch:
            own, start = Own(samples=samples), Start(resume=True, may_change=False)
            result = run(config_from(table), folder, own=own, start=start, watch=watch, page=False)
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
    return {"is_stopped": True} if result.summary is None else {"summary": dict(result.summary)}


def bug_words(error: BaseException) -> str:
    """Return in a line what went wrong in code, and where.

    Examples
    --------
    >>> try:
    ...     {}["a"]
    ... except KeyError as error:
    ...     print(bug_words(error))
    KeyError: 'a' (<doctest fielding.comparing.sweep.bug_words[0]>, line 2)
    """
    last = traceback.extract_tb(error.__traceback__)[-1:]
    return error_words(error) + "".join(f" ({Path(one.filename).name}, line {one.lineno})" for one in last)
