from typing import TYPE_CHECKING

import numpy as np
import pytest

from fielding import Coordinator, Policy, ReportBatch
from fielding.engine.replay import replay, replay_summary
from fielding.records.replay_folder import ReplayFolder
from fielding.reporting.replay_page import replay_page, sizes_figure
from tests.reporting.run_logs import DRAWN

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from fielding._typing import Json


@pytest.fixture
def rows(tmp_path: "Path") -> list[dict[str, "Json"]]:
    rng = np.random.default_rng(0)
    concepts = rng.dirichlet(np.full(5, 0.3), size=3)
    folder = ReplayFolder(tmp_path / "replay", {})
    folder.begin()
    steps = [
        (step, ReportBatch(client_ids=range(20), representations=concepts[(np.arange(20) + step) % 3]))
        for step in range(5)
    ]
    replay(steps, Coordinator(Policy(seed=1)), folder)
    folder.close()
    return folder.lines("decisions.jsonl")


def test_the_stack_of_clusters_adds_up_to_the_active_clients(rows: list[dict[str, "Json"]]) -> None:
    stack = sizes_figure(rows)["data"]

    for at, row in enumerate(rows):
        assert sum(layer["y"][at] for layer in stack) == row["n_active"]


def test_the_last_step_of_the_stack_is_as_wide_as_the_one_before(rows: list[dict[str, "Json"]]) -> None:
    spread = [{**row, "step": 3 * int(str(row["step"]))} for row in rows]

    layer = sizes_figure(spread)["data"][0]
    assert layer["x"] == [0, 3, 6, 9, 12, 15]
    assert layer["y"][-1] == layer["y"][-2]
    assert sizes_figure(rows[:1])["data"][0]["x"] == [0, 1]
    assert sizes_figure([])["data"] == []


@pytest.mark.browser
def test_the_page_draws_all_four_figures_without_a_network(
    page: "Page", tmp_path: "Path", rows: list[dict[str, "Json"]]
) -> None:
    html = replay_page(
        rows, replay_summary(rows), {"source": "a <b>file</b>.npz", "fielding": "0", "policy": {"tau": 0.3}}
    )
    (tmp_path / "page.html").write_text(html)

    page.goto((tmp_path / "page.html").as_uri())
    page.evaluate("window.fielding.drawAll()")

    assert page.locator(DRAWN).count() == 4
    assert page.locator("section").count() == 5
    assert "a <b>file</b>.npz" in page.locator("p").first.inner_text()
    assert "20 to join, the others when data drifted" in page.locator(".card").nth(1).inner_text()
    assert page.locator(".card").first.inner_text().split("\n")[:2] == ["clients", "20"]
