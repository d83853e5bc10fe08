"""The `fielding` command: parse, call, print."""

from fielding.cli.app import app, main

__all__ = ["app", "main"]
