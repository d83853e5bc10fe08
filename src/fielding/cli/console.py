"""What goes to the terminal: results to standard output, progress and complaints to standard error."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

Advance = Callable[[int], None]


def complain(message: str) -> None:
    """Print one line about what went wrong."""
    sys.stderr.write(f"error: {' '.join(message.split())}\n")


def note_down(message: str) -> None:
    """Print one line about what a user should know, beside the results."""
    sys.stderr.write(f"note: {' '.join(message.split())}\n")


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
    table = Table(header_style="bold", box=None, pad_edge=False)
    for at, head in enumerate(rows[0]):
        table.add_column(head, justify="left" if at == 0 else "right", overflow="fold")
    for row in rows[1:]:
        table.add_row(*row)
    console = Console()
    console.print(table, markup=False, width=None if console.is_terminal else 120)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A running progress bar: ``bar(n)`` advances it by n, ``describe`` changes its words."""

    advance: Advance
    describe: Callable[[str], None]

    def __call__(self, amount: int) -> None:
        """Advance the bar."""
        self.advance(amount)


@contextmanager
def progress_bar(what: str, total: int | None, *, quiet: bool) -> Iterator[Bar]:
    """Show how far a long work has come; nothing if quiet or if standard error is not a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield Bar(
            advance=lambda amount: progress.advance(task, amount),
            describe=lambda words: progress.update(task, description=words),
        )


def counting(advance: Advance) -> Advance:
    """Return a callback that takes totals and advances by what came since the last one."""
    seen = 0

    def count(total: int) -> None:
        nonlocal seen
        advance(total - seen)
        seen = total

    return count
