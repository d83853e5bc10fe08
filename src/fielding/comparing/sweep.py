"""Many runs, some at a time, each in a process of its own; what is done already is not done again."""

import json
import os
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fielding._typing import Json
from fielding.comparing.processes import Finished, Following, Job, Note, Step, bug_words, run_in_processes
from fielding.config.keys import Config
from fielding.config.reader import config_table
from fielding.errors import FieldingError, InputError
from fielding.records.run_folder import ROUNDS, SUMMARY, check_same_config
from fielding.simulation.experiment import FREE, Start, run

__all__ = ["Finished", "Following", "Note", "Step", "n_cores", "sweep", "swept", "unfinished"]


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
        return swept(configs, out, n_jobs=n_jobs, following=Following(on_done=on_done))
    found = _told_whole(configs, out, n_jobs, on_done)
    for name, config in configs.items():
        if name not in found:
            found[name] = _run_here(name, config, out)
            on_done(found[name])
    return {name: found[name] for name in configs}


def swept(
    configs: Mapping[str, Config], out: Path, *, n_jobs: int, following: Following | None = None
) -> dict[str, Finished]:
    """Do some runs as :func:`sweep` does, always in processes of their own, so that even a killed one fails alone.

    A script that calls this must do so below ``if __name__ == "__main__":``, as the new processes load it.

    Parameters
    ----------
    configs, out, n_jobs
        As for :func:`sweep`. Runs share the cores evenly, unless a config says how many ``workers`` it wants.
    following
        Who is told how the runs come along, and asked whether to go on.

    Returns
    -------
    What became of each run, in the order given; those that were stopped on the way, or not begun, are left out.

    Raises
    ------
    InputError
        If ``n_jobs`` is less than 1.
    """
    told = following or Following()
    found = _told_whole(configs, out, n_jobs, told.on_done)
    todo = {name: config_table(config) for name, config in configs.items() if name not in found}
    n_workers = max(1, n_cores() // max(1, min(n_jobs, len(todo))))
    jobs = (Job(name=name, table={"workers": n_workers, **one}, folder=out / name) for name, one in todo.items())
    found |= run_in_processes(jobs, n_jobs=n_jobs, following=told)
    return {name: found[name] for name in configs if name in found}


def unfinished(names: Iterable[str], out: Path) -> list[str]:
    """Return those of some runs that are still to be done, or to be ended, by the names of their folders."""
    return [name for name in names if _summary_of(out / name) is None]


def n_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _told_whole(
    configs: Mapping[str, Config], out: Path, n_jobs: int, on_done: Callable[[Finished], None]
) -> dict[str, Finished]:
    """Return the runs that need not be done, each told of."""
    if n_jobs < 1:
        raise InputError(f"the number of runs at a time is {n_jobs}; give at least 1")
    found = {name: one for name, config in configs.items() if (one := _whole(name, config, out)) is not None}
    for one in found.values():
        on_done(one)
    return found


def _run_here(name: str, config: Config, out: Path) -> Finished:
    try:
        result = run(config, out / name, start=Start(resume=True), page=False)
    except FieldingError as error:
        return Finished(name=name, summary=None, error=str(error))
    except Exception as error:  # a bug, perhaps in a method of the user's own
        return Finished(name=name, summary=None, error=bug_words(error), traceback=traceback.format_exc())
    return Finished(name=name, summary=result.summary)


def _whole(name: str, config: Config, out: Path) -> Finished | None:
    """Return a run that is whole, or that it is another one than was asked for; None if it is still to be done."""
    summary = _summary_of(out / name)
    if summary is None:
        return None
    settled = {key: value for key, value in config_table(config).items() if key not in FREE}
    try:
        check_same_config(out / name, settled, resume=False)
    except FieldingError as error:
        return Finished(name=name, summary=None, error=str(error))
    return Finished(name=name, summary=summary)


def _summary_of(folder: Path) -> dict[str, Json] | None:
    """Return the figures of a run that is whole; None if it is not."""
    try:
        found = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and not _is_cut_off(folder, found) else None


def _is_cut_off(folder: Path, summary: Mapping[str, Json]) -> bool:
    """Return whether a run's log holds fewer rounds than the run had."""
    n_rounds = summary.get("n_rounds")
    try:
        with (folder / ROUNDS).open("rb") as file:
            n_lines = sum(1 for _ in file)
    except OSError:
        n_lines = 0
    return isinstance(n_rounds, int) and n_lines < n_rounds
