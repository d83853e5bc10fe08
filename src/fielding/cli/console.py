"""What goes to the terminal: results to standard output, progress and complaints to standard error."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task
from rich.table import Column, Table
from rich.text import Text

from fielding.reporting.formatting import as_time

Advance = Callable[[int], None]
WIDTH_ELSEWHERE = 160  # characters of a line where there is no terminal
WIDEST = 100_000  # characters of a line where nothing is to be broken
BAR_WIDTH = 12
LINE_EVERY_S = 10.0  # seconds between two lines about the progress, where there is no terminal


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A running progress bar: ``bar(n)`` advances it by n, ``describe`` changes its words.

    Unless it ``is_live`` there is no bar to be seen: the words are printed as a line now and then, or not at all.
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
        describe = (lambda _words: None) if quiet else at_intervals(tell)
        yield Bar(advance=lambda _amount: None, describe=describe, is_live=False)
        return
    columns = (SpinnerColumn(), _Words(), BarColumn(bar_width=BAR_WIDTH), _Count(), _Left())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield Bar(
            advance=lambda amount: progress.advance(task, amount),
            describe=lambda words: progress.update(task, description=words),
        )


class _Words(ProgressColumn):
    """What is done; of all columns the one that is cut where a terminal is narrow."""

    def render(self, task: Task) -> Text:
        return Text(task.description, no_wrap=True, overflow="ellipsis")


class _Count(ProgressColumn):
    """How much is done of how much, never cut; nothing where that is not known."""

    def get_table_column(self) -> Column:
        return Column(no_wrap=True)

    def render(self, task: Task) -> Text:
        return Text("" if task.total is None else f"{task.completed:.0f}/{task.total:.0f}")


class _Left(_Count):
    """How much real time is left, labelled as such; nothing while that cannot be told."""

    max_refresh = 0.5  # else the number flickers

    def render(self, task: Task) -> Text:
        seconds = task.time_remaining
        return Text("" if task.total is None or seconds is None else left_words(seconds))


def left_words(seconds: float) -> str:
    """Return how much real time is left.

    Examples
    --------
    >>> left_words(20.4), left_words(75.0)
    ('20 s left', '1m15s left')
    """
    return f"{seconds:.0f} s left" if seconds < 59.5 else f"{as_time(seconds)} left"


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
