"""Many runs, some at a time, each in a process of its own; what is done already is not done again."""

import json
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from fielding._typing import Json
from fielding.engine.config import Config
from fielding.engine.config_reader import config_from, config_table
from fielding.errors import FieldingError, InputError
from fielding.records.run_folder import SUMMARY, check_same_config
from fielding.simulation.experiment import Start, run
from fielding.simulation.provenance import FREE


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run of a sweep that came to its end.

    Parameters
    ----------
    name
        Of the run, and of its folder.
    summary
        Its figures; None if it failed.
    error
        Why it failed, in a line.
    """

    name: str
    summary: Mapping[str, Json] | None
    error: str | None = None


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
        How many runs at a time; each trains on one thread if there are several.
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
    if n_jobs < 1:
        raise InputError(f"the number of runs at a time is {n_jobs}; give at least 1")
    tables = {name: config_table(config) for name, config in configs.items()}
    found: dict[str, Finished] = {}
    todo = dict(tables)
    for name in tables:
        if (summary := _summary_of(out / name)) is not None:
            found[name] = _checked(name, summary, tables[name], out)
            on_done(found[name])
            del todo[name]
    for one in _here(todo, out) if n_jobs == 1 else _elsewhere(todo, out, n_jobs):
        found[one.name] = one
        on_done(one)
    return {name: found[name] for name in tables}


def _here(todo: Mapping[str, Mapping[str, Json]], out: Path) -> Iterator[Finished]:
    for name, table in todo.items():
        yield _run_one(name, table, out, None)


def _elsewhere(todo: Mapping[str, Mapping[str, Json]], out: Path, n_jobs: int) -> Iterator[Finished]:
    """Yield runs as they are done in other processes; if this one is interrupted, theirs end with it."""
    # Spawned, not forked: a fork of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(n_jobs, mp_context=context, initializer=_ignore_interrupts)
    try:
        left: set[Future[Finished]] = {pool.submit(_run_one, name, table, out, 1) for name, table in todo.items()}
        while left:
            done, left = wait(left, return_when=FIRST_COMPLETED)
            yield from (one.result() for one in done)
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()  # the run is resumable: nothing that is committed is lost
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent, which ends its children in order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_one(name: str, table: Mapping[str, Json], out: Path, n_workers: int | None) -> Finished:
    own = dict(table) if n_workers is None else {**table, "workers": n_workers}
    try:
        result = run(config_from(own), out / name, start=Start(resume=True), page=False)
    except FieldingError as error:
        return Finished(name=name, summary=None, error=str(error))
    return Finished(name=name, summary=result.summary)


def _checked(name: str, summary: Mapping[str, Json], table: Mapping[str, Json], out: Path) -> Finished:
    """Return a run that is whole, or that it is another one than was asked for."""
    settled = {key: value for key, value in table.items() if key not in FREE}
    try:
        check_same_config(out / name, settled, resume=False)
    except FieldingError as error:
        return Finished(name=name, summary=None, error=str(error))
    return Finished(name=name, summary=summary)


def _summary_of(folder: Path) -> dict[str, Json] | None:
    """Return the figures of a run that is whole; None if it is not."""
    try:
        found = json.loads((folder / SUMMARY).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
