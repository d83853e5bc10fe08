"""`fielding watch`: the live page over a run or a comparison."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fielding.cli.console import say, tell
from fielding.cli.options import Quiet


def watch(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of runs or comparisons; they may not be there yet.")
    ],
    host: Annotated[str, typer.Option(help="Where to listen; others than this machine need a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8707,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="FIELDING_WATCH_TOKEN",
            help="What a browser must know, at least 16 characters: open the page with ?token=TOKEN.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Show runs in a browser while they go on; the page follows them without being loaded again.

    It reads the folders and changes nothing. It listens on this machine alone unless a host and a token are given;
    the token is asked for in clear text, so put a proxy with TLS before it on a network that is not yours. Ctrl-C
    ends it; the runs go on.
    """
    from fielding.watch.server import serve_page

    def ready(address: str) -> None:
        say(address)
        sys.stdout.flush()  # who reads it through a pipe waits for it
        if not quiet:
            tell("open this address in a browser" + (", with ?token=TOKEN" if token else "") + "; Ctrl-C ends it")

    raise typer.Exit(128 + serve_page(folders, host=host, port=port, token=token, on_ready=ready))
