import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fielding import __version__
from fielding.cli.options import parse_factor
from fielding.errors import OptionError
from tests.cli.invoke import fielding

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.mark.parametrize("command", [[], ["replay"], ["demo"], ["show"], ["data"], ["data", "info"], ["bench"]])
def test_every_command_helps(command: list[str]) -> None:
    done = fielding(*command, "--help")

    assert done.returncode == 0
    assert "Usage" in done.stdout


def test_the_version_is_told() -> None:
    assert fielding("--version").stdout == f"fielding {__version__}\n"


@pytest.mark.parametrize("arguments", [["replya"], ["replay"], ["replay", "x"], ["replay", "x", "--out", "y", "--no"]])
def test_wrong_use_exits_with_2_and_no_traceback(arguments: list[str]) -> None:
    done = fielding(*arguments)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_factors_are_numbers_fractions_or_infinity() -> None:
    assert [parse_factor(text) for text in ("0.5", "1/8", " inf ")] == [0.5, 0.125, float("inf")]
    for text in ("", "1/0", "a third", "nan"):
        with pytest.raises(OptionError, match="is not a number"):
            parse_factor(text)


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "out"
    done = fielding("demo", "--out", folder)
    assert done.returncode == 0, done.stderr
    assert "re-clusterings of all" in done.stdout
    return folder


def test_the_demo_can_be_run_again_and_spares_other_files(demo_folder: Path) -> None:
    before = (demo_folder / "decisions.jsonl").read_bytes()
    (demo_folder / "mine.txt").write_text("keep me")

    again = fielding("demo", "--out", demo_folder, "--json")

    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["n_clients"] == 120
    assert (demo_folder / "decisions.jsonl").read_bytes() == before
    assert (demo_folder / "mine.txt").read_text() == "keep me"


def test_the_demo_shows_moves_that_are_enough_and_some_that_are_not(demo_folder: Path) -> None:
    rows = [json.loads(line) for line in (demo_folder / "decisions.jsonl").read_text().splitlines()]

    assert sum(row["n_moved"] > 0 and not row["reclustered"] for row in rows) > 10
    assert sum(row["reclustered"] for row in rows) >= 2
    assert all(row["mean_client_distance"] < 0.7 * row["mean_distance_unclustered"] for row in rows)


@pytest.mark.browser
def test_the_page_of_the_demo_opens_without_a_network(page: "Page", demo_folder: Path) -> None:
    page.goto((demo_folder / "report.html").as_uri())
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot .main-svg').length >= 4")

    assert page.title() == "What the coordinator did"
    assert page.locator(".card").first.inner_text().split("\n")[1] == "120"
