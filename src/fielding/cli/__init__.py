"""The `fielding` command: parse, call, print."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; a Ctrl-C while it is still being imported is one line, too."""
    try:
        from fielding.cli.app import run_app as _run_app

        _run_app()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        sys.exit(130)
