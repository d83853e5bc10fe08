"""`fielding compare`: methods, or other variants of a config, on the same seeds."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fielding.cli.completion import complete_keys, complete_methods
from fielding.cli.console import note_down, say, say_json, say_wide_table, tell
from fielding.cli.options import OUT, JsonOutput, On, Quiet, StopRequest, stop_on_signal
from fielding.cli.run import Overrides, Tracks, as_options, explained
from fielding.errors import InputError, OptionError, printable
from fielding.ray_cluster import LOCAL, check_place
from fielding.records.run_folder import PAGE, SUMMARY
from fielding.reporting.comparison_tables import named_records
from fielding.reporting.numbers.paired import estimate_of

if TYPE_CHECKING:
    from fielding.comparing.compare import ComparisonResult
    from fielding.comparing.plan import PlannedComparison

_EXPLAINED = ("worst_decile", "final_accuracy_corrected", "final_accuracy_tuned")
"""Figures of the table whose names say too little."""
BaseConfig = Annotated[Path, typer.Argument(help="The base config, a TOML file; docs/config.md lists all keys.")]
Out = Annotated[
    Path, typer.Option("--out", "-o", help="Folder for the results; started again, it goes on there.", **OUT)
]
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
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", help="Runs at a time; by default all cores, or all that fit on Ray.")
]
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
    on: On = LOCAL,
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
    check_place(on)
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
        planned = plan_comparison(
            table, variants, seeds=chosen, out=out, reference=compared_with, drop=drop or (), on=on
        )
        compared, stop = run_with_progress(planned, jobs, page=page, quiet=quiet, track=tuple(track or ()), on=on)
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
    planned: "PlannedComparison",
    jobs: int | None,
    *,
    page: bool,
    quiet: bool,
    track: tuple[str, ...] = (),
    on: str = LOCAL,
) -> tuple["ComparisonResult | None", StopRequest]:
    """Run a comparison with a progress display; None if it was stopped at once."""
    from fielding.comparing.compare import run_comparison
    from fielding.comparing.progress import followed
    from fielding.comparing.sweep import Following
    from fielding.tracking import TrackedBy, places, tracked, trackers_from

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
    with stop_on_signal("round") as stop:
        also = Following(is_stopped=lambda: stop.received is not None, beside=TrackedBy(track) if track else None)
        with followed(planned, quiet=quiet, also=also) as (following, tally):
            try:
                compared = run_comparison(planned, n_jobs=jobs, following=following, page=page, on=on)
            except KeyboardInterrupt:
                compared = None
    for words in tally.repeated():
        note_down(words)
    if tally.n_before and not quiet:
        tell(f"{tally.n_before} of {len(planned.configs)} runs were done before")
    return compared, stop
