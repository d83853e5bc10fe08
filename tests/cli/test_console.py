"""What goes to the terminal while something long is done."""

import io
import sys

import pytest

from fielding.cli import console
from fielding.cli.console import progress_bar


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every line come at once instead of after ten seconds."""
    at_intervals = console.at_intervals
    monkeypatch.setattr(console, "at_intervals", lambda say_words: at_intervals(say_words, 0.0))


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
