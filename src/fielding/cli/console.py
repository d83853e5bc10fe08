"""What goes to the terminal: results to standard output, progress and complaints to standard error."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

Advance = Callable[[int], None]
WIDTH_ELSEWHERE = 160
"""Characters of a line where there is no terminal."""
LINE_EVERY_S = 10.0
"""Seconds between two lines about the progress, where there is no terminal."""


def complain(message: str) -> None:
    """Print one line about what went wrong."""
    sys.stderr.write(f"error: {' '.join(message.split())}\n")


def tell(message: str) -> None:
    """Print one line about how the work comes along, which is neither a result nor a failure."""
    sys.stderr.write(f"{' '.join(message.split())}\n")


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
    # A file or a pipe has no width of its own.
    console = console if console.is_terminal else Console(width=WIDTH_ELSEWHERE)
    console.print(table, markup=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A running progress bar: ``bar(n)`` advances it by n, ``describe`` changes its words.

    Parameters
    ----------
    advance, describe
        What moves the bar, and what changes its words.
    is_live
        Whether there is a bar to be seen; else the words are printed as a line now and then, or not at all.
    """

    advance: Advance
    describe: Callable[[str], None]
    is_live: bool = True

    def __call__(self, amount: int) -> None:
        """Advance the bar."""
        self.advance(amount)


@contextmanager
def progress_bar(what: str, total: int | None, *, quiet: bool) -> Iterator[Bar]:
    """Show how far a long work has come; as lines if standard error is no terminal, nothing if quiet."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield Bar(advance=lambda _amount: None, describe=_ignored if quiet else at_intervals(tell), is_live=False)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield Bar(
            advance=lambda amount: progress.advance(task, amount),
            describe=lambda words: progress.update(task, description=words),
        )


def _ignored(_words: str) -> None:
    """Say nothing."""


def at_intervals(
    say_words: Callable[[str], None], seconds: float = LINE_EVERY_S, clock: Callable[[], float] = time.monotonic
) -> Callable[[str], None]:
    """Return a callback that passes words on at most every so many seconds, the first time after as many.

    Examples
    --------
    >>> said, times = [], iter([0.0, 9.0, 11.0, 12.0, 22.0])
    >>> say_now_and_then = at_intervals(said.append, 10.0, lambda: next(times))
    >>> for words in ("a", "b", "c", "d"):
    ...     say_now_and_then(words)
    >>> said
    ['b', 'd']
    """
    last = clock()

    def pass_on(words: str) -> None:
        nonlocal last
        if (now := clock()) - last >= seconds:
            last = now
            say_words(words)

    return pass_on


def counting(advance: Advance) -> Advance:
    """Return a callback that takes totals and advances by what came since the last one."""
    seen = 0

    def count(total: int) -> None:
        nonlocal seen
        advance(total - seen)
        seen = total

    return count
