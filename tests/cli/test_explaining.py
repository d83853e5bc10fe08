"""Words under tables: only those of figures that are there."""

from pathlib import Path

import pytest

from fielding.cli.run import explained
from tests.cli.in_process import CONFIG, RUN, Command


def test_words_of_figures_that_say_all_are_left_out() -> None:
    assert explained(["moves", "final_accuracy"]) == ""
    assert explained(["final_next_accuracy", "final_newest_accuracy"]).startswith("Newest interval: ")


def test_a_run_says_what_the_newest_and_the_next_interval_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(CONFIG)
    command = Command(monkeypatch, capsys)

    assert command(*RUN) == 0
    assert (
        "\nNewest interval: of the test samples in the clients' windows those that came last. "
        "Next interval: samples that arrive next, before any client trains on them.\nresults: out\n"
    ) in command.out
