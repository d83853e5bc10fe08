"""The page of what was tried is what the list of goals and their results say."""

import re
from pathlib import Path

import pytest

from tests.faults.goals import GOALS, ROOT, Goal, Result, ask, table
from tests.faults.reliability import BEGIN, END, PAGE
from tests.faults.soak import Soaked, soak_apart, summary


def test_the_page_shows_the_results_of_all_goals() -> None:
    shown = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]

    assert [goal.number for goal in GOALS] == [f"R{number}" for number in range(1, 29)]
    assert shown == table(GOALS), "write it anew: make reliability ARGS=--page"


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.number)
def test_every_goal_names_files_that_there_are(goal: Goal) -> None:
    named = re.findall(r"`([\w/]+(?:\.py)?)`", goal.where)

    assert [name for name in named if not (ROOT / "tests" / name).exists()] == []


def test_a_result_that_is_short_is_marked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tests.faults.goals.RESULTS", tmp_path / "results")
    goal = Goal(number="R99", what="rain", where="outside")
    untried = table((goal,)).splitlines()[-1]
    goal.keep(Result(reached="3 of 4", is_met=False, date="d", commit="c"))

    assert untried == "| R99 | rain | always | outside |"
    assert table((goal,)).splitlines()[-1] == "| R99 | rain | **short**: 3 of 4 (d, c) | outside |"


def test_a_run_killed_at_random_moments_ends_as_one_never_disturbed() -> None:
    (found,) = ask("kills", "--kills", "5", "--seed", "3")

    assert found["problems"] == []
    assert found["kills"] == 5


def test_a_short_soak_grows_nothing() -> None:
    soaked = soak_apart("fielding", 100, 100)

    assert len(soaked.rss) == len(soaked.cpu_s) == 20
    assert len(set(soaked.fds[5:])) == 1
    assert soaked.rss_growth < 0.05  # a hundred rounds are its warm-up


def test_what_grows_is_told() -> None:
    still = Soaked(
        method="global", rounds=40, clients=2, rss=[100] * 20, fds=[5] * 20, cpu_s=[1.0] * 20, log_bytes=[9] * 20
    )
    leaking = Soaked(
        method="leak",
        rounds=40,
        clients=2,
        rss=[100 + at for at in range(20)],
        fds=[5 + at for at in range(20)],
        cpu_s=[1.0 + at for at in range(20)],
        log_bytes=[9 + 3 * at for at in range(20)],
    )

    assert still.problems() == []
    assert [one.split(" ")[1] for one in leaking.problems()] == ["memory", "open", "logs"]
    assert leaking.cpu_growth > 2
    assert summary([still, leaking])[1] is False
