"""Runs in processes of their own, one thread each, with the seconds that each took; what is done is not done again."""

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

from fielding._typing import Json
from fielding.comparing.sweep import Finished, sweep
from fielding.config.keys import Config
from fielding.config.reader import config_from, config_table
from fielding.errors import FieldingError
from fielding.records.changes import FREE
from fielding.records.manifest import write_json
from fielding.records.run_folder import SUMMARY, check_same_config

WALLS = "walls"
"""Folder beside the runs of a scenario with the wall-clock seconds of each; logs of runs know no clock."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What tells numpy's libraries how many threads to take."""


def run_all(
    configs: Mapping[str, Config], out: Path, *, n_jobs: int, on_done: Callable[[Finished], None]
) -> dict[str, Finished]:
    """Do what is left of some runs, some at a time.

    Parameters
    ----------
    configs
        By ``scenario/folder`` in ``out``.
    out
        Where to. A run that is whole there is not done again, one that was stopped goes on.
    n_jobs
        Processes.
    on_done
        Told of every run, as soon as it is done.
    """
    found = {name: one for name, config in configs.items() if (one := stored_run(name, config, out)) is not None}
    for one in found.values():
        on_done(one)
    todo = {name: config_table(config) for name, config in configs.items() if name not in found}
    for one in _elsewhere(todo, out, n_jobs):
        found[one.name] = one
        on_done(one)
    return {name: found[name] for name in configs}


def stored_run(name: str, config: Config, out: Path) -> Finished | None:
    """Return a run that is whole; one of another config is a failure, and None stands for none."""
    try:
        summary = json.loads((out / name / SUMMARY).read_text())
    except (OSError, ValueError):
        return None
    table = {key: value for key, value in config_table(config).items() if key not in FREE}
    try:
        check_same_config(out / name, table)
    except FieldingError as error:
        return Finished(name=name, summary=None, error=str(error))
    return Finished(name=name, summary=summary)


def timed_run(name: str, table: Mapping[str, Json], out: Path) -> Finished:
    """Do a run, or what is left of it, and write down how long it took."""
    is_whole = not (out / name).exists()
    begun = time.perf_counter()
    done = sweep({name: config_from(table)}, out)[name]
    if done.error is None:
        path = wall_file(out, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"seconds": round(time.perf_counter() - begun, 2), "is_whole": is_whole})
    return done


def wall_file(out: Path, name: str) -> Path:
    """Return where the seconds of a run are."""
    return (out / name).parent / WALLS / f"{Path(name).name}.json"


def wall_seconds(out: Path, name: str) -> float | None:
    """Return how long a run took; None if nobody knows, or it was stopped on the way."""
    try:
        wall = json.loads(wall_file(out, name).read_text())
    except (OSError, ValueError):
        return None
    return float(wall["seconds"]) if wall["is_whole"] else None


def _elsewhere(todo: Mapping[str, Mapping[str, Json]], out: Path, n_jobs: int) -> Iterator[Finished]:
    """Yield runs as they are done in other processes; if this one is interrupted, theirs end with it."""
    if not todo:
        return
    os.environ.update(
        dict.fromkeys(THREADS, "1")
    )  # read when a process loads numpy: for the children, not for this one
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(n_jobs, mp_context=context, initializer=_ignore_interrupts)
    try:
        left: set[Future[Finished]] = {pool.submit(timed_run, name, table, out) for name, table in todo.items()}
        while left:
            done, left = wait(left, return_when=FIRST_COMPLETED)
            yield from (one.result() for one in done)
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()  # runs are resumable: nothing that is committed is lost
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent, which ends its children in order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
