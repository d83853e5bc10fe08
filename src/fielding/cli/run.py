"""`fielding run`: train a federation as a config says."""

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from fielding._typing import Json
from fielding.cli.console import Bar, complain, note_down, progress_bar, say, say_json, say_table
from fielding.cli.options import JsonOutput, Quiet
from fielding.cli.stopping import StopRequest, stop_on_signal
from fielding.errors import OptionError
from fielding.reporting.words import as_time, megabytes, plain

Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the config; may be repeated.")
]


def run(
    config: Annotated[Path, typer.Argument(help="The config, a TOML file; docs/config.md lists all keys.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the results; runs/NAME-SEED by default.")
    ] = None,
    changes: Overrides = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where a stopped run ended; begin one if there is none.")
    ] = False,
    init_from: Annotated[
        Path | None,
        typer.Option(
            "--init-from", help="Begin with the (mean) model of a checkpoint, a run's folder or a .safetensors."
        ),
    ] = None,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write report.html (5 MB).")] = True,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Train a federation on drifting data, as a config says.

    Writes config.toml (every key), manifest.json, rounds.jsonl, events.jsonl, memberships.jsonl, clients.jsonl,
    timings.jsonl, reports/ (for `fielding replay`), checkpoints/, summary.json and report.html. Ctrl-C ends the round
    and keeps everything; --resume goes on.
    """
    from fielding.engine.config_reader import read_config
    from fielding.simulation.experiment import Start
    from fielding.simulation.experiment import run as run_experiment

    sys.path.insert(0, str(Path.cwd()))  # for functions of the user's own, named in the config
    settled = read_config(config, changes or ())
    folder = out or Path("runs") / f"{config.stem}-{settled.seed}"
    start = Start(resume=resume, init_from=init_from)
    with stop_on_signal() as stop, progress_bar("preparing", settled.rounds, quiet=quiet) as bar:
        watch = watcher(bar, stop, settled.rounds)
        try:
            result = run_experiment(settled, folder, start=start, watch=watch, page=page)
        except OptionError as error:
            raise OptionError(f"{config}: {error}") from None
    for note in result.notes:
        note_down(note)
    if result.summary is None:
        again = resume_command(config, folder, changes or (), init_from)
        complain(f"stopped after {len(result.rounds)} of {settled.rounds} rounds; go on with: {again}")
        raise typer.Exit(stop.exit_code)
    say_run(result.summary, folder, as_json=as_json, quiet=quiet)


def resume_command(config: Path, folder: Path, changes: Sequence[str], init_from: Path | None) -> str:
    """Return what to type to go on with a run; whatever it depends on has to be said again.

    Examples
    --------
    >>> resume_command(Path("a b.toml"), Path("runs/x"), ["seed=2"], None)
    "fielding run 'a b.toml' --out runs/x --resume --set seed=2"
    """
    words = ["fielding", "run", str(config), "--out", str(folder), "--resume"]
    words += [word for change in changes for word in ("--set", change)]
    return shlex.join(words + ([] if init_from is None else ["--init-from", str(init_from)]))


def watcher(bar: Bar, stop: StopRequest, n_rounds: int) -> Callable[[Mapping[str, Json]], bool]:
    """Return what is called after each round: it moves the bar and tells whether to go on."""
    accuracy, done = "-", 0

    def watch(row: Mapping[str, Json]) -> bool:
        nonlocal accuracy, done
        if isinstance(measured := row.get("accuracy"), float):
            accuracy = f"{measured:.3f}"
        now, seconds = int(str(row["round"])) + 1, float(str(row["time_s"]))
        simulated = f"simulated {as_time(seconds)}, {as_time(seconds / now * (n_rounds - now))} left"
        bar.describe(f"accuracy {accuracy}  clusters {row['n_clusters']}  {simulated}")
        bar.advance(now - done)  # the first round of a resumed run is not the first
        done = now
        return stop.received is None

    return watch


def say_run(summary: Mapping[str, Json], folder: Path, *, as_json: bool, quiet: bool) -> None:
    """Print the figures of a run."""
    if as_json:
        say_json(summary)
    elif not quiet:
        names = {
            "method": "method",
            "n_rounds": "rounds",
            "final_accuracy": "final accuracy, mean over clients",
            "worst_decile": "of the worst tenth of the clients",
            "final_prequential_accuracy": "on the interval to come",
            "final_ari": "agreement with the true groups (ARI)",
            "n_clusters_last": "clusters at the end",
            "n_reports": "reports",
            "moves": "moves one by one",
            "reclusterings": "re-clusterings of all",
        }
        rows = [[label, plain(summary[name])] for name, label in names.items() if summary[name] is not None]
        rows.append(["simulated time", as_time(float(str(summary["time_s"])))])
        rows += [[label, megabytes(summary[name])] for name, label in (("bytes_down", "down"), ("bytes_up", "up"))]
        say_table("What the run gave", [["", ""], *rows])
        say(f"results: {folder}")
