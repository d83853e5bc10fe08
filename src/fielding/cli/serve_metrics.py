"""`fielding serve-metrics`: figures of runs for Prometheus."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fielding.cli.console import say, tell
from fielding.cli.options import Quiet


def serve_metrics_command(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs; they may not be there yet.")
    ],
    host: Annotated[str, typer.Option(help="Where to listen; others than this machine need a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8708,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="FIELDING_METRICS_TOKEN", help="The bearer token that Prometheus must send, at least 16 characters."
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Serve figures of runs to Prometheus at /metrics, read from their folders, until Ctrl-C.

    It changes nothing, and needs nothing but Python. `deploy/grafana.json` is a dashboard for them.
    """
    from fielding.watch.metrics import serve_metrics

    def ready(address: str) -> None:
        say(address)
        sys.stdout.flush()
        if not quiet:
            tell("Prometheus can scrape this address; Ctrl-C ends it")

    raise typer.Exit(128 + serve_metrics(folders, host=host, port=port, token=token, on_ready=ready))
