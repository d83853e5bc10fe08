"""Tasks that give figures: each done once, some at a time, and kept as a JSON file with what was asked for."""

import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from fielding._typing import Json
from fielding.atomic import replaced_file

Table = dict[str, Json]
Work = Callable[[Table], Table]
"""From what is asked for to figures; a function of a module, so that other processes can be given it."""


def collected(work: Work, tasks: Mapping[str, Table], out: Path, *, n_jobs: int = 1) -> dict[str, Table]:
    """Return the figures of all tasks; those that are kept in ``out`` for the same question are not computed again.

    Parameters
    ----------
    work
        Answers a task.
    tasks
        What is asked for, by the name of the file.
    out
        Where figures are kept.
    n_jobs
        How many tasks at a time, each in a process of its own if there are several.
    """
    out.mkdir(parents=True, exist_ok=True)
    found = {name: kept for name, task in tasks.items() if (kept := _kept(out / f"{name}.json", task)) is not None}
    todo = {name: task for name, task in tasks.items() if name not in found}
    begun = time.monotonic()
    for name, figures in _here(work, todo) if n_jobs == 1 else _elsewhere(work, todo, n_jobs):
        found[name] = figures
        with replaced_file(out / f"{name}.json") as file:
            file.write(json.dumps({"task": tasks[name], "found": figures}).encode())
        minutes = (time.monotonic() - begun) / 60
        print(f"{len(found)}/{len(tasks)} {name} ({minutes:.1f} min)", file=sys.stderr, flush=True)
    return {name: found[name] for name in tasks}


def _kept(path: Path, task: Table) -> Table | None:
    """Return the figures in a file; None if there are none, or they answer another question."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    is_same = isinstance(record, dict) and record.get("task") == json.loads(json.dumps(task))
    return record["found"] if is_same else None


def _here(work: Work, todo: Mapping[str, Table]) -> Iterator[tuple[str, Table]]:
    for name, task in todo.items():
        yield name, work(task)


def _elsewhere(work: Work, todo: Mapping[str, Table], n_jobs: int) -> Iterator[tuple[str, Table]]:
    # Spawned, not forked: a fork of a process with threads may hang.
    with ProcessPoolExecutor(n_jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        names = {pool.submit(work, task): name for name, task in todo.items()}
        try:
            for done in as_completed(names):
                yield names[done], done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
