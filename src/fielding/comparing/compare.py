"""Methods, or other variants of a config, on the same seeds: all runs, and what they add up to."""

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fielding._typing import Json
from fielding.atomic import ScratchFolder
from fielding.comparing.plan import PlannedComparison, plan_comparison
from fielding.comparing.progress import followed
from fielding.comparing.sweep import Finished, Following, Note, sweep_in_processes, unfinished
from fielding.comparing.variants import Variants, axis_of, parse_axis
from fielding.config.keys import Config
from fielding.errors import InputError, OutputError
from fielding.ray_cluster import LOCAL, check_place
from fielding.records.lock import lock_folder
from fielding.records.manifest import read_json, write_json
from fielding.records.plan import Plan, clear_failure, read_failure, read_plan, write_failure, write_plan
from fielding.records.run_folder import PAGE, SUMMARY
from fielding.reporting.comparison_tables import named_records, write_tables
from fielding.reporting.numbers.paired import estimate_of
from fielding.reporting.progress_bar import is_seen
from fielding.reporting.report_page import read_report, write_report
from fielding.reporting.results import Results
from fielding.simulation.assembly import Own, own_from
from fielding.simulation.experiment import Result, load_result
from fielding.traces.catalog import Source
from fielding.traces.sources import check_present

RESULTS = (SUMMARY, PAGE, "table.md", "table.csv", "table.tex", "runs.csv")
"""What is written when every run came to its end."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ComparisonResult(Results):
    """What a comparison gave."""

    folder: Path
    plan: Plan
    # What became of the runs, by the name of their folder; those that were stopped or not begun are missing.
    finished: Mapping[str, Finished]
    summary: Mapping[str, Json] | None  # the content of summary.json; None if the comparison was stopped
    notes: tuple[str, ...] = ()  # what users should know beside it, in lines
    # Keeps a folder that was not named as long as it is needed.
    scratch: ScratchFolder | None = None

    def __repr__(self) -> str:
        """Return what matters in a line."""
        methods = named_records(self.summary or {}, "methods")
        finals = {name: estimate_of(one.get("final_accuracy")) for name, one in methods.items()}
        words = [f"{name} {'failed' if one is None else one.words()}" for name, one in finals.items()]
        if self.summary is None:
            words = [f"{len(self.finished)} of {len(self.plan.variants) * len(self.plan.seeds)} runs done"]
        seeds = f"{len(self.plan.seeds)} seed{'s' if len(self.plan.seeds) > 1 else ''}"
        return f"<fielding.Comparison on {seeds}: {', '.join(words)}{'' if self.scratch else f'; {self.folder}'}>"

    def runs(self) -> dict[tuple[str, int], Result]:
        """Return every run that came to its end, by the name of its variant and its seed."""
        return {
            (variant.name, seed): load_result(self.folder / name)
            for seed in self.plan.seeds
            for variant in self.plan.variants
            if (name := self.plan.folder_of(variant, seed)) in self.finished and self.finished[name].error is None
        }

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
    config: Config | Mapping[str, Any] | str | Path | None = None,
    methods: Variants | str | None = None,
    *,
    vary: Mapping[str, Iterable[Any]] | Sequence[str] = (),
    seeds: int | Iterable[int] | None = None,
    own: Own | Source | None = None,
    out: str | Path | None = None,
    reference: str | None = None,
    drop: Collection[str] = (),
    jobs: int | None = None,
    progress: bool | None = None,
    following: Following | None = None,
    page: bool = True,
    on: str = LOCAL,
    variants: Variants | str | None = None,
    n_jobs: int | None = None,
) -> ComparisonResult:
    """Run methods, or other variants of a config, on the same seeds and compare them.

    What is whole in the folder is not run again, what was stopped goes on, what failed is tried again. Each run has a
    process of its own.

    Parameters
    ----------
    config
        The base config: a config, a table of the same shape, or a TOML file; in a table, functions and classes may
        stand where a file names them as ``module:function``. None for the default of every key.
    methods
        What is compared: names of methods, classes or functions that make one; or, by a name of your choice, a method
        or settings by dotted key. The method of the base config alone by default.
    vary
        Values by dotted key, or texts such as ``"coordinator.tau=0,1/3"``: each method is run with each of them.
    seeds
        How many, from 1 on; or which. 5 by default.
    own
        A trace or a pool, or :class:`Own` with these, a model or a representation of the caller's own.
    out
        Where everything goes that `fielding compare` writes; what is there already goes on and is added to. None for a
        folder that is gone when the result is.
    reference
        The name of the variant that others are compared with; ``global`` by default, else the first.
    drop
        Names of variants that are taken out of a folder's comparison; their run folders stay.
    jobs
        How many runs at a time; as many as there are cores by default. They share the cores.
    progress
        Show how far runs are, where there is no terminal and no notebook by a line now and then on standard error;
        by default unless there is a ``following``.
    following
        Told how the runs come along, and asked whether to go on.
    page
        Write ``report.html``.
    on
        Where runs are done: ``"local"``, in processes of this machine; ``"ray"`` or ``"ray://HOST:PORT"``, on a Ray
        cluster, where each takes as many CPUs as its ``workers``, 1 by default. Results are the same.
    variants, n_jobs
        Old names of ``methods`` and ``jobs``.

    Raises
    ------
    InputError
        If a config cannot be run, or the folder holds something else; nothing is written then.
    """
    for old, new in (("variants", "methods"), ("n_jobs", "jobs")):
        if locals()[old] is not None:
            warnings.warn(f"compare({old}=...) is called {new} now", DeprecationWarning, stacklevel=2)
    methods, jobs = methods if variants is None else variants, jobs if n_jobs is None else n_jobs
    scratch = ScratchFolder() if out is None else None
    axes = [axis_of(*one) for one in vary.items()] if isinstance(vary, Mapping) else [parse_axis(one) for one in vary]
    asked = plan_comparison(
        config,
        methods,
        axes=axes,
        seeds=seeds,
        own=own_from(own),
        out=scratch.path / "comparison" if scratch else str(out),
        reference=reference,
        drop=drop,
        on=on,
    )
    is_shown = following is None if progress is None else progress
    is_unasked = progress is None and not is_seen()
    with followed(asked, quiet=not is_shown, also=following, is_unasked=is_unasked) as (shown, _):
        told = shown if is_shown or following is None else following
        compared = run_comparison(asked, n_jobs=jobs, following=told, page=page, on=on)
    return replace(compared, scratch=scratch)


def run_comparison(
    asked: PlannedComparison,
    *,
    n_jobs: int | None = None,
    following: Following | None = None,
    page: bool = True,
    on: str = LOCAL,
) -> ComparisonResult:
    """Run a planned comparison, as :func:`compare` does."""
    check_place(on)
    folder, plan, notes = asked.folder, asked.plan, list(asked.notes)
    if n_jobs is not None and n_jobs < 1:
        raise InputError(f"the number of runs at a time is {n_jobs}; give at least 1")
    to_run = unfinished(asked.configs, folder)
    # Data that are not there are told of once, not by every run.
    traces = [asked.configs[name].trace for name in to_run] if asked.own.samples is None else []
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
        finished = sweep_in_processes(
            asked.configs, folder, n_jobs=n_jobs, following=noting, samples=asked.own.samples, on=on
        )
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

    Returns the content of ``summary.json``. InputError if a file is there but cannot be read now: tables without what
    it holds would look like whole ones.
    """
    runs, summary = read_report([folder])
    for failure in (one for _, run in runs.runs for one in run.reader.failures):
        raise InputError(f"{failure}; no table is written, the same command tries again")
    write_tables(folder, summary)
    write_json(folder / SUMMARY, summary)
    if page:
        write_report(runs, summary, folder / PAGE)
    return summary


def load(folder: str | Path) -> Result | ComparisonResult:
    """Return what a run or a comparison left in its folder, as :func:`~fielding.run` and :func:`compare` return it."""
    folder = Path(folder)
    plan = read_plan(folder)
    if plan is None:
        return load_result(folder)
    finished = {}
    for name in [plan.folder_of(variant, seed) for seed in plan.seeds for variant in plan.variants]:
        error = read_failure(folder / name)
        summary = read_json(folder / name / SUMMARY)
        if error is not None or summary:
            finished[name] = Finished(name=name, summary=summary or None, error=error)
    return ComparisonResult(folder=folder, plan=plan, finished=finished, summary=read_json(folder / SUMMARY) or None)
