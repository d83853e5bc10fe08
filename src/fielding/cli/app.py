"""The command line as a whole: sub-commands, exit codes, one-line errors."""

import sys
import warnings
from typing import Annotated, Any

import click
import typer

from fielding._version import __version__
from fielding.cli.compare import compare_command
from fielding.cli.config import config_app
from fielding.cli.console import complain, note_down, tell
from fielding.cli.data import data_app
from fielding.cli.demo import demo
from fielding.cli.deploy import deploy
from fielding.cli.methods import methods
from fielding.cli.models import models
from fielding.cli.new import new
from fielding.cli.privacy import privacy
from fielding.cli.recommend import recommend
from fielding.cli.replay import replay_command
from fielding.cli.report import report
from fielding.cli.run import run_command
from fielding.cli.serve_metrics import serve_metrics_command
from fielding.cli.show import show
from fielding.cli.watch import watch
from fielding.errors import FieldingError, InputError, OptionError

app = typer.Typer(
    name="fielding",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # else the lines of a docstring are broken where its source is
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Clustered federated learning that keeps its clusters right while the clients' data drift.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong use or input, 130 or 143 after a signal.",
)
app.command()(demo)
app.command()(new)
app.command("run")(run_command)
app.command("compare")(compare_command)
app.command()(recommend)
app.command()(report)
app.command()(watch)
app.command("serve-metrics")(serve_metrics_command)
app.command()(deploy)
app.command("replay")(replay_command)
app.command()(show)
app.command()(privacy)
app.command()(models)
app.command()(methods)
app.add_typer(config_app, name="config")
app.add_typer(data_app, name="data")
for _commands in (app, config_app, data_app):  # newer click names the nearest command itself, and typer would once more
    _commands.suggest_commands = not hasattr(click.exceptions, "NoSuchCommand")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench() -> None:
    """Benchmarks are run in a copy of the repository: `make bench`."""
    raise OptionError("benchmarks are run in a copy of the repository; run `make bench` there")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fielding {__version__}")
        raise typer.Exit


@app.callback()
def _global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Run before any sub-command."""


def run_app(commands: typer.Typer = app) -> None:
    """Run a command line; every expected failure is one line on standard error, and so is what will change."""
    show = warnings.showwarning

    def note_warning(message: Warning | str, category: type[Warning], *args: Any, **named: Any) -> None:
        if issubclass(category, FutureWarning):
            note_down(str(message))
        else:
            show(message, category, *args, **named)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = note_warning
            commands()
    except InputError as error:
        complain(str(error))
        sys.exit(2)
    except (FieldingError, OSError, MemoryError) as error:
        complain(str(error) or type(error).__name__)
        sys.exit(1)
    except KeyboardInterrupt:
        tell("stopped")
        sys.exit(130)
