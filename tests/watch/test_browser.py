"""The live page in a real browser: it follows a run that is being written, and opens clients of any name."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fielding._typing import Json
from fielding.records.lock import lock_folder
from fielding.records.plan import Plan, Variant, write_failure, write_plan
from fielding.watch import live_page as watched
from tests.reporting.big_folder import Shape, big_folder
from tests.reporting.run_folders import round_rows, run_folder
from tests.reporting.run_logs import DRAWN
from tests.watch.serving import Served, serving

pytest.importorskip("starlette", reason="the extra watch is not installed")

if TYPE_CHECKING:
    from playwright.sync_api import Page as Tab
    from playwright.sync_api import Request, Route

pytestmark = pytest.mark.browser
EVIL = "<img src=x onerror=taken()>"
IDS = (EVIL, "a&b=c", "#hash?query", "two  words", "žluťoučký 馬", "&lt;b&gt;", "12")
EVENT: dict[str, Json] = {
    "round": 2, "shift": 0.61, "theta": 1.0, "threshold": 0.33, "started": False, "fired": True, "n_clusters": 2,
    "cluster_ids": [0, 1], "mean_client_distance": 0.3, "silhouettes": {"2": 0.7, "3": 0.4}, "reported": ["ann", "bob"],
    "moved": ["bob"], "joined": [], "silenced": [],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _often(page: "Tab", monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the page ask ten times as often as it does, and the server look at every question."""
    monkeypatch.setattr(watched, "LEAST_S", 0.0)
    monkeypatch.setattr(watched, "MOST_WORK", 1.0)
    page.add_init_script("const later = setTimeout; window.setTimeout = (act, ms) => later(act, ms / 10);")


@pytest.fixture
def reloads(page: "Tab") -> list[str]:
    """Return the addresses that the page went to."""
    seen: list[str] = []
    page.on("framenavigated", lambda frame: seen.append(frame.url) if frame.url.startswith("http") else None)
    return seen


@contextmanager
def seen_by(page: "Tab", folders: list[Path]) -> Iterator[Served]:
    """Serve some folders; the page leaves before the server does, or its next question would be an error."""
    with serving(folders) as server:
        yield server
        page.goto("about:blank")


def append(folder: Path, log: str, *lines: dict[str, Json]) -> None:
    with (folder / f"{log}.jsonl").open("a") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)


def test_the_page_follows_a_run_that_is_being_written(page: "Tab", tmp_path: Path, reloads: list[str]) -> None:
    folder = tmp_path / "run"
    rounds = round_rows([0.1, 0.2, 0.3, 0.4], n_clusters=[1, 1, 2, 2], reclustered=[False, False, True, False])
    with seen_by(page, [folder]) as server:
        page.goto(server.address)
        page.get_by_role("heading", name="Waiting for a run").wait_for()
        assert page.locator(".state .live").inner_text() == "live"

        run_folder(folder, rounds[:2], finished=False)
        with lock_folder(folder):
            page.get_by_role("heading", name="What the run gave so far: run").wait_for()
            page.locator("#state-of-the-runs td", has_text="running").wait_for()
            page.locator(DRAWN).first.wait_for()
            page.evaluate("document.querySelector('#head-accuracy').dataset.kept = 'yes'")
            assert page.locator("#what-the-coordinator-decided-and-why").count() == 0

            append(folder, "events", EVENT)
            append(
                folder,
                "memberships",
                {"round": 0, "changed": [["ann", 0], ["bob", 0]]},
                {"round": 2, "changed": [["bob", 1]]},
            )
            append(folder, "rounds", *rounds[2:])
            decided = page.locator("#what-the-coordinator-decided-and-why")
            decided.wait_for()
        page.locator("#state-of-the-runs td", has_text="stopped").wait_for()

        row = page.locator("section:has(td:text-is('2')) tr", has_text="0.610").first.inner_text()
        assert "0.330" in row
        assert "bob" in row
        (folder / "summary.json").write_text("{}")
        page.locator("#state-of-the-runs").wait_for(state="detached")
        assert page.locator("#head-accuracy").get_attribute("data-kept") == "yes"
        drawn = page.evaluate("document.querySelector('#head-accuracy .js-plotly-plot')._fullData[0].x.length")
        assert drawn >= 4
    assert len(reloads) == 1


def test_a_comparison_shows_the_run_that_fails_as_soon_as_it_does(page: "Tab", tmp_path: Path) -> None:
    variants = tuple(
        Variant(name=name, folder=folder, settings={}) for name, folder in ((EVIL, "evil"), ("global", "global"))
    )
    write_plan(tmp_path, Plan(config={}, variants=variants, seeds=(1, 2), reference="global"))
    run_folder(tmp_path / "global-1", round_rows([0.1, 0.2]), method="global")
    with seen_by(page, [tmp_path]) as server:
        page.goto(server.address)
        page.locator("#state-of-the-runs td", has_text="waiting").first.wait_for()

        (tmp_path / "evil-1").mkdir()
        write_failure(tmp_path / "evil-1", f"{EVIL} broke")
        run_folder(tmp_path / "evil-2", round_rows([0.2, 0.3]), method=EVIL, seed=2)

        page.locator("button.switch", has_text=EVIL).wait_for()
        page.locator(".notes li", has_text=f"{EVIL} broke").wait_for()
        rows = page.locator("#state-of-the-runs tbody tr").all_inner_texts()
        assert sorted(row.split("\t")[2] for row in rows) == ["failed", "finished", "finished", "waiting"]
        assert page.locator("img").count() == 0
        shutil.rmtree(tmp_path / "global-1")
        page.locator("button.switch", has_text=EVIL).wait_for(state="detached")


def test_any_client_is_opened_and_followed(page: "Tab", tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shape = Shape(
        n_clients=len(IDS),
        n_rounds=45,
        method=EVIL,
        name=lambda at: IDS[at],
        label=lambda at: f"{EVIL}{at}",
        finished=False,
    )
    big_folder(folder, shape)
    with seen_by(page, [folder]) as server:
        page.goto(server.address)
        page.wait_for_selector("#client-ids option", state="attached")
        assert page.locator("#client-ids option").count() == len(IDS)
        for client in IDS:
            page.locator("#client input").fill(client)
            page.get_by_role("button", name="Open").click()
            title = page.locator("#client section h2", has_text=client).first
            title.wait_for()
            # The result begins at the top of the window, below the bar that stays there.
            assert 0 <= (title.bounding_box() or {"y": -1})["y"] < 300
            page.evaluate("window.fielding.drawAll()")
            assert page.locator(f"#client {DRAWN}").count() == 3
            assert page.locator("#client .missing:visible").count() == 0
        labels = page.locator("#client .ytick text").all_text_contents()
        assert any(EVIL in label for label in labels)

        page.evaluate("document.querySelectorAll('#client section').forEach(one => { one.dataset.kept = 'yes' })")
        before = page.evaluate(LAST_TEST)
        correct: Json = [20] * len(IDS)
        append(folder, "rounds", *round_rows([0.5] * 46)[45:])
        append(
            folder,
            "clients",
            {"round": 45, "client": list(IDS), "cluster": [0] * len(IDS), "n_test": correct, "correct": correct},
        )
        page.wait_for_timeout(1500)
        page.evaluate("window.fielding.drawAll()")
        assert page.evaluate(LAST_TEST) > before
        assert page.locator("#client section[data-kept]").count() == 3
        assert page.locator("img").count() == 0
        assert page.title().startswith("What the run gave")


LAST_TEST = (
    "Math.max(...[...document.querySelectorAll('#client .js-plotly-plot')].at(-1)._fullData.flatMap(one => [...one.x]))"
)


def test_a_click_on_the_map_opens_the_client(page: "Tab", tmp_path: Path) -> None:
    folder = big_folder(tmp_path / "run", Shape(n_clients=6, n_rounds=25, name=lambda at: f"{EVIL} & {at}"))
    with seen_by(page, [folder]) as server:
        page.goto(server.address)
        page.wait_for_selector("#map-of-clients", state="attached")
        page.evaluate("window.fielding.drawAll()")

        page.evaluate(
            "() => { const plot = document.querySelector('#map-of-clients .js-plotly-plot');"
            " plot.emit('plotly_click', {points: [{data: plot.data[0], customdata: plot.data[0].customdata[4]}]}); }"
        )

        page.locator("#client section h2", has_text=f"{EVIL} & ").first.wait_for()
        assert page.locator("#client .missing:visible").count() == 0


def test_switches_and_slider_keep_their_place_while_numbers_come_in(page: "Tab", tmp_path: Path) -> None:
    folders = [
        big_folder(tmp_path / name, Shape(n_clients=6, n_rounds=65, method=name, finished=False))
        for name in ("fielding", "other")
    ]
    with seen_by(page, folders) as server:
        page.goto(server.address)
        page.wait_for_selector("button.switch")
        page.evaluate("window.fielding.drawAll()")
        page.locator("#inside").select_option("other")
        page.locator("button.switch", has_text="fielding").click()
        slider = page.locator("section:visible .slider input").first
        slider.fill("0")
        slider.evaluate("one => { one.dataset.kept = 'yes' }")
        moment = page.locator("section:visible .slider output").first.inner_text()
        page.locator("#switches button").last.focus()

        append(folders[1], "rounds", *round_rows([0.5] * 70)[65:])
        page.locator("#state-of-the-runs td", has_text="70").wait_for()

        assert page.locator("#inside").input_value() == "other"
        assert page.locator("button.switch", has_text="fielding").get_attribute("aria-pressed") == "false"
        assert page.locator("section:visible .slider input").first.get_attribute("data-kept") == "yes"
        assert page.locator("section:visible .slider output").first.inner_text() == moment
        assert page.evaluate("document.activeElement.className") == "switch"


def test_a_server_that_ended_is_told_and_what_was_drawn_stays(page: "Tab", tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", round_rows([0.1, 0.2]))
    asked: list[str] = []

    def answer_once(route: "Route", request: "Request") -> None:
        asked.append(request.url)
        route.continue_() if len(asked) == 1 else route.fulfill(status=204)

    page.route("**/record", answer_once)
    with seen_by(page, [folder]) as server:
        page.goto(server.address)
        page.get_by_role("heading", name="What the run gave: run").wait_for()

        page.locator(".state .lost", has_text="no connection to fielding watch").wait_for()

        assert page.locator("section").count() > 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_live_page_fits_a_phone_in_both_color_schemes(page: "Tab", tmp_path: Path, scheme: str) -> None:
    folder = big_folder(tmp_path / "run", Shape(n_clients=6, n_rounds=25, name=lambda at: f"client-{'long' * 20}-{at}"))
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    with seen_by(page, [folder]) as server:
        page.goto(server.address)
        page.wait_for_selector("#client-ids option", state="attached")
        page.get_by_role("button", name="Open").click()
        page.locator("#client section").first.wait_for()
        page.evaluate("window.fielding.drawAll()")

        assert page.evaluate("document.documentElement.scrollWidth") <= 390
