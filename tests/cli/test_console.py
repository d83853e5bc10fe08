"""What goes to the terminal while something long is done."""

import io
import sys

import pytest

from fielding.cli.console import progress_bar, say_wide_table
from fielding.reporting import progress_bar as shown


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every line come at once instead of after ten seconds."""
    at_intervals = shown.at_intervals
    monkeypatch.setattr(shown, "at_intervals", lambda say_words, _seconds: at_intervals(say_words, 0.0))


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize(("quiet", "said"), [(False, "round 4 of 9\n"), (True, "")])
def test_without_a_terminal_words_are_lines(capsys: pytest.CaptureFixture[str], quiet: bool, said: str) -> None:
    with progress_bar("preparing", 9, quiet=quiet) as bar:
        bar(4)
        bar.describe("round 4 of 9")

    assert not bar.is_live
    assert capsys.readouterr() == ("", said)


def test_the_first_line_comes_late(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("preparing", 9, quiet=False) as bar:
        bar.describe("round 1 of 9")

    assert capsys.readouterr().err == ""


def test_a_terminal_shows_a_bar_with_the_newest_words(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")

    with progress_bar("preparing", 9, quiet=False) as bar:
        bar(4)
        bar.describe("accuracy 0.910")

    assert bar.is_live
    assert "accuracy 0.910" in screen.getvalue()
    assert "4/9" in screen.getvalue()


def test_a_narrow_terminal_cuts_the_words_and_neither_the_count_nor_the_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "60"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("rich.progress.Task.time_remaining", property(lambda _task: 20.0))

    with progress_bar("preparing", 3000, quiet=False) as bar:
        bar.describe("accuracy 0.912, 12 clusters, simulated 56m10s")
        bar(390)

    shown = screen.getvalue()
    assert "12 cl" in shown
    assert "simulated" not in shown
    assert "390/3000" in shown
    assert "20 s left" in shown


ROWS = [
    ["method", "final accuracy", "minus global", "p", "worst tenth", "moves"],
    ["fielding", "0.975 ± 0.003*", "+0.027 ± 0.008", "< 0.001", "0.894 ± 0.008", "269"],
    ["global", "0.948 ± 0.007", "-", "-", "0.837 ± 0.017", "-"],
]


@pytest.mark.parametrize(
    ("width", "heads"),
    [
        (80, ["method final accuracy minus global p worst tenth moves"]),
        (50, ["method fielding global"]),
        (34, ["method fielding", "method global"]),
    ],
)
def test_a_table_that_does_not_fit_is_turned_and_cut_into_parts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int, heads: list[str]
) -> None:
    monkeypatch.setattr("fielding.cli.console.WIDTH_ELSEWHERE", width)

    say_wide_table(ROWS)

    lines = capsys.readouterr().out.splitlines()
    found = [" ".join(line.split()) for line in lines if line.startswith("method")]
    assert found == heads
    assert any("0.975 ± 0.003*" in line for line in lines)  # nothing is broken
    assert max(map(len, lines)) <= width
