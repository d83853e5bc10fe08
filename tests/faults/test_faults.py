"""Commands whose calls to the file system fail, that are killed or lose their power: all by the injector."""

from pathlib import Path

import pytest

from tests.faults.reliability import BEGIN, COMPILER, END, PAGE, inject, table

pytestmark = pytest.mark.skipif(
    COMPILER is None, reason="no C compiler here; install one (Debian: apt-get install gcc libc6-dev)"
)


def test_a_sample_of_faults_kills_and_power_cuts_costs_nothing(tmp_path: Path) -> None:
    figures, problems = inject(tmp_path, 20, 8, 3, 3)

    assert problems == []
    assert sum(figures["attempts"].values()) == 14
    assert min(figures["calls"].values()) > 50


@pytest.mark.slow
def test_all_faults_kills_and_power_cuts_cost_nothing(tmp_path: Path) -> None:
    _, problems = inject(tmp_path, 0, 0, 0, 0)

    assert problems == []


def test_the_page_has_a_place_for_the_table() -> None:
    attempts = {"EIO": 9, "EACCES": 1, "kill": 3, "cut": 2}
    figures = {"calls": {"run": 100, "replay": 20}, "attempts": attempts}
    lines = table(figures, ["run, EIO at call 7 (read x): it ended otherwise"], date="d", commit="c")

    assert PAGE.read_text().index(BEGIN) < PAGE.read_text().index(END)
    assert lines.splitlines()[-1] == (
        "| R4 | every call fails with EIO, EACCES | 200: goes on, or one line and exit 1 | 9 of 10 | 240 | d | c |"
    )
