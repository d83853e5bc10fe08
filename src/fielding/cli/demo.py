"""`fielding demo`: Fielding, parts of it and one global model on digits whose clients move between places."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fielding.cli.console import Bar, counting, progress_bar, say, say_json, say_table, tell
from fielding.cli.options import JsonOutput, Quiet
from fielding.cli.stopping import StopRequest, stop_on_signal

if TYPE_CHECKING:
    from fielding.simulation.demo import Progress


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("fielding-demo"),
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=1000, help="How many seeds, from 1.")] = 5,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Train Fielding, parts of it and one global model on drifting digits, and show whether the clusters pay off.

    100 clients live in four places, each with its own mix of digits and its own look (turned by 90 degrees); every 20
    rounds three in ten move. Compared are fielding, moves (which never groups everyone anew), static (the clusters of
    the start) and global (one model). Writes a run folder per method and seed, summary.json and report.html. After
    Ctrl-C, the same command goes on where it stopped.
    """
    from fielding.reporting.comparison import target_words
    from fielding.reporting.demo_page import demo_table, difference_lines
    from fielding.simulation.demo import METHODS, N_ROUNDS, run_demo

    again = ["fielding", "demo", "--out", str(out), "--seeds", str(seeds)]
    total = seeds * len(METHODS) * N_ROUNDS
    with (
        stop_on_signal("round", is_stepping=False) as stop,
        progress_bar("reading digits", total, quiet=quiet) as bar,
    ):
        try:
            summary = run_demo(out, seeds, watch=watcher(bar, stop, total))
        except KeyboardInterrupt:
            summary = None
    if summary is None:
        tell(f"stopped; the same command goes on: {shlex.join(again)}")
        raise typer.Exit(stop.exit_code)
    if as_json:
        say_json(summary)
    elif not quiet:
        title = f"Clients that move between places: means over {seeds} seeds with 95 % intervals"
        say_table(title, demo_table(summary))
        say(target_words(summary))
        for line in difference_lines(summary):
            say(line)
        say(f"results: {out}")
        say(f"page:    {out / 'report.html'}")


def watcher(bar: Bar, stop: StopRequest, n_rounds: int) -> Callable[["Progress"], bool]:
    """Return what is called after each round: it moves the bar and tells whether to go on."""
    count = counting(bar.advance)

    def watch(progress: "Progress") -> bool:
        stop.is_stepping = True
        accuracy = "-" if progress.accuracy is None else f"{progress.accuracy:.3f}"
        place = "" if bar.is_live else f"round {progress.n_rounds} of {n_rounds}, "  # the bar itself shows it
        bar.describe(f"{place}{progress.method}, seed {progress.seed}, accuracy {accuracy}")
        count(progress.n_rounds)
        return stop.received is None

    return watch
