"""`fielding demo`: Fielding, the paper's method, parts of it and one global model on drifting digits."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fielding.cli.compare import run_with_progress, say_comparison
from fielding.cli.console import tell
from fielding.cli.options import OUT, JsonOutput, Quiet


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.", **OUT)] = Path("fielding-demo"),
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=1000, help="How many seeds, from 1.")] = 5,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Runs at a time; all cores by default.")] = None,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Train Fielding, the paper's method, parts of it and one global model on drifting digits, and compare them.

    100 clients live in two places, each with its own mix of digits and its own look (turned by 90 degrees); every 20
    rounds one in twenty moves, and halfway two more places open, so that groups split. Compared are auto (what
    Fielding makes of the paper's method), fielding (that method), moves (which never groups everyone anew), static
    (the clusters of the start) and global (one model). Writes what `fielding compare` writes. After Ctrl-C, the same
    command goes on where it stopped.
    """
    from fielding.comparing.demo import plan_demo, write_demo_page

    compared, stop = run_with_progress(plan_demo(out, seeds), jobs, page=False, quiet=quiet)
    if compared is None or not compared.is_ended:
        again = ["fielding", "demo", "--out", str(out), "--seeds", str(seeds)]
        tell(f"stopped; the same command goes on: {shlex.join(again)}")
        raise typer.Exit(stop.exit_code)
    write_demo_page(out)
    say_comparison(compared, page=True, as_json=as_json, quiet=quiet)
