"""`fielding run`: train a federation as a config says."""

import re
import shlex
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fielding._typing import Json
from fielding.cli.completion import complete_keys
from fielding.cli.console import note_down, progress_bar, say, say_json, say_table, tell
from fielding.cli.options import OUT, JsonOutput, On, Quiet, StopRequest, stop_on_signal
from fielding.errors import InputError, OptionError
from fielding.ray_cluster import LOCAL, check_place
from fielding.reporting.charts.experts import expert_words
from fielding.reporting.formatting import as_time, failure_words, run_table

if TYPE_CHECKING:
    from fielding.config.keys import Config
    from fielding.simulation.experiment import Result, Start
    from fielding.tracking import Tracker

_SENTENCES = {
    "worst_decile": "Worst tenth: mean over the tenth of the clients with the lowest accuracy.",
    "final_accuracy_corrected": "Corrected: each client shifts the scores of its model to its own mix of labels.",
    "final_accuracy_tuned": "Tuned: each client trains its model for some steps more, on its own samples.",
    "final_newest_accuracy": "Newest interval: of the test samples in the clients' windows those that came last.",
    "final_next_accuracy": "Next interval: samples that arrive next, before any client trains on them.",
}
_EXPLAINED = ("final_newest_accuracy", "final_next_accuracy")  # figures of the table whose names say too little
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a key of the config; may be repeated.",
        autocompletion=complete_keys,
    ),
]
Tracks = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        metavar="NAME[=WHERE]",
        help="Show the run in tensorboard[=FOLDER], mlflow[=URI] or wandb[=PROJECT] as well; may be repeated.",
    ),
]


def run_command(
    config: Annotated[
        Path,
        typer.Argument(
            help="The config, a TOML file; docs/config.md lists all keys. With --resume also a run's folder."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the results; runs/NAME-METHOD-SEED by default.", **OUT),
    ] = None,
    changes: Overrides = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on where a run ended, with --set perhaps otherwise (docs/changes.md); begin one if there is none.",
        ),
    ] = False,
    init_from: Annotated[
        Path | None,
        typer.Option(
            "--init-from", help="Begin with the (mean) model of a checkpoint, a run's folder or a .safetensors."
        ),
    ] = None,
    on: On = LOCAL,
    track: Tracks = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen and how long it would take; write nothing.")
    ] = False,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write report.html (5 MB).")] = True,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Train a federation on drifting data, as a config says.

    CONFIG is a TOML file; docs/config.md lists all keys.

    Writes config.toml (every key), manifest.json, rounds.jsonl, events.jsonl, memberships.jsonl, concepts.jsonl,
    clients.jsonl, timings.jsonl, reports/ (for `fielding replay`) with reports.jsonl, checkpoints/, summary.json and
    report.html. Ctrl-C ends the round and keeps everything; --resume goes on, also after the end: `--resume --set
    rounds=400`.
    """
    from fielding.cli.dry_run import dry_run as try_out
    from fielding.config.reader import read_config
    from fielding.simulation.experiment import Start
    from fielding.tracking import places, trackers_from

    check_place(on)
    sys.path.insert(0, str(Path.cwd()))  # for functions of the user's own, named in the config
    if config.is_dir():
        config, out = _own_config(config, out, resume=resume)
    settled = read_config(config, changes or ())
    folder = out or Path("runs") / f"{config.stem}-{settled.method.name}-{settled.seed}"
    changed, tracks, begun = tuple(changes or ()), tuple(track or ()), time.monotonic()
    start = Start(resume=resume, init_from=init_from)
    if dry_run:
        with _locating(config, changed):
            try_out(settled, folder, start, as_json=as_json, quiet=quiet)
        return
    trackers = trackers_from(tracks)
    for words in () if quiet else places(trackers, folder):
        tell(words)
    with stop_on_signal("round", is_stepping=False) as stop:
        try:
            with _locating(config, changed):
                result = _run_with_progress(settled, folder, start, stop, trackers, page=page, quiet=quiet, on=on)
        except KeyboardInterrupt:
            result = None
    if result is None or result.summary is None:
        again = resume_command(config, folder, changed, init_from, tracks, on)
        if result is not None:
            tell(f"stopped after {len(result.rounds)} of {settled.rounds} rounds; go on with: {again}")
        elif stop.is_stepping:
            tell(f"stopped at once; what was committed is kept, go on with: {again}")
        else:
            tell("stopped before the first round; nothing was written")
        raise typer.Exit(stop.exit_code)
    if words := failure_words(result.summary):
        note_down(words)
    if as_json:
        say_json(result.summary)
    elif not quiet:
        _say_figures(result.summary, folder, took_s=time.monotonic() - begun, page=page)
        if told := [one for row in result.rounds if isinstance(one := row.get("experts"), dict)]:
            n_clusters = result.rounds[-1].get("n_clusters")
            say(f"{n_clusters} groups; {expert_words(told[-1])}")


def _own_config(folder: Path, out: Path | None, *, resume: bool) -> tuple[Path, Path]:
    """Return the config that a run in a folder goes on with, and the folder to go on in."""
    from fielding.atomic import check_no_pipe
    from fielding.records.run_folder import CONFIG, MANIFEST

    if not (folder / MANIFEST).exists():
        raise InputError(f"{folder} is a folder, but not of a run; give a config, a TOML file")
    if not resume or (out is not None and out.resolve() != folder.resolve()):
        raise InputError(f"{folder} is the folder of a run; go on with it by --resume, or give {folder / CONFIG}")
    try:
        check_no_pipe(folder / CONFIG)
    except OSError as error:
        raise InputError(f"cannot read {folder / CONFIG}: {error.strerror}") from error
    return folder / CONFIG, folder


@contextmanager
def _locating(config: Path, changes: Sequence[str]) -> Iterator[None]:
    """Tell mistakes with where they come from, in the words of the command line."""
    from fielding.config.reader import locate_error

    try:
        yield
    except OptionError as error:
        raise locate_error(error, config, changes) from None
    except InputError as error:
        raise InputError(as_options(str(error))) from None


def _say_figures(summary: Mapping[str, Json], folder: Path, *, took_s: float, page: bool) -> None:
    say_table("What the run gave", [["", ""], *run_table(summary), ["real time", as_time(took_s)]])
    if words := explained([name for name in _EXPLAINED if summary.get(name) is not None]):
        say(words)
    say(f"results: {folder}")
    if page:
        say(f"page:    {folder / 'report.html'}")


def explained(figures: Collection[str]) -> str:
    """Return what names of figures in ``summary.json`` mean, of those that do not say it themselves; nothing if all do.

    Examples
    --------
    >>> explained(["moves", "worst_decile"])
    'Worst tenth: mean over the tenth of the clients with the lowest accuracy.'
    """
    return " ".join(words for figure, words in _SENTENCES.items() if figure in figures)


def as_options(message: str) -> str:
    """Return a message for users of Python as one for users of the command line.

    Examples
    --------
    >>> as_options("x holds a run already; continue it with Start(resume=True) or name another folder")
    'x holds a run already; continue it with --resume or name another folder with --out'
    >>> as_options("begin a run in another folder with Start(init_from='runs/a')")
    'begin a run in another folder with --init-from runs/a'
    """
    message = message.replace("Start(resume=True)", "--resume")
    message = re.sub(r"Start\(init_from='(.*)'\)", r"--init-from \1", message)
    return re.sub("name another folder$", "name another folder with --out", message)


def resume_command(
    config: Path,
    folder: Path,
    changes: Sequence[str] = (),
    init_from: Path | None = None,
    trackers: Sequence[str] = (),
    on: str = LOCAL,
) -> str:
    """Return what to type to go on with a run; whatever it depends on has to be said again.

    Examples
    --------
    >>> resume_command(Path("a b.toml"), Path("runs/x"), ["seed=2"])
    "fielding run 'a b.toml' --out runs/x --resume --set seed=2"
    """
    words = ["fielding", "run", str(config), "--out", str(folder), "--resume"]
    words += [word for change in changes for word in ("--set", change)]
    words += [] if init_from is None else ["--init-from", str(init_from)]
    words += [] if on == LOCAL else ["--on", on]
    return shlex.join(words + [word for tracker in trackers for word in ("--track", tracker)])


def _run_with_progress(
    config: "Config",
    folder: Path,
    start: "Start",
    stop: StopRequest,
    trackers: "Sequence[Tracker]",
    *,
    page: bool,
    quiet: bool,
    on: str,
) -> "Result":
    """Run with a progress bar that tells how the run comes along, and stop after a round if that was asked for."""
    from fielding.simulation.experiment import TRAINING, Watching
    from fielding.simulation.experiment import run as run_experiment
    from fielding.tracking import tracked

    def on_phase(phase: str) -> None:
        stop.is_stepping = phase == TRAINING

    watching = Watching(after_round=lambda _row: stop.received is None, on_phase=on_phase, on_note=note_down)
    with (
        progress_bar("preparing", config.rounds, quiet=quiet) as bar,
        tracked(folder, trackers, watch=watching.shown_by(bar, config.rounds), note=note_down) as watch,
    ):
        return run_experiment(config, folder, start=start, watch=watch, page=page, progress=False, on=on)
