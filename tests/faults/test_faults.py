"""Commands whose calls to the file system fail, that are killed or lose their power: all by the injector."""

from pathlib import Path

import pytest

from tests.faults.reliability import COMPILER, inject, injected

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


def test_what_the_injector_found_counts_for_its_goals() -> None:
    figures = {"calls": {"run": 100, "replay": 20}, "attempts": {"EIO": 9, "EACCES": 1, "kill": 3, "cut": 120}}

    assert injected(figures, ["run, EIO at call 7 (read x): it ended otherwise"]) == {
        "R2": ("3 of 3, there are 120", False),
        "R3": ("120 of 120, there are 120", True),
        "R4": ("9 of 10, there are 240 (EIO, EACCES)", False),
    }
