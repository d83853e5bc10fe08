"""How far the runs of a comparison are: bars on a terminal or in a notebook, else a line now and then."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from fielding.comparing.plan import PlannedComparison
from fielding.comparing.sweep import Finished, Following, Note, Step
from fielding.errors import printable
from fielding.reporting.formatting import as_time, score_words
from fielding.reporting.progress_bar import (
    LINE_EVERY_S,
    UNASKED_EVERY_S,
    at_intervals,
    in_notebook,
    note_down,
    notebook_display,
    tell,
)


@contextmanager
def followed(
    planned: PlannedComparison, *, quiet: bool, also: Following | None = None, is_unasked: bool = False
) -> Iterator[tuple[Following, "ProgressTally"]]:
    """Show how far the runs of a comparison are; yields what follows them, and what keeps count.

    ``also``: is told the same, and asked whether to go on. ``is_unasked``: a program that did not ask for it is told
    less often, and not of every run.
    """
    also = also or Following()
    plan = planned.plan
    pairs = [(variant, seed) for variant in plan.variants for seed in plan.seeds]
    labels = {plan.folder_of(variant, seed): f"{variant.name}, seed {seed}" for variant, seed in pairs}
    tally = ProgressTally({name: config.rounds for name, config in planned.configs.items()}, labels)
    with comparison_progress(tally, quiet=quiet, is_unasked=is_unasked) as display:

        def on_step(step: Step) -> None:
            tally.step(step)
            also.on_step(step)

        def on_done(one: Finished) -> None:
            display.finish(one)
            also.on_done(one)

        def on_note(note: Note) -> None:
            display.note(note)
            also.on_note(note)

        def is_stopped() -> bool:
            display.tick()
            return also.is_stopped()

        yield replace(also, on_step=on_step, on_done=on_done, on_note=on_note, is_stopped=is_stopped), tally


@dataclass(slots=True, kw_only=True, eq=False)
class _Run:
    """How far one run is: rounds ``done``, how many of them ``before`` this start, and when its first one began."""

    label: str
    n_rounds: int
    done: int = 0
    before: int | None = None
    since_s: float = 0.0
    accuracy: float | None = None
    served: float | None = None
    phase: str = ""
    outcome: str = ""

    @property
    def trained(self) -> int:
        return self.done - (self.before or 0)


class ProgressTally:
    """Keeps how far all runs are, and puts it in words; runs have a number of rounds and a label by their names."""

    def __init__(
        self, n_rounds: Mapping[str, int], labels: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._runs = {name: _Run(label=labels[name], n_rounds=total) for name, total in n_rounds.items()}
        self._clock = clock
        self._since_s: float | None = None
        self._n_noted: Counter[str] = Counter()
        self.n_before = 0

    def step(self, step: Step) -> None:
        """Note how far a run is."""
        run, now = self._runs[step.name], self._clock()
        run.phase = step.phase
        if self._since_s is None:
            self._since_s = now
        if step.n_rounds and run.before is None:  # the first round since it was begun; earlier ones were fast
            run.before, run.since_s = step.n_rounds - 1, now
        run.done = max(run.done, step.n_rounds)
        run.accuracy = run.accuracy if step.accuracy is None else step.accuracy
        run.served = run.served if step.served is None else step.served

    def finish(self, one: Finished) -> str:
        """Note that a run ended, and return a line about it; nothing about one that was whole before."""
        run = self._runs[one.name]
        is_old = not run.phase and one.error is None
        self.n_before += is_old
        run.outcome = "done" if one.error is None else "failed"
        if is_old:
            return ""
        if one.error is not None:
            return printable(f"{run.label}: failed: {one.error}")
        summary = one.summary or {}
        words = score_words({name.removeprefix("final_"): value for name, value in summary.items()})
        return f"{run.label}: done{f', final {words}' if words else ''}"

    def note(self, note: Note) -> str:
        """Return a line about what users should know of a run; nothing if the same was told of another."""
        text = printable(note.text)
        self._n_noted[text] += 1
        return printable(f"{self._runs[note.name].label}: {text}") if self._n_noted[text] == 1 else ""

    def repeated(self) -> list[str]:
        """Return lines about what was told of one run and is true of others."""
        counts = {text: n_runs - 1 for text, n_runs in self._n_noted.items() if n_runs > 1}
        return [f"the same of {n} more run{'s' if n > 1 else ''}: {text}" for text, n in counts.items()]

    @property
    def running(self) -> list[str]:
        """Names of the runs that go on."""
        return [name for name, run in self._runs.items() if run.phase and not run.outcome]

    def place(self, name: str) -> tuple[int, int]:
        """Return how many rounds of how many a run has done."""
        return self._runs[name].done, self._runs[name].n_rounds

    def overall(self) -> tuple[int, int]:
        """Return how many rounds of how many are done or not needed any more, over all runs."""
        done = sum(run.n_rounds if run.outcome else run.done for run in self._runs.values())
        return done, sum(run.n_rounds for run in self._runs.values())

    def words(self, name: str) -> str:
        """Return a line about a run that goes on."""
        run = self._runs[name]
        if not run.done:
            return f"{run.label}: {run.phase}"
        accuracy = "" if run.accuracy is None else f", accuracy {run.accuracy:.3f}"
        accuracy += "" if run.served is None else f", served {run.served:.3f}"
        left = _left(run.n_rounds - run.done, run.trained - 1, self._clock() - run.since_s)
        return f"{run.label}: round {run.done} of {run.n_rounds}{accuracy}{left}"

    def overall_words(self) -> str:
        """Return a line about all runs."""
        outcomes = [run.outcome for run in self._runs.values()]
        n_failed = outcomes.count("failed")
        failed = f", {n_failed} failed" if n_failed else ""
        trained = sum(run.trained for run in self._runs.values())
        done, total = self.overall()
        since_s = self._clock() if self._since_s is None else self._since_s
        left = _left(total - done, trained, self._clock() - since_s) if not all(outcomes) else ", writing results"
        return f"{outcomes.count('done')} of {len(outcomes)} runs done{failed}{left}"


def _left(n_left: int, n_done: int, seconds: float) -> str:
    """Return the time that is left if rounds go on as they did; nothing while that cannot be told.

    Examples
    --------
    >>> _left(30, 10, 5.0), _left(30, 0, 5.0)
    (', 0m15s left', '')
    """
    return f", {as_time(seconds / n_done * n_left)} left" if n_done > 0 and seconds > 0 and n_left else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    """What shows the progress: ``finish`` and ``note`` are told what happens, ``tick`` is called often."""

    finish: Callable[[Finished], None]
    note: Callable[[Note], None]
    tick: Callable[[], None]


@contextmanager
def comparison_progress(tally: ProgressTally, *, quiet: bool, is_unasked: bool = False) -> Iterator[Display]:
    """Show how far runs are: bars on a terminal or in a notebook, a line now and then elsewhere; if quiet, failures."""
    if not quiet and in_notebook():
        with notebook_display() as show:
            yield _show_in_notebook(tally, show)
        return
    console = Console(stderr=True, force_jupyter=False)
    if quiet or not console.is_terminal:
        yield _show_in_lines(tally, quiet=quiet, is_unasked=is_unasked)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=20))
    with Progress(*columns, console=console, transient=True) as progress:
        yield _show_in_bars(tally, progress)


def _show_in_lines(tally: ProgressTally, *, quiet: bool, is_unasked: bool = False) -> Display:
    tell_sometimes = at_intervals(tell, UNASKED_EVERY_S if is_unasked else LINE_EVERY_S)

    def finish(one: Finished) -> None:
        line = tally.finish(one)
        if line and (not (quiet or is_unasked) or one.error is not None):
            tell(line)

    def note(one: Note) -> None:
        if line := tally.note(one):
            note_down(line)

    def tick() -> None:
        if not quiet:
            tell_sometimes("; ".join([tally.overall_words(), *map(tally.words, tally.running)]))

    return Display(finish=finish, note=note, tick=tick)


@dataclass(frozen=True, slots=True)
class _Place:
    """A bar in a notebook."""

    words: str
    done: int
    total: int


def _show_in_notebook(tally: ProgressTally, show: Callable[[list[_Place]], None]) -> Display:
    def finish(one: Finished) -> None:
        line = tally.finish(one)
        if line and one.error is not None:
            tell(line)

    def note(one: Note) -> None:
        if line := tally.note(one):
            note_down(line)

    def tick() -> None:
        places = [_Place(tally.words(name), *tally.place(name)) for name in tally.running]
        show([_Place(tally.overall_words(), *tally.overall()), *places])

    return Display(finish=finish, note=note, tick=tick)


def _show_in_bars(tally: ProgressTally, progress: Progress) -> Display:
    overall = progress.add_task(tally.overall_words())
    tasks: dict[str, TaskID] = {}

    def say_above(line: str) -> None:
        if line:
            progress.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def finish(one: Finished) -> None:
        say_above(tally.finish(one))
        tick()

    def note(one: Note) -> None:
        line = tally.note(one)
        say_above(line and f"note: {line}")

    def tick() -> None:
        running = tally.running  # a bar for every run that goes on, and for no other
        for name in [name for name in tasks if name not in running]:
            progress.remove_task(tasks.pop(name))
        for name in running:
            done, total = tally.place(name)
            if name not in tasks:
                tasks[name] = progress.add_task("", total=total)
            progress.update(tasks[name], description=tally.words(name), completed=done)
        done, total = tally.overall()
        progress.update(overall, description=tally.overall_words(), completed=done, total=total)

    return Display(finish=finish, note=note, tick=tick)
