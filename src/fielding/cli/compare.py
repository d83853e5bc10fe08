"""`fielding compare`: methods, or other variants of a config, on the same seeds."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fielding._typing import Json
from fielding.cli.comparison_progress import Tally, comparison_progress
from fielding.cli.console import note_down, say, say_json, say_wide_table, tell
from fielding.cli.explaining import explained
from fielding.cli.options import JsonOutput, Quiet
from fielding.cli.run import Overrides, Tracks, as_options
from fielding.cli.stopping import StopRequest, stop_on_signal
from fielding.errors import InputError, OptionError
from fielding.records.run_folder import PAGE, SUMMARY
from fielding.reporting.comparison_columns import named_records, printable
from fielding.reporting.paired import estimate_of

if TYPE_CHECKING:
    from fielding.simulation.compare import Compared
    from fielding.simulation.comparison_plan import Comparison


_EXPLAINED = ("worst_decile", "final_accuracy_corrected", "final_accuracy_tuned")
"""Figures of the table whose names say too little."""
BaseConfig = Annotated[Path, typer.Argument(help="The base config, a TOML file; docs/config.md lists all keys.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the results; started again, it goes on there.")]
Methods = Annotated[
    str | None, typer.Option(help="Methods, separated by commas (`fielding methods`); the config's by default.")
]
Seeds = Annotated[int | None, typer.Option(help="How many seeds, 5 by default; every method runs on each.")]
FirstSeed = Annotated[int, typer.Option(help="The first of them.")]
Vary = Annotated[
    list[str] | None,
    typer.Option("--vary", metavar="KEY=V1,V2,...", help="Compare values of a key of the config; may be repeated."),
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


def compare(
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
    sys.path.insert(0, str(Path.cwd()))  # for methods and functions of the user's own
    if jobs is not None and jobs < 1:
        raise OptionError(f"--jobs is {jobs}; give at least 1")
    chosen = _seeds(first_seed, seeds)
    try:
        variants = _Variants(methods=methods, vary=vary or (), drop=drop or ())
        comparison = _planned(config, out, variants, seeds=chosen, changes=changes or (), reference=reference)
        compared, stop = followed(comparison, jobs, page=page, quiet=quiet, track=tuple(track or ()))
    except InputError as error:
        raise InputError(as_options(str(error))) from None
    if compared is None or not compared.is_ended:
        tell(f"stopped; what was committed is kept, go on with the same command: {_typed()}")
        raise typer.Exit(stop.exit_code)
    say_compared(compared, page=page, as_json=as_json, quiet=quiet)


def say_compared(compared: "Compared", *, page: bool, as_json: bool, quiet: bool) -> None:
    """Print what a comparison gave, and exit with 1 if runs failed.

    Parameters
    ----------
    compared
        The comparison.
    page
        Whether its page was written.
    as_json, quiet
        How to print, and whether to.
    """
    if as_json:
        say_json(compared.summary)
    elif not quiet and compared.summary is not None:
        say_results(compared.summary, compared.folder, page=page)
    say_failures(compared)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variants:
    """What is to be compared, as it was typed."""

    methods: str | None
    vary: Sequence[str]
    drop: Sequence[str]

    @property
    def names(self) -> list[str]:
        return [] if self.methods is None else [name.strip() for name in self.methods.split(",")]


def _seeds(first: int, n_seeds: int | None) -> list[int] | None:
    """Return the seeds that the options describe; None if they say nothing."""
    from fielding.simulation.comparison_plan import DEFAULT_SEEDS, seeds_of

    if first < 0:
        raise OptionError(f"--first-seed is {first}; give 0 or more")
    if n_seeds is None and first == 1:
        return None
    return [first + at - 1 for at in seeds_of(DEFAULT_SEEDS if n_seeds is None else n_seeds)]


def _planned(
    config: Path,
    out: Path,
    typed: _Variants,
    *,
    seeds: list[int] | None,
    changes: Sequence[str],
    reference: str | None,
) -> "Comparison":
    """Return the comparison that the options describe; nothing is written."""
    from fielding.simulation.axes import axis_from
    from fielding.simulation.comparison_plan import base_table, planned
    from fielding.simulation.variants import crossed

    table = base_table(config, changes)
    variants = None
    if typed.names or typed.vary:
        variants = crossed(table, typed.names, [axis_from(one) for one in typed.vary])
    return planned(table, variants, seeds=seeds, out=out, reference=reference, drop=typed.drop)


def followed(
    comparison: "Comparison", jobs: int | None, *, page: bool, quiet: bool, track: tuple[str, ...] = ()
) -> tuple["Compared | None", StopRequest]:
    """Run a comparison with a progress display; None if it was stopped at once."""
    from fielding.simulation.compare import carried_out
    from fielding.simulation.sweep import Following
    from fielding.tracking import TrackedBy

    _track_whole(comparison, track, quiet=quiet)
    for words in comparison.notes:
        note_down(printable(words))
    beside = TrackedBy(track) if track else None
    tally = _tally(comparison)
    with stop_on_signal("round") as stop, comparison_progress(tally, quiet=quiet) as display:

        def is_stopped() -> bool:
            display.tick()
            return stop.received is not None

        following = Following(
            on_step=display.step,
            on_done=display.finish,
            on_note=display.note,
            is_stopped=is_stopped,
            beside=beside,
        )
        try:
            compared = carried_out(comparison, n_jobs=jobs, following=following, page=page)
        except KeyboardInterrupt:
            compared = None
    for words in tally.repeated():
        note_down(words)
    if tally.n_before and not quiet:
        tell(f"{tally.n_before} of {len(comparison.configs)} runs were done before")
    return compared, stop


def _track_whole(comparison: "Comparison", track: tuple[str, ...], *, quiet: bool) -> None:
    """Show runs that were complete before in trackers; those to come are shown by their own processes."""
    from fielding.tracking import places, tracked, trackers_from

    trackers = trackers_from(track)  # what is wrong with them is told before anything runs
    for words in () if quiet else places(trackers, comparison.folder):
        tell(words)
    for name in comparison.configs if track else ():
        if (comparison.folder / name / SUMMARY).exists():
            with tracked(comparison.folder / name, trackers_from(track), note=note_down):
                pass


def _tally(comparison: "Comparison") -> Tally:
    plan = comparison.plan
    labels = {
        plan.folder_of(variant, seed): f"{variant.name}, seed {seed}"
        for variant in plan.variants
        for seed in plan.seeds
    }
    return Tally({name: config.rounds for name, config in comparison.configs.items()}, labels)


def _typed() -> str:
    """Return the command as it was typed."""
    return shlex.join(["fielding", *sys.argv[1:]])


def say_results(summary: Mapping[str, Json], folder: Path, *, page: bool) -> None:
    """Print the table of a comparison, what it means, and where its files are; the page only if it was written."""
    from fielding.reporting.comparison_tables import comparison_table, table_words

    say_wide_table(comparison_table(summary))
    say(table_words(summary))
    methods = named_records(summary, "methods").values()
    if words := explained([name for name in _EXPLAINED if any(estimate_of(one.get(name)) for one in methods)]):
        say(words)
    say(f"results: {folder} (summary.json, table.md, table.csv, table.tex, runs.csv)")
    if page:
        say(f"page:    {folder / PAGE}")


def say_failures(compared: "Compared") -> None:
    """Print which runs failed and why, and exit with 1; do nothing if none did."""
    failures = compared.failures
    if not failures:
        return
    note_down(f"{len(failures)} of {len(compared.finished)} runs failed; the same command tries them again:")
    for name, error in failures.items():
        tell(printable(f"{compared.folder / name}: {error}"))
    raise typer.Exit(1)
