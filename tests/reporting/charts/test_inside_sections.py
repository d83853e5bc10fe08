"""All sections that show the inside of a run: they survive any folder, and no id becomes mark-up."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import plotly.graph_objects as go
import pytest

from fielding.reporting.charts.client_story import draw_client_story
from fielding.reporting.client_reasons import client_ids
from fielding.reporting.numbers.run_record import RunRecord, read_run
from fielding.reporting.page import Page, Section, page_html, section_record
from tests.reporting.charts.inside_runs import HOSTILE, SECTIONS, inside_run

if TYPE_CHECKING:
    from playwright.sync_api import Page as Opened


def all_sections(run: RunRecord) -> list[Section]:
    stories = [section for client in client_ids(run) for section in draw_client_story(run, client)]
    return [*(make(run, "fielding") for make in SECTIONS.values()), *stories]


@pytest.mark.parametrize("name", SECTIONS)
def test_a_whole_run_has_something_to_show(tmp_path: Path, name: str) -> None:
    section = SECTIONS[name](inside_run(tmp_path / "run"), "fielding")

    assert section.missing == ""
    assert section.group == "fielding"
    assert section.figure is not None or section.cards


def test_plotly_accepts_every_figure_and_every_moment_of_it(tmp_path: Path) -> None:
    for section in all_sections(inside_run(tmp_path / "run")):
        if section.figure is None:
            continue
        go.Figure(section.figure)
        for frame in section.frames:
            drawn = [{**trace, **new} for trace, new in zip(section.figure["data"], frame.traces, strict=False)]
            go.Figure({**section.figure, "data": drawn})


@pytest.mark.parametrize("name", SECTIONS)
def test_a_run_that_has_just_begun_says_that_there_is_nothing_yet(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"seed": 1, "config": {"rounds": 9}}))

    section = SECTIONS[name](read_run(folder), "fielding")

    assert section.missing
    assert section.figure is None
    assert client_ids(read_run(folder)) == []


@pytest.mark.parametrize("name", SECTIONS)
@pytest.mark.parametrize("log", ["memberships", "concepts", "events", "clients", "rounds"])
def test_a_lost_log_or_a_torn_one_stops_no_section(tmp_path: Path, name: str, log: str) -> None:
    folder = inside_run(tmp_path / "run").folder
    path = folder / f"{log}.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(f'{lines[0]}[1]\n{{"round": "x", "changed": [[1]]}}\n' + lines[-1][:9])

    torn = SECTIONS[name](read_run(folder), None)
    path.unlink()
    lost = SECTIONS[name](read_run(folder), None)

    for section in (torn, lost):
        assert section.missing or section.figure or section.cards or section.table
        json.dumps(section_record(section), allow_nan=False)


@pytest.mark.parametrize("name", SECTIONS)
def test_numbers_that_no_run_writes_stop_no_section(tmp_path: Path, name: str) -> None:
    folder = inside_run(tmp_path / "run").folder
    with (folder / "memberships.jsonl").open("a") as file:
        file.write(json.dumps({"round": 9, "changed": [["ann", 10**30], ["bob", -7], ["cid", 2**31 - 1]]}) + "\n")
    with (folder / "events.jsonl").open("a") as file:
        strange = {"round": 9, "shift": "far", "fired": 1, "silhouettes": 3, "kinds": [], "guard": 1, "merged": 2}
        file.write(json.dumps(strange) + "\n")

    section = SECTIONS[name](read_run(folder), None)

    assert len(json.dumps(section_record(section), allow_nan=False)) < 200_000


def test_damaged_reports_are_told(tmp_path: Path) -> None:
    folder = inside_run(tmp_path / "run").folder
    (folder / "reports" / "00000004.npz").write_bytes(b"torn")

    run = read_run(folder)

    assert "cannot be read" in SECTIONS["client_map"](run, None).missing
    assert "cannot be read" in draw_client_story(run, "ann")[0].missing
    assert SECTIONS["cluster_cards"](run, None).cards


def test_without_a_manifest_clusters_are_drawn_all_the_same(tmp_path: Path) -> None:
    folder = inside_run(tmp_path / "run").folder
    (folder / "manifest.json").unlink()

    sections = {name: make(read_run(folder), None) for name, make in SECTIONS.items()}

    assert [name for name, section in sections.items() if section.missing] == []
    assert "mostly" not in sections["cluster_cards"].cards[0].note  # whether reports are labels is not known


def test_ids_and_labels_never_become_mark_up_in_a_figure(tmp_path: Path) -> None:
    run = inside_run(tmp_path / "run", HOSTILE, labels=HOSTILE[:3])

    for section in all_sections(run):
        figures = json.dumps([section.figure, [list(frame.traces) for frame in section.frames]])
        assert "<img" not in figures
        assert "<script" not in figures
        assert "</script" not in figures


def test_a_browser_shows_hostile_ids_as_text(page: "Opened", tmp_path: Path) -> None:
    run = inside_run(tmp_path / "run", HOSTILE, labels=HOSTILE[:3])
    shown = [*(make(run, None) for make in SECTIONS.values()), *draw_client_story(run, HOSTILE[0])]
    path = tmp_path / "page.html"
    path.write_text(page_html(Page(title="hostile", lead="", sections=shown)))
    page.on("dialog", lambda dialog: pytest.fail(f"an id ran as a script: {dialog.message}"))
    page.goto(path.as_uri())
    page.evaluate("window.fielding.drawAll()")

    assert page.locator(".js-plotly-plot").count() == sum(section.figure is not None for section in shown)
    assert page.locator("img").count() == 0
    assert page.locator("section", has_text=HOSTILE[0]).count() >= 1
    assert HOSTILE[0] in page.locator(".ytick").all_text_contents()
