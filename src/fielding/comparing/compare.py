"""Methods, or other variants of a config, on the same seeds: all runs, and what they add up to."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fielding._typing import Json
from fielding.comparing.plan import PlannedComparison, plan_comparison
from fielding.comparing.sweep import Finished, Following, Note, n_cores, sweep_in_processes, unfinished
from fielding.comparing.variants import Variants
from fielding.config.keys import Config
from fielding.errors import InputError, OutputError
from fielding.records.lock import lock_folder
from fielding.records.manifest import write_json
from fielding.records.plan import Plan, clear_failure, read_plan, write_failure, write_plan
from fielding.records.run_folder import PAGE, SUMMARY
from fielding.reporting.comparison_tables import write_tables
from fielding.reporting.report_page import read_report, write_report
from fielding.traces.sources import check_present

RESULTS = (SUMMARY, PAGE, "table.md", "table.csv", "table.tex", "runs.csv")
"""What is written when every run came to its end."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComparisonResult:
    """What a comparison gave."""

    folder: Path
    plan: Plan
    # What became of the runs, by the name of their folder; those that were stopped or not begun are missing.
    finished: Mapping[str, Finished]
    summary: Mapping[str, Json] | None  # the content of summary.json; None if the comparison was stopped
    notes: tuple[str, ...] = ()  # what users should know beside it, in lines

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
) -> ComparisonResult:
    """Run variants of a config on the same seeds and compare them.

    What is whole in the folder is not run again, what was stopped goes on, what failed is tried again. Each run has a
    process of its own: a script must call this below ``if __name__ == "__main__":``.

    Parameters
    ----------
    config, variants, seeds, out, reference, drop
        As for :func:`~fielding.comparing.plan.plan_comparison`.
    n_jobs
        How many runs at a time; as many as there are cores by default. They share the cores.
    following
        Told how the runs come along, and asked whether to go on.
    page
        Write ``report.html``.

    Raises
    ------
    InputError
        If a config cannot be run, or the folder holds something else; nothing is written then.
    """
    asked = plan_comparison(config, variants, seeds=seeds, out=out, reference=reference, drop=drop)
    return run_comparison(asked, n_jobs=n_jobs, following=following, page=page)


def run_comparison(
    asked: PlannedComparison, *, n_jobs: int | None = None, following: Following | None = None, page: bool = True
) -> ComparisonResult:
    """Run a planned comparison, as :func:`compare` does."""
    folder, plan, notes = asked.folder, asked.plan, list(asked.notes)
    n_at_once = n_cores() if n_jobs is None else n_jobs
    if n_at_once < 1:
        raise InputError(f"the number of runs at a time is {n_at_once}; give at least 1")
    to_run = unfinished(asked.configs, folder)
    # Data that are not there are told of once, not by every run.
    traces = [asked.configs[name].trace for name in to_run]
    for section in {(one.name, one.data): one for one in traces if one.file is None}.values():
        check_present(section)
    lock = lock_folder(folder)
    try:
        if read_plan(folder) != asked.stored:
            raise InputError(f"another process changed {folder}; try again")
        for name in asked.configs:
            clear_failure(folder / name)
        if plan != asked.stored or to_run:
            _clear_results(folder)
        write_plan(folder, plan)
        noting = _note_failures(folder, following or Following(), notes)
        finished = sweep_in_processes(asked.configs, folder, n_jobs=n_at_once, following=noting)
        compared = ComparisonResult(folder=folder, plan=plan, finished=finished, summary=None, notes=tuple(notes))
        if not compared.is_ended:
            return compared
        return replace(compared, summary=write_results(folder, page=page))
    finally:
        lock.close()


def _clear_results(folder: Path) -> None:
    """Remove results that are not those of the comparison any more; they come again when all runs ended.

    A page without ``summary.json`` is not ours: `fielding report` wrote it while runs were going on.
    """
    is_ours = (folder / SUMMARY).exists()
    for name in RESULTS if is_ours else [name for name in RESULTS if name != PAGE]:
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"cannot remove {folder / name}: {error.strerror or error}; remove it by hand") from error


def _note_failures(folder: Path, following: Following, notes: list[str]) -> Following:
    """Return a follower that also writes down why runs fail, and keeps what users should know."""

    def on_note(note: Note) -> None:
        notes.append(f"{note.name}: {note.text}")
        following.on_note(note)

    def on_done(one: Finished) -> None:
        following.on_done(one)  # first, since the disk may be full
        if one.error is None:
            return
        try:
            write_failure(folder / one.name, one.error, one.traceback)
        except OutputError as error:
            on_note(Note(name=one.name, text=f"why it failed is told here alone: {error}"))

    return replace(following, on_done=on_done, on_note=on_note)


def write_results(folder: Path, *, page: bool = True) -> Mapping[str, Json]:
    """Write what the runs of a comparison add up to, from their folders alone: tables, ``summary.json``, and the page.

    Returns the content of ``summary.json``.
    """
    runs, summary = read_report([folder])
    write_tables(folder, summary)
    write_json(folder / SUMMARY, summary)
    if page:
        write_report(runs, summary, folder / PAGE)
    return summary
