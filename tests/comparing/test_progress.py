"""Words and bars about many runs at once; the clock is the test's."""

import io
from dataclasses import dataclass

import pytest
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from fielding.comparing import progress as shown
from fielding.comparing.progress import ProgressTally, comparison_progress
from fielding.comparing.sweep import Finished, Note, Step


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tally(clock: Clock) -> ProgressTally:
    return ProgressTally(
        {"a-1": 10, "b-1": 10, "a-2": 20}, {"a-1": "a, seed 1", "b-1": "b, seed 1", "a-2": "a, seed 2"}, clock
    )


def test_a_run_is_told_with_its_round_accuracy_and_time_left(tally: ProgressTally, clock: Clock) -> None:
    tally.step(Step(name="a-1", phase="reading digits"))
    before = tally.words("a-1")
    tally.step(Step(name="a-1", phase="training", n_rounds=1))
    clock.now += 6.0
    tally.step(Step(name="a-1", phase="training", n_rounds=4, accuracy=0.5))
    tally.step(Step(name="a-1", phase="training", n_rounds=4))

    assert before == "a, seed 1: reading digits"
    assert tally.words("a-1") == "a, seed 1: round 4 of 10, accuracy 0.500, 0m12s left"
    assert tally.running == ["a-1"]
    assert tally.place("a-1") == (4, 10)


def test_rounds_of_an_earlier_beginning_do_not_make_it_look_fast(tally: ProgressTally, clock: Clock) -> None:
    tally.step(Step(name="a-2", phase="training"))
    tally.step(Step(name="a-2", phase="training", n_rounds=11))
    clock.now += 8.0
    tally.step(Step(name="a-2", phase="training", n_rounds=15))

    assert tally.words("a-2") == "a, seed 2: round 15 of 20, 0m10s left"


def test_all_runs_are_told_with_what_is_left_of_all(tally: ProgressTally, clock: Clock) -> None:
    assert tally.overall_words() == "0 of 3 runs done"
    tally.step(Step(name="a-1", phase="training"))
    clock.now += 10.0
    tally.step(Step(name="a-1", phase="training", n_rounds=1))
    tally.step(Step(name="a-1", phase="training", n_rounds=10))
    tally.finish(Finished(name="a-1", summary={"final_accuracy": 0.5}))
    tally.step(Step(name="b-1", phase="training"))
    tally.finish(Finished(name="b-1", summary=None, error="broken"))

    # 10 rounds took 10 s, 20 are left; those of the failed run will not come.
    assert tally.overall() == (20, 40)
    assert tally.overall_words() == "1 of 3 runs done, 1 failed, 0m20s left"


def test_when_all_runs_ended_results_are_written(tally: ProgressTally) -> None:
    for name in ("a-1", "b-1", "a-2"):
        tally.finish(Finished(name=name, summary={}))

    assert tally.overall_words() == "3 of 3 runs done, writing results"


def test_the_end_of_a_run_is_a_line(tally: ProgressTally) -> None:
    tally.step(Step(name="a-1", phase="training"))
    tally.step(Step(name="b-1", phase="training"))

    assert tally.finish(Finished(name="a-1", summary={"final_accuracy": 0.51249})) == (
        "a, seed 1: done, final accuracy 0.512"
    )
    assert tally.finish(Finished(name="b-1", summary=None, error="no\ndata")) == "b, seed 1: failed: no data"
    assert tally.running == []


def test_what_was_whole_before_is_counted_and_not_told(tally: ProgressTally) -> None:
    assert tally.finish(Finished(name="a-1", summary={})) == ""
    assert tally.n_before == 1
    assert tally.overall_words() == "1 of 3 runs done"


@pytest.mark.parametrize("quiet", [False, True])
def test_without_a_terminal_there_are_lines(
    tally: ProgressTally, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    monkeypatch.setattr(shown, "at_intervals", lambda say, _seconds: say)
    with comparison_progress(tally, quiet=quiet) as display:
        tally.step(Step(name="a-1", phase="training", n_rounds=2))
        display.tick()
        display.finish(Finished(name="a-1", summary={}))
        display.finish(Finished(name="b-1", summary=None, error="broken"))
        display.note(Note(name="a-1", text="the server is away"))
        display.note(Note(name="b-1", text="the server is away"))

    lines = capsys.readouterr().err.splitlines()
    all_lines = ["0 of 3 runs done; a, seed 1: round 2 of 10", "a, seed 1: done", "b, seed 1: failed: broken"]
    all_lines.append("note: a, seed 1: the server is away")
    assert lines == (all_lines[2:] if quiet else all_lines)


def test_programs_that_did_not_ask_are_told_of_the_whole_and_of_failures(
    tally: ProgressTally, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "at_intervals", lambda say, seconds: lambda words: say(f"{seconds:g} s: {words}"))
    with comparison_progress(tally, quiet=False, is_unasked=True) as display:
        tally.step(Step(name="a-1", phase="training", n_rounds=2))
        display.tick()
        display.finish(Finished(name="a-1", summary={}))
        display.finish(Finished(name="b-1", summary=None, error="broken"))

    lines = capsys.readouterr().err.splitlines()
    assert lines == ["30 s: 0 of 3 runs done; a, seed 1: round 2 of 10", "b, seed 1: failed: broken"]


def test_on_a_terminal_there_is_a_bar_for_every_run_that_goes_on(clock: Clock) -> None:
    tally = ProgressTally({"a-1": 10, "b-1": 10}, {"a-1": "[red]a, seed 1", "b-1": "b, seed 1"}, clock)
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100, color_system=None)
    with Progress(TextColumn("{task.description}", markup=False), BarColumn(), console=console) as progress:
        display = shown._show_in_bars(tally, progress)
        tally.step(Step(name="a-1", phase="training", n_rounds=2))
        tally.step(Step(name="b-1", phase="training", n_rounds=5))
        display.tick()
        bars = {task.description: (task.completed, task.total) for task in progress.tasks}
        display.finish(Finished(name="a-1", summary=None, error="no [data]"))
        left = [task.description for task in progress.tasks]
        display.note(Note(name="b-1", text="[away]"))

    assert bars == {
        "0 of 2 runs done": (7, 20),
        "[red]a, seed 1: round 2 of 10": (2, 10),
        "b, seed 1: round 5 of 10": (5, 10),
    }
    assert left == ["0 of 2 runs done, 1 failed", "b, seed 1: round 5 of 10"]
    assert "[red]a, seed 1: failed: no [data]" in file.getvalue()
    assert "note: b, seed 1: [away]" in file.getvalue()


def test_what_a_run_says_cannot_command_the_terminal(tally: ProgressTally) -> None:
    assert tally.finish(Finished(name="a-1", summary=None, error="no\x1b[2Jdata")) == "a, seed 1: failed: no?[2Jdata"
    assert tally.note(Note(name="b-1", text="\x1b]0;title\x07away")) == "b, seed 1: ?]0;title?away"


def test_a_note_is_told_once_and_then_counted(tally: ProgressTally) -> None:
    lines = [tally.note(Note(name=name, text="the server is away")) for name in ("a-1", "b-1", "a-2")]

    assert lines == ["a, seed 1: the server is away", "", ""]
    assert tally.repeated() == ["the same of 2 more runs: the server is away"]
