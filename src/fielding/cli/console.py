"""What goes to the terminal: results to standard output, progress and complaints to standard error."""

import json
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from fielding.reporting.progress_bar import (
    LINE_EVERY_S,
    Advance,
    Bar,
    at_intervals,
    counting,
    note_down,
    progress_bar,
    tell,
)

__all__ = [
    "LINE_EVERY_S",
    "Advance",
    "Bar",
    "at_intervals",
    "complain",
    "counting",
    "note_down",
    "progress_bar",
    "say",
    "say_json",
    "say_table",
    "say_wide_table",
    "tell",
    "turned_parts",
]

WIDTH_ELSEWHERE = 160  # characters of a line where there is no terminal
WIDEST = 100_000  # characters of a line where nothing is to be broken


def complain(message: str) -> None:
    """Print one line about what went wrong."""
    sys.stderr.write(f"error: {' '.join(message.split())}\n")


def say(message: str) -> None:
    """Print a line of results."""
    sys.stdout.write(f"{message}\n")


def say_json(record: object) -> None:
    """Print results for programs."""
    say(json.dumps(record, indent=2, allow_nan=False))


def say_table(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the first row holds the column heads, numbers are flushed right."""
    if title:
        say(title)
    _console().print(_table(rows), markup=False)


def say_wide_table(rows: Sequence[Sequence[str]]) -> None:
    """Print a table that may be wider than the terminal: then with a column for each of its rows, in parts if need be.

    ``rows``: the column heads first; the first cell of each row is its name.
    """
    if _width(rows) <= _console().width:
        say_table("", rows)
        return
    for at, part in enumerate(turned_parts(rows, _console().width)):
        if at:
            say("")
        say_table("", part)


def turned_parts(rows: Sequence[Sequence[str]], width: int) -> list[list[list[str]]]:
    """Return a table with rows for columns, cut into as many tables as it takes to fit a width.

    Each has at least one column beside the names, which may be too wide then.

    Examples
    --------
    >>> rows = [["method", "accuracy"], ["fielding", "0.98"], ["global", "0.95"]]
    >>> turned_parts(rows, 80)
    [[['method', 'fielding', 'global'], ['accuracy', '0.98', '0.95']]]
    >>> [part[0] for part in turned_parts(rows, 20)]
    [['method', 'fielding'], ['method', 'global']]
    """
    head, *left = rows
    parts: list[list[Sequence[str]]] = []
    for row in left:
        if parts and _width(_turned([head, *parts[-1], row])) <= width:
            parts[-1].append(row)
        else:
            parts.append([row])
    return [_turned([head, *part]) for part in parts]


def _turned(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _table(rows: Sequence[Sequence[str]]) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    for at, head in enumerate(rows[0]):
        table.add_column(head, justify="left" if at == 0 else "right", overflow="fold")
    for row in rows[1:]:
        table.add_row(*row)
    return table


def _width(rows: Sequence[Sequence[str]]) -> int:
    """Return how many characters a table needs if no cell is broken."""
    return Console(width=WIDEST).measure(_table(rows)).maximum


def _console() -> Console:
    """Return where results go; a file or a pipe has no width of its own."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH_ELSEWHERE)
