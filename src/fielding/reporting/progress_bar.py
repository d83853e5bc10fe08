"""How far long work has come: a bar on a terminal or in a notebook, else a line now and then on standard error."""

import html
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task
from rich.table import Column
from rich.text import Text

from fielding.reporting.formatting import as_time

Advance = Callable[[int], None]
BAR_WIDTH = 12
LINE_EVERY_S = 10.0  # seconds between two lines about the progress, where there is no terminal
UNASKED_EVERY_S = 30.0  # seconds between them, where a program did not ask for any
SHOW_EVERY_S = 0.2  # seconds between two changes of what a notebook shows


def tell(message: str) -> None:
    """Print one line about how the work comes along, which is neither a result nor a failure."""
    sys.stderr.write(f"{' '.join(message.split())}\n")


def note_down(message: str) -> None:
    """Print one line about what a user should know, beside the results."""
    sys.stderr.write(f"note: {' '.join(message.split())}\n")


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
def progress_bar(what: str, total: int | None, *, quiet: bool, line_every_s: float = LINE_EVERY_S) -> Iterator[Bar]:
    """Show how far a long work has come; nothing if quiet. ``line_every_s``: between lines, where there is no bar."""
    console = Console(stderr=True, force_jupyter=False)
    if not quiet and in_notebook():
        with notebook_display() as show:
            shown = _Shown(what, 0, total)
            show([shown])
            yield Bar(
                advance=lambda amount: show([shown.advance(amount)]), describe=lambda words: show([shown.say(words)])
            )
        return
    if quiet or not console.is_terminal:
        describe = (lambda _words: None) if quiet else at_intervals(tell, line_every_s)
        yield Bar(advance=lambda _amount: None, describe=describe, is_live=False)
        return
    columns = (SpinnerColumn(), _Words(), BarColumn(bar_width=BAR_WIDTH), _Count(), _Left())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield Bar(
            advance=lambda amount: progress.advance(task, amount),
            describe=lambda words: progress.update(task, description=words),
        )


def is_seen() -> bool:
    """Return whether somebody looks on: at a terminal, or in a notebook."""
    return in_notebook() or Console(stderr=True, force_jupyter=False).is_terminal


def in_notebook() -> bool:
    """Return whether this is a notebook, which shows HTML."""
    ipython = sys.modules.get("IPython")  # else there is none
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


@dataclass(slots=True, eq=False)
class _Shown:
    """A bar in a notebook: its words, and how much of how much is done."""

    words: str
    done: int
    total: int | None

    def advance(self, amount: int) -> "_Shown":
        self.done += amount
        return self

    def say(self, words: str) -> "_Shown":
        self.words = words
        return self


@contextmanager
def notebook_display() -> Iterator[Callable[[Sequence[Any]], None]]:
    """Yield what shows bars below the cell of a notebook, each with ``words``, ``done`` and ``total``; at last none."""
    ipython: Any = import_module("IPython.display")  # there is one, this is a notebook

    def as_html(bars: Sequence[Any]) -> Any:
        rows = [
            f'<div><progress value="{one.done}" max="{one.total or 1}" style="width:12em"></progress> '
            f"{html.escape(one.words)}</div>"
            for one in bars
        ]
        return ipython.HTML("".join(rows))

    handle: Any = ipython.display(as_html([]), display_id=True)
    last = -SHOW_EVERY_S

    def show(bars: Sequence[Any]) -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= SHOW_EVERY_S:
            last = now
            handle.update(as_html(bars))

    try:
        yield show
    finally:
        handle.update(ipython.HTML(""))


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
