"""`fielding bench flower`: rounds on real nodes of this machine, Fielding and plain FedAvg in turns."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fielding._typing import Json
from fielding.cli.console import progress_bar, say, say_json, say_wide_table, tell
from fielding.cli.options import JsonOutput, Quiet, stop_on_signal
from fielding.errors import OptionError, OutputError, echo

SIZES = "64,13333"
"""Hidden units: a model of 4,810 numbers, as that of the example app, and one of a million."""
MOST_HIDDEN = 10**7


def flower(
    nodes: Annotated[int, typer.Option(min=2, max=64, help="SuperNodes on this machine.")] = 4,
    rounds: Annotated[int, typer.Option(min=4, help="Rounds of each run.")] = 6,
    hidden: Annotated[str, typer.Option(help="Sizes of the model: hidden units, separated by commas.")] = SIZES,
    repeat: Annotated[int, typer.Option(min=1, help="Turns of each contender.")] = 1,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File for the JSON; else it is printed.")] = None,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Count exchanges, bytes and seconds of rounds against plain FedAvg on the same nodes; needs the extra `flower`.

    Starts a SuperLink and nodes on this machine, with TLS and node keys, and runs one app after the other on them.
    Everything ends with the command, also after Ctrl-C. Bytes are exact; of seconds only ratios taken in one run are
    solid: machines differ and are busy.
    """
    from fielding._extras import require

    require("flower")
    sizes = hidden_sizes(hidden)
    _check_writable(out)
    with stop_on_signal(is_stepping=False) as stop:
        try:
            record = _compared(nodes, rounds, sizes, repeat=repeat, quiet=quiet)
        except KeyboardInterrupt:
            tell("stopped, and all that was started with it")
            raise typer.Exit(stop.exit_code) from None
    if not (as_json or quiet):
        _say_tables(record)
    if out is None:
        say_json(record)
    else:
        out.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def hidden_sizes(text: str) -> list[int]:
    """Return the sizes that a text names, or raise.

    Examples
    --------
    >>> hidden_sizes("64, 13333")
    [64, 13333]
    """
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1 or max(sizes) > MOST_HIDDEN or len(set(sizes)) < len(sizes):
        raise OptionError(f"--hidden is {echo(text)}; give different numbers from 1 to {MOST_HIDDEN}, as {SIZES}")
    return sizes


def _check_writable(out: Path | None) -> None:
    """Raise if the results could not be written, before minutes are spent on them."""
    if out is None:
        return
    if out.is_dir() or not out.parent.is_dir():
        raise OutputError(f"cannot write {out}; name a file in a folder that is there")


def _compared(nodes: int, rounds: int, sizes: list[int], *, repeat: int, quiet: bool) -> dict[str, Json]:
    """Let the contenders take turns behind a progress bar."""
    from fielding.bench.contenders import CONTENDERS
    from fielding.bench.deployed_rounds import compare_deployments
    from fielding.bench.shared_work import SharedWork

    works = [SharedWork(n_rounds=rounds, hidden=units) for units in sizes]
    with progress_bar("bench", rounds * len(works) * len(CONTENDERS) * repeat, quiet=quiet) as bar:

        def show(words: str, n_more: int) -> None:
            bar.describe(words)
            bar.advance(n_more)

        compared = compare_deployments(nodes, works, repeat=repeat, show=show)
    return {"nodes": nodes, "rounds": rounds, "repeat": repeat, **compared}


def _say_tables(record: dict[str, Any]) -> None:
    from fielding.bench.traffic_tables import cost_rows, ratio_rows

    say(
        f"{record['rounds']} rounds on {record['nodes']} nodes. Bytes are per round, as Flower counts them; own bytes "
        "those of values and names in messages; both include the start and tests. Seconds: median round without a test"
    )
    say_wide_table(cost_rows(record["costs"]))
    say("\nHeld against each other")
    say_wide_table(ratio_rows(record["ratios"]))
    say("")
