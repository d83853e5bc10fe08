"""Methods, or other variants of a config, on the same seeds: all runs, and what they add up to."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fielding._typing import Json
from fielding.comparing.plan import Comparison, planned
from fielding.comparing.sweep import Finished, Following, Note, n_cores, swept, unfinished
from fielding.comparing.variants import Variants
from fielding.config.keys import Config
from fielding.errors import InputError, OutputError
from fielding.records.lock import locked_folder
from fielding.records.manifest import write_json
from fielding.records.plan import Plan, clear_failure, read_plan, write_failure, write_plan
from fielding.records.run_folder import PAGE, SUMMARY
from fielding.reporting.comparison_tables import written_tables
from fielding.reporting.report_page import read_report, written_report
from fielding.traces.sources import check_present

RESULTS = (SUMMARY, PAGE, "table.md", "table.csv", "table.tex", "runs.csv")
"""What is written when every run came to its end."""


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
    notes
        What users should know beside it, in lines.
    """

    folder: Path
    plan: Plan
    finished: Mapping[str, Finished]
    summary: Mapping[str, Json] | None
    notes: tuple[str, ...] = ()

    @property
    def failures(self) -> dict[str, str]:
        """Why runs failed, or do not count because they are on other data, by the name of their folder."""
        refused = (self.summary or {}).get("failed")
        found = {
            self.plan.folder_of(self.plan.variant_named(str(one["method"])), int(str(one["seed"]))): str(one["error"])
            for one in (refused if isinstance(refused, list) else ())
            if isinstance(one, dict) and isinstance(one.get("seed"), int)
        }
        return found | {name: one.error for name, one in self.finished.items() if one.error is not None}

    @property
    def is_ended(self) -> bool:
        """Whether every run came to its end, good or bad."""
        return len(self.finished) == len(self.plan.variants) * len(self.plan.seeds)


def compare(
    config: Config | Mapping[str, Any] | str | Path,
    variants: Variants | str | None = None,
    *,
    seeds: int | Iterable[int] | None = None,
    out: str | Path,
    reference: str | None = None,
    drop: Collection[str] = (),
    n_jobs: int | None = None,
    following: Following | None = None,
    page: bool = True,
) -> Compared:
    """Run variants of a config on the same seeds and compare them.

    What is whole in the folder is not run again, what was stopped goes on, what failed is tried again. Each run has a
    process of its own: a script must call this below ``if __name__ == "__main__":``.

    Parameters
    ----------
    config, variants, seeds, out, reference, drop
        As for :func:`~fielding.comparing.plan.planned`.
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
    asked = planned(config, variants, seeds=seeds, out=out, reference=reference, drop=drop)
    return carried_out(asked, n_jobs=n_jobs, following=following, page=page)


def carried_out(
    asked: Comparison, *, n_jobs: int | None = None, following: Following | None = None, page: bool = True
) -> Compared:
    """Run a planned comparison, as :func:`compare` does."""
    folder, plan, notes = asked.folder, asked.plan, list(asked.notes)
    n_at_once = n_cores() if n_jobs is None else n_jobs
    if n_at_once < 1:
        raise InputError(f"the number of runs at a time is {n_at_once}; give at least 1")
    to_run = unfinished(asked.configs, folder)
    _check_present([asked.configs[name] for name in to_run])
    lock = locked_folder(folder)
    try:
        if read_plan(folder) != asked.stored:
            raise InputError(f"another process changed {folder}; try again")
        for name in asked.configs:
            clear_failure(folder / name)
        if plan != asked.stored or to_run:
            _clear_results(folder)
        write_plan(folder, plan)
        told = _noting(folder, following or Following(), notes)
        finished = swept(asked.configs, folder, n_jobs=n_at_once, following=told)
        compared = Compared(folder=folder, plan=plan, finished=finished, summary=None, notes=tuple(notes))
        if not compared.is_ended:
            return compared
        return replace(compared, summary=written_results(folder, page=page))
    finally:
        lock.close()


def _check_present(configs: Iterable[Config]) -> None:
    """Raise if data that a run needs are not there, which would else be told once for every run."""
    sections = {(one.trace.name, one.trace.data): one.trace for one in configs if one.trace.file is None}
    for section in sections.values():
        check_present(section)


def _clear_results(folder: Path) -> None:
    """Remove results that are not those of the comparison any more; they come again when all runs ended.

    A page without ``summary.json`` is not ours: somebody wrote it with `fielding report` while runs were going on.
    """
    is_ours = (folder / SUMMARY).exists()
    for name in RESULTS if is_ours else [name for name in RESULTS if name != PAGE]:
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"cannot remove {folder / name}: {error.strerror or error}; remove it by hand") from error


def _noting(folder: Path, told: Following, notes: list[str]) -> Following:
    """Return a follower that also writes down why runs fail, and keeps what users should know."""

    def on_note(note: Note) -> None:
        notes.append(f"{note.name}: {note.text}")
        told.on_note(note)

    def on_done(one: Finished) -> None:
        told.on_done(one)  # first, since the disk may be full
        if one.error is None:
            return
        try:
            write_failure(folder / one.name, one.error, one.traceback)
        except OutputError as error:
            on_note(Note(name=one.name, text=f"why it failed is told here alone: {error}"))

    return replace(told, on_done=on_done, on_note=on_note)


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
