"""`fielding compare`: methods, or other variants of a config, on the same seeds."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fielding._typing import Json
from fielding.cli.comparison_progress import Tally, comparison_progress
from fielding.cli.console import note_down, say, say_json, say_table, tell
from fielding.cli.options import JsonOutput, Quiet
from fielding.cli.run import Overrides, Tracks, as_options
from fielding.cli.stopping import StopRequest, stop_on_signal
from fielding.errors import InputError, OptionError
from fielding.records.run_folder import PAGE, SUMMARY

if TYPE_CHECKING:
    from fielding.simulation.compare import Compared
    from fielding.simulation.comparison_plan import Comparison


def compare(
    config: Annotated[Path, typer.Argument(help="The base config, a TOML file; docs/config.md lists all keys.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results; started again, it goes on there.")],
    methods: Annotated[
        str | None, typer.Option(help="Methods, separated by commas (`fielding methods`); the config's by default.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds; every method runs on each.")] = 5,
    first_seed: Annotated[int, typer.Option(help="The first of them.")] = 1,
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", metavar="KEY=V1,V2,...", help="Compare values of a key of the config; may be repeated."),
    ] = None,
    changes: Overrides = None,
    reference: Annotated[
        str | None, typer.Option(help="What others are held against; global by default, else the first.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Runs at a time; all cores by default.")] = None,
    track: Tracks = None,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write report.html.")] = True,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Run methods on the same seeds, each run in a process of its own, and compare them.

    Writes a folder per run, compare.json (what belongs to the comparison), summary.json, table.md, table.csv,
    table.tex, runs.csv and report.html. What is done is not done again, what was stopped goes on, what failed is tried
    again; methods, seeds and values may be added later. A run that fails does not stop the others.
    """
    sys.path.insert(0, str(Path.cwd()))  # for methods and functions of the user's own
    if jobs is not None and jobs < 1:
        raise OptionError(f"--jobs is {jobs}; give at least 1")
    try:
        comparison = _planned(
            config, out, methods=methods, seeds=(first_seed, seeds), vary=vary, changes=changes, reference=reference
        )
        compared, stop = followed(comparison, jobs, page=page, quiet=quiet, track=tuple(track or ()))
    except InputError as error:
        raise InputError(as_options(str(error))) from None
    if compared is None or not compared.is_ended:
        tell(f"stopped; what was committed is kept, go on with the same command: {_typed()}")
        raise typer.Exit(stop.exit_code)
    if as_json:
        say_json(compared.summary)
    elif not quiet and compared.summary is not None:
        say_results(compared.summary, out)
    say_failures(compared)


def _planned(
    config: Path,
    out: Path,
    *,
    methods: str | None,
    seeds: tuple[int, int],
    vary: list[str] | None,
    changes: list[str] | None,
    reference: str | None,
) -> "Comparison":
    """Return the comparison that the options describe; nothing is written."""
    from fielding.simulation.comparison_plan import base_table, planned, seeds_of
    from fielding.simulation.variants import axis_from, crossed

    first, n_seeds = seeds
    names = [] if methods is None else [name.strip() for name in methods.split(",")]
    if first < 0:
        raise OptionError(f"--first-seed is {first}; give 0 or more")
    chosen = [first + at - 1 for at in seeds_of(n_seeds)]
    table = base_table(config, changes or ())
    variants = crossed(table, names, [axis_from(one) for one in vary or ()])
    return planned(table, variants, seeds=chosen, out=out, reference=reference)


def followed(
    comparison: "Comparison", jobs: int | None, *, page: bool, quiet: bool, track: tuple[str, ...] = ()
) -> tuple["Compared | None", StopRequest]:
    """Run a comparison with a progress display; None if it was stopped at once."""
    from fielding.simulation.compare import carried_out
    from fielding.simulation.sweep import Following
    from fielding.tracking import TrackedBy

    _track_whole(comparison, track)
    beside = TrackedBy(track) if track else None
    tally = _tally(comparison)
    with stop_on_signal("round") as stop, comparison_progress(tally, quiet=quiet) as display:

        def is_stopped() -> bool:
            display.tick()
            return stop.received is not None

        following = Following(on_step=display.step, on_done=display.finish, is_stopped=is_stopped, beside=beside)
        try:
            compared = carried_out(comparison, n_jobs=jobs, following=following, page=page)
        except KeyboardInterrupt:
            compared = None
    if tally.n_before and not quiet:
        tell(f"{tally.n_before} of {len(comparison.configs)} runs were done before")
    return compared, stop


def _track_whole(comparison: "Comparison", track: tuple[str, ...]) -> None:
    """Show runs that were complete before in trackers; those to come are shown by their own processes."""
    from fielding.tracking import tracked, trackers_from

    trackers_from(track)  # what is wrong with them is told before anything runs
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


def say_results(summary: Mapping[str, Json], folder: Path) -> None:
    """Print the table of a comparison, what it means, and where its files are."""
    from fielding.reporting.comparison_tables import comparison_table, table_words

    say_table("", comparison_table(summary))
    say(table_words(summary))
    say(f"results: {folder} (summary.json, table.md, table.csv, table.tex, runs.csv)")
    if (folder / PAGE).exists():
        say(f"page:    {folder / PAGE}")


def say_failures(compared: "Compared") -> None:
    """Print which runs failed and why, and exit with 1; do nothing if none did."""
    failures = compared.failures
    if not failures:
        return
    note_down(f"{len(failures)} of {len(compared.finished)} runs failed; the same command tries them again:")
    for name, error in failures.items():
        tell(f"{compared.folder / name}: {error}")
    raise typer.Exit(1)
