"""`fielding compare`: methods, or other variants of a config, on the same seeds."""

import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from fielding.cli.completion import complete_keys, complete_methods
from fielding.cli.console import at_intervals, note_down, say, say_json, say_wide_table, tell
from fielding.cli.options import JsonOutput, Quiet, StopRequest, stop_on_signal
from fielding.cli.run import Overrides, Tracks, as_options, explained
from fielding.errors import InputError, OptionError
from fielding.records.run_folder import PAGE, SUMMARY
from fielding.reporting.comparison_tables import named_records, printable
from fielding.reporting.formatting import as_time, score_words
from fielding.reporting.numbers.paired import estimate_of

if TYPE_CHECKING:
    from fielding.comparing.compare import ComparisonResult
    from fielding.comparing.plan import PlannedComparison
    from fielding.comparing.sweep import Finished, Note, Step

_EXPLAINED = ("worst_decile", "final_accuracy_corrected", "final_accuracy_tuned")
"""Figures of the table whose names say too little."""
BaseConfig = Annotated[Path, typer.Argument(help="The base config, a TOML file; docs/config.md lists all keys.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the results; started again, it goes on there.")]
Methods = Annotated[
    str | None,
    typer.Option(
        help="Methods, separated by commas (`fielding methods`); the config's by default.",
        autocompletion=complete_methods,
    ),
]
Seeds = Annotated[int | None, typer.Option(help="How many seeds, 5 by default; every method runs on each.")]
FirstSeed = Annotated[int, typer.Option(help="The first of them.")]
Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="KEY=V1,V2,...",
        help="Compare values of a key of the config; may be repeated.",
        autocompletion=complete_keys,
    ),
]
Reference = Annotated[
    str | None, typer.Option(help="The method that others are compared with; global by default, else the first.")
]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="NAME", help="Take a variant out; its run folders stay. May be repeated."),
]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Runs at a time; all cores by default.")]
WantsPage = Annotated[bool, typer.Option("--page/--no-page", help="Write report.html.")]


def compare_command(
    config: BaseConfig,
    out: Out,
    methods: Methods = None,
    seeds: Seeds = None,
    first_seed: FirstSeed = 1,
    vary: Vary = None,
    changes: Overrides = None,
    reference: Reference = None,
    drop: Drop = None,
    jobs: Jobs = None,
    track: Tracks = None,
    page: WantsPage = True,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Run methods on the same seeds, each run in a process of its own, and compare them.

    Writes a folder per run, compare.json (what belongs to the comparison), summary.json, table.md, table.csv,
    table.tex, runs.csv and report.html. What is done is not done again, what was stopped goes on, what failed is tried
    again; methods, seeds and values may be added later, and taken out. A run that fails does not stop the others.
    """
    from fielding.comparing.plan import DEFAULT_SEEDS, base_table, parse_seeds, plan_comparison
    from fielding.comparing.variants import cross_variants, parse_axis
    from fielding.methods import plain_name

    sys.path.insert(0, str(Path.cwd()))  # for methods and functions of the user's own
    if jobs is not None and jobs < 1:
        raise OptionError(f"--jobs is {jobs}; give at least 1")
    if first_seed < 0:
        raise OptionError(f"--first-seed is {first_seed}; give 0 or more")
    chosen = None
    if seeds is not None or first_seed != 1:
        chosen = [first_seed + at - 1 for at in parse_seeds(DEFAULT_SEEDS if seeds is None else seeds)]
    try:
        table, variants = base_table(config, changes or ()), None
        names = [] if methods is None else [plain_name(name.strip()) for name in methods.split(",")]
        if names or vary:
            variants = cross_variants(table, names, [parse_axis(one) for one in vary or ()])
        compared_with = None if reference is None else plain_name(reference)
        planned = plan_comparison(table, variants, seeds=chosen, out=out, reference=compared_with, drop=drop or ())
        compared, stop = run_with_progress(planned, jobs, page=page, quiet=quiet, track=tuple(track or ()))
    except InputError as error:
        raise InputError(as_options(str(error))) from None
    if compared is None or not compared.is_ended:
        again = shlex.join(["fielding", *sys.argv[1:]])
        tell(f"stopped; what was committed is kept, go on with the same command: {again}")
        raise typer.Exit(stop.exit_code)
    say_comparison(compared, page=page, as_json=as_json, quiet=quiet)


def say_comparison(compared: "ComparisonResult", *, page: bool, as_json: bool, quiet: bool) -> None:
    """Print what a comparison gave, the page only if it was written, and exit with 1 if runs failed."""
    from fielding.reporting.comparison_tables import comparison_table, table_words

    summary, folder = compared.summary, compared.folder
    if as_json:
        say_json(summary)
    elif not quiet and summary is not None:
        say_wide_table(comparison_table(summary))
        say(table_words(summary))
        methods = named_records(summary, "methods").values()
        if words := explained([name for name in _EXPLAINED if any(estimate_of(one.get(name)) for one in methods)]):
            say(words)
        say(f"results: {folder} (summary.json, table.md, table.csv, table.tex, runs.csv)")
        if page:
            say(f"page:    {folder / PAGE}")
    if failures := compared.failures:
        note_down(f"{len(failures)} of {len(compared.finished)} runs failed; the same command tries them again:")
        for name, error in failures.items():
            tell(printable(f"{folder / name}: {error}"))
        raise typer.Exit(1)


def run_with_progress(
    planned: "PlannedComparison", jobs: int | None, *, page: bool, quiet: bool, track: tuple[str, ...] = ()
) -> tuple["ComparisonResult | None", StopRequest]:
    """Run a comparison with a progress display; None if it was stopped at once."""
    from fielding.comparing.compare import run_comparison
    from fielding.comparing.sweep import Following
    from fielding.tracking import TrackedBy, places, tracked, trackers_from

    plan = planned.plan
    trackers = trackers_from(track)  # what is wrong with them is told before anything runs
    for words in () if quiet else places(trackers, planned.folder):
        tell(words)
    for name in planned.configs if track else ():
        # Runs that were complete before are tracked here, those to come by their own processes.
        if (planned.folder / name / SUMMARY).exists():
            with tracked(planned.folder / name, trackers_from(track), note=note_down):
                pass
    for words in planned.notes:
        note_down(printable(words))
    pairs = [(variant, seed) for variant in plan.variants for seed in plan.seeds]
    labels = {plan.folder_of(variant, seed): f"{variant.name}, seed {seed}" for variant, seed in pairs}
    tally = ProgressTally({name: config.rounds for name, config in planned.configs.items()}, labels)
    with stop_on_signal("round") as stop, comparison_progress(tally, quiet=quiet) as display:

        def is_stopped() -> bool:
            display.tick()
            return stop.received is not None

        following = Following(
            on_step=tally.step,
            on_done=display.finish,
            on_note=display.note,
            is_stopped=is_stopped,
            beside=TrackedBy(track) if track else None,
        )
        try:
            compared = run_comparison(planned, n_jobs=jobs, following=following, page=page)
        except KeyboardInterrupt:
            compared = None
    for words in tally.repeated():
        note_down(words)
    if tally.n_before and not quiet:
        tell(f"{tally.n_before} of {len(planned.configs)} runs were done before")
    return compared, stop


# ---------------------------------------------------------------- progress


@dataclass(slots=True, kw_only=True, eq=False)
class _Run:
    """How far one run is: rounds ``done``, how many of them ``before`` this start, and when its first one began."""

    label: str
    n_rounds: int
    done: int = 0
    before: int | None = None
    since_s: float = 0.0
    accuracy: float | None = None
    phase: str = ""
    outcome: str = ""

    @property
    def trained(self) -> int:
        return self.done - (self.before or 0)


class ProgressTally:
    """Keeps how far all runs are, and puts it in words; runs have a number of rounds and a label by their names."""

    def __init__(
        self, n_rounds: Mapping[str, int], labels: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._runs = {name: _Run(label=labels[name], n_rounds=total) for name, total in n_rounds.items()}
        self._clock = clock
        self._since_s: float | None = None
        self._n_noted: Counter[str] = Counter()
        self.n_before = 0

    def step(self, step: "Step") -> None:
        """Note how far a run is."""
        run, now = self._runs[step.name], self._clock()
        run.phase = step.phase
        if self._since_s is None:
            self._since_s = now
        if step.n_rounds and run.before is None:  # the first round since it was begun; earlier ones were fast
            run.before, run.since_s = step.n_rounds - 1, now
        run.done = max(run.done, step.n_rounds)
        run.accuracy = run.accuracy if step.accuracy is None else step.accuracy

    def finish(self, one: "Finished") -> str:
        """Note that a run ended, and return a line about it; nothing about one that was whole before."""
        run = self._runs[one.name]
        is_old = not run.phase and one.error is None
        self.n_before += is_old
        run.outcome = "done" if one.error is None else "failed"
        if is_old:
            return ""
        if one.error is not None:
            return printable(f"{run.label}: failed: {one.error}")
        summary = one.summary or {}
        words = score_words({name.removeprefix("final_"): value for name, value in summary.items()})
        return f"{run.label}: done{f', final {words}' if words else ''}"

    def note(self, note: "Note") -> str:
        """Return a line about what users should know of a run; nothing if the same was told of another."""
        text = printable(note.text)
        self._n_noted[text] += 1
        return printable(f"{self._runs[note.name].label}: {text}") if self._n_noted[text] == 1 else ""

    def repeated(self) -> list[str]:
        """Return lines about what was told of one run and is true of others."""
        counts = {text: n_runs - 1 for text, n_runs in self._n_noted.items() if n_runs > 1}
        return [f"the same of {n} more run{'s' if n > 1 else ''}: {text}" for text, n in counts.items()]

    @property
    def running(self) -> list[str]:
        """Names of the runs that go on."""
        return [name for name, run in self._runs.items() if run.phase and not run.outcome]

    def place(self, name: str) -> tuple[int, int]:
        """Return how many rounds of how many a run has done."""
        return self._runs[name].done, self._runs[name].n_rounds

    def overall(self) -> tuple[int, int]:
        """Return how many rounds of how many are done or not needed any more, over all runs."""
        done = sum(run.n_rounds if run.outcome else run.done for run in self._runs.values())
        return done, sum(run.n_rounds for run in self._runs.values())

    def words(self, name: str) -> str:
        """Return a line about a run that goes on."""
        run = self._runs[name]
        if not run.done:
            return f"{run.label}: {run.phase}"
        accuracy = "" if run.accuracy is None else f", accuracy {run.accuracy:.3f}"
        left = _left(run.n_rounds - run.done, run.trained - 1, self._clock() - run.since_s)
        return f"{run.label}: round {run.done} of {run.n_rounds}{accuracy}{left}"

    def overall_words(self) -> str:
        """Return a line about all runs."""
        outcomes = [run.outcome for run in self._runs.values()]
        n_failed = outcomes.count("failed")
        failed = f", {n_failed} failed" if n_failed else ""
        trained = sum(run.trained for run in self._runs.values())
        done, total = self.overall()
        since_s = self._clock() if self._since_s is None else self._since_s
        left = _left(total - done, trained, self._clock() - since_s) if not all(outcomes) else ", writing results"
        return f"{outcomes.count('done')} of {len(outcomes)} runs done{failed}{left}"


def _left(n_left: int, n_done: int, seconds: float) -> str:
    """Return the time that is left if rounds go on as they did; nothing while that cannot be told.

    Examples
    --------
    >>> _left(30, 10, 5.0), _left(30, 0, 5.0)
    (', 0m15s left', '')
    """
    return f", {as_time(seconds / n_done * n_left)} left" if n_done > 0 and seconds > 0 and n_left else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    """What shows the progress: ``finish`` and ``note`` are told what happens, ``tick`` is called often."""

    finish: Callable[["Finished"], None]
    note: Callable[["Note"], None]
    tick: Callable[[], None]


@contextmanager
def comparison_progress(tally: ProgressTally, *, quiet: bool) -> Iterator[Display]:
    """Show how far runs are: bars on a terminal, a line now and then elsewhere, only failures if quiet."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield _show_in_lines(tally, quiet=quiet)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=20))
    with Progress(*columns, console=console, transient=True) as progress:
        yield _show_in_bars(tally, progress)


def _show_in_lines(tally: ProgressTally, *, quiet: bool) -> Display:
    tell_sometimes = at_intervals(tell)

    def finish(one: "Finished") -> None:
        line = tally.finish(one)
        if line and (not quiet or one.error is not None):
            tell(line)

    def note(one: "Note") -> None:
        if line := tally.note(one):
            note_down(line)

    def tick() -> None:
        if not quiet:
            tell_sometimes("; ".join([tally.overall_words(), *map(tally.words, tally.running)]))

    return Display(finish=finish, note=note, tick=tick)


def _show_in_bars(tally: ProgressTally, progress: Progress) -> Display:
    overall = progress.add_task(tally.overall_words())
    tasks: dict[str, TaskID] = {}

    def say_above(line: str) -> None:
        if line:
            progress.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def finish(one: "Finished") -> None:
        say_above(tally.finish(one))
        tick()

    def note(one: "Note") -> None:
        line = tally.note(one)
        say_above(line and f"note: {line}")

    def tick() -> None:
        running = tally.running  # a bar for every run that goes on, and for no other
        for name in [name for name in tasks if name not in running]:
            progress.remove_task(tasks.pop(name))
        for name in running:
            done, total = tally.place(name)
            if name not in tasks:
                tasks[name] = progress.add_task("", total=total)
            progress.update(tasks[name], description=tally.words(name), completed=done)
        done, total = tally.overall()
        progress.update(overall, description=tally.overall_words(), completed=done, total=total)

    return Display(finish=finish, note=note, tick=tick)
