"""Methods, or other variants of a config, on the same seeds: all runs, and what they add up to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fielding._typing import Json
from fielding.engine.config import Config
from fielding.errors import InputError
from fielding.records.lock import locked_folder
from fielding.records.manifest import write_json
from fielding.records.plan import Plan, Variant, clear_failure, read_plan, write_failure, write_plan
from fielding.records.run_folder import PAGE, SUMMARY
from fielding.reporting.comparison_tables import written_tables
from fielding.reporting.report_page import read_report, written_report
from fielding.simulation.comparison_plan import Comparison, planned
from fielding.simulation.sweep import Finished, Following, n_cores, swept
from fielding.simulation.variants import Settings


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compared:
    """What a comparison gave.

    Parameters
    ----------
    folder
        Where everything is.
    plan
        What belongs to the comparison.
    finished
        What became of the runs, by the name of their folder; those that were stopped or not begun are missing.
    summary
        The content of ``summary.json``; None if the comparison was stopped.
    """

    folder: Path
    plan: Plan
    finished: Mapping[str, Finished]
    summary: Mapping[str, Json] | None

    @property
    def failures(self) -> dict[str, str]:
        """Why runs failed, by the name of their folder."""
        return {name: one.error for name, one in self.finished.items() if one.error is not None}

    @property
    def is_ended(self) -> bool:
        """Whether every run came to its end, good or bad."""
        return len(self.finished) == len(self.plan.variants) * len(self.plan.seeds)


def compare(  # noqa: PLR0913 - all but the config and the folder have a default
    config: Config | Mapping[str, Any] | str | Path,
    variants: Sequence[Variant] | Mapping[str, Settings] | None = None,
    *,
    seeds: int | Sequence[int] = 5,
    out: str | Path,
    reference: str | None = None,
    n_jobs: int | None = None,
    following: Following | None = None,
    page: bool = True,
) -> Compared:
    """Run variants of a config on the same seeds and compare them.

    What is whole in the folder is not run again, what was stopped goes on, what failed is tried again. Each run has a
    process of its own: a script must call this below ``if __name__ == "__main__":``.

    Parameters
    ----------
    config, variants, seeds, out, reference
        As for :func:`~fielding.simulation.comparison_plan.planned`.
    n_jobs
        How many runs at a time; as many as there are cores by default. They share the cores.
    following
        Who is told how the runs come along, and asked whether to go on.
    page
        Write ``report.html``.

    Raises
    ------
    InputError
        If a config cannot be run, or the folder holds something else; nothing is written then.
    """
    asked = planned(config, variants, seeds=seeds, out=out, reference=reference)
    return carried_out(asked, n_jobs=n_jobs, following=following, page=page)


def carried_out(
    asked: Comparison, *, n_jobs: int | None = None, following: Following | None = None, page: bool = True
) -> Compared:
    """Run a planned comparison, as :func:`compare` does."""
    folder, plan = asked.folder, asked.plan
    n_at_once = n_cores() if n_jobs is None else n_jobs
    if n_at_once < 1:
        raise InputError(f"the number of runs at a time is {n_at_once}; give at least 1")
    lock = locked_folder(folder)
    try:
        if read_plan(folder) != asked.stored:
            raise InputError(f"another process changed {folder}; try again")
        write_plan(folder, plan)
        for name in asked.configs:
            clear_failure(folder / name)
        finished = swept(asked.configs, folder, n_jobs=n_at_once, following=_noting(folder, following))
        compared = Compared(folder=folder, plan=plan, finished=finished, summary=None)
        if not compared.is_ended:
            return compared
        return replace(compared, summary=written_results(folder, page=page))
    finally:
        lock.close()


def _noting(folder: Path, following: Following | None) -> Following:
    """Return a follower that also writes down why runs fail."""
    told = following or Following()

    def on_done(one: Finished) -> None:
        if one.error is not None:
            write_failure(folder / one.name, one.error, one.traceback)
        told.on_done(one)

    return replace(told, on_done=on_done)


def written_results(folder: Path, *, page: bool = True) -> Mapping[str, Json]:
    """Write what the runs of a comparison add up to, from their folders alone: tables, ``summary.json``, and the page.

    Returns
    -------
    The content of ``summary.json``.
    """
    report = read_report([folder])
    written_tables(folder, report.summary)
    write_json(folder / SUMMARY, report.summary)
    if page:
        written_report(report, folder / PAGE)
    return report.summary
