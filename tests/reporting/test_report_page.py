"""The page about runs: whole for a healthy folder, and for a damaged one all that can still be drawn."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fielding import run
from fielding._typing import Json
from fielding.errors import InputError, OptionError
from fielding.records.plan import Plan, Variant, write_failure, write_plan
from fielding.records.run_folder import MANIFEST
from fielding.reporting.charts.curves import draw_accuracy
from fielding.reporting.charts.figures import GRAY, PALETTE
from fielding.reporting.numbers.groups import gather_runs
from fielding.reporting.page import PARTS, Page, Section, page_html, page_record
from fielding.reporting.report_page import make_page, read_report, report_lead, write_report
from tests.reporting.big_folder import Shape, big_folder
from tests.reporting.run_folders import compared, round_rows, run_folder
from tests.reporting.run_logs import DRAWN

if TYPE_CHECKING:
    from playwright.sync_api import Page as Tab

CANNOT = "This cannot be drawn"
LOGS = ("rounds", "events", "memberships", "concepts", "clients", "timings")
EVIL = "<img src=x onerror=\"document.title='taken'\">&amp; #1 é"
CURVE = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a real run, small, with clusters and moves."""
    out = tmp_path_factory.mktemp("healthy") / "run"
    config = {
        "rounds": 12,
        "trace": {"clients": 16, "gap": 4, "window": 8, "samples": 12},
        "model": {"hidden": 8},
        "training": {"participants": 8, "local_steps": 2, "batch_size": 5},
        "coordinator": {"detector": "any-change"},
        "evaluation": {"every": 2},
        "checkpoint": {"every": 4},
    }
    run(config, out, page=False)
    return out


def page_of(*folders: Path) -> Page:
    """Return the page about some folders, after it was really written as HTML."""
    page = make_page(read_report(folders)[0])
    assert "</html>" in page_html(page)
    return page


def cannot(page: Page) -> list[str]:
    return [f"{section.title}: {section.missing}" for section in page.sections if CANNOT in section.missing]


def titles(page: Page) -> list[str]:
    return [section.title for section in page.sections]


def shown(page: Page) -> list[Section]:
    """Return all that a reader can come to see: sections, and the views of those that have several."""
    return [one for section in page.sections for one in section.views or [section]]


def test_every_section_of_a_healthy_run_is_drawn(healthy: Path) -> None:
    page = page_of(healthy)

    assert cannot(page) == []
    assert list(page.notes) == []
    assert not [section.title for section in page.sections if section.missing]
    drawn = [one for one in shown(page) if one.figure or one.table or one.cards]
    assert len(drawn) >= 20


def test_the_page_opens_with_a_sentence_and_three_charts_and_goes_on_in_five_parts(healthy: Path) -> None:
    page = page_of(healthy)

    assert page.sentence.startswith("Final accuracy 0.")
    assert len(page.highlights) == 3
    assert all(one.figure is not None for one in page.highlights)
    assert list(dict.fromkeys(section.part for section in page.sections)) == list(PARTS)


def test_what_has_nothing_to_show_is_told_in_one_table(tmp_path: Path) -> None:
    page = page_of(run_folder(tmp_path / "run", round_rows(CURVE), method="global"))

    table = {row[0]: row[1] for row in page.sections[-1].table}
    assert page.sections[-1].title == "What is left out"
    assert "No run put clients into clusters" in table["Clusters over rounds"]
    assert "clients.jsonl" in table["How single clients fare"]
    assert not {"Clusters over rounds", "How single clients fare"} & set(titles(page))


def test_no_column_of_a_table_says_the_same_in_every_row(tmp_path: Path) -> None:
    page = page_of(
        compared(tmp_path / "runs", {"global": {1: CURVE, 2: CURVE}, "fielding": {1: CURVE[::-1], 2: CURVE}})
    )

    (results,) = (one for one in page.sections if one.title == "Results in numbers")

    assert "MB down/up" not in results.table[0]
    assert "MB down/up 0.006/0.003" in results.text
    for one in shown(page):
        if len(one.table) > 2 and one.title != "Settings that all groups share":
            columns = list(zip(*one.table[1:], strict=True))[1:]
            assert all(len(set(column)) > 1 for column in columns), one.title


def test_a_comparison_has_a_table_to_copy_and_a_switch_per_group(tmp_path: Path) -> None:
    folder = compared(tmp_path / "runs", {"global": {1: CURVE, 2: CURVE}, "fielding": {1: CURVE, 2: CURVE}})

    page = page_of(folder)

    assert cannot(page) == []
    assert list(page.groups or ()) == ["fielding", "global"]
    (results,) = (one for one in page.sections if one.title == "Results in numbers")
    assert results.copies["Markdown"].startswith("| method |")
    assert "\\begin{tabular}" in results.copies["LaTeX"]
    assert page.title == "2 methods compared"


def test_a_group_has_one_colour_everywhere_and_the_reference_is_gray(tmp_path: Path) -> None:
    folder = compared(tmp_path / "runs", {"global": {1: CURVE, 2: CURVE}, "fielding": {1: CURVE, 2: CURVE}})

    page = page_of(folder)

    colors: dict[str, set[str]] = {}
    for one in (*page.highlights, *shown(page)):
        for trace in (one.figure or {"data": ()})["data"]:
            if trace.get("mode") in ("lines", "markers") and not trace.get("fill") and "meta" in trace:
                where = trace["line"] if trace["mode"] == "lines" else trace["marker"]
                colors.setdefault(trace["meta"]["group"], set()).add(where["color"])
    assert (
        page.groups == {"fielding": "#0072B2", "global": "#7F7F7F"} == {"fielding": PALETTE[0], "global": PALETTE[GRAY]}
    )
    assert {name: {one for one in mine if one.startswith("#")} for name, mine in colors.items()} == {
        name: {color} for name, color in page.groups.items()
    }


def test_a_run_of_its_own_has_its_figures_in_a_table_to_copy(tmp_path: Path) -> None:
    page = page_of(run_folder(tmp_path / "run", round_rows(CURVE)))

    (results,) = (one for one in page.sections if one.title == "Results in numbers")
    # The later half of the six evaluations: the mean of 0.4, 0.5 and 0.6.
    assert ["final accuracy on the window, mean over clients", "0.5"] in [list(row) for row in results.table]
    assert results.text == "Final figures: mean over the 3 evaluations since round 3."
    assert "| rounds | 6 |" in results.copies["Markdown"]


def test_metrics_of_ones_own_have_a_chart_each_and_rows_in_the_table(tmp_path: Path) -> None:
    more: dict[str, list[Json]] = {"metric/f1": [0.25] * 6, "next_metric/f1": [0.5] * 6, "served_metric/f1": [0.75] * 6}
    page = page_of(run_folder(tmp_path / "run", round_rows(CURVE, **more)))

    (chart,) = (one for one in page.sections if one.title == "f1")
    assert chart.part == "Result"
    (results,) = (one for one in page.sections if one.title == "Results in numbers")
    rows = [list(row) for row in results.table]
    at = rows.index(["f1", "0.25"])
    assert rows[at + 1 : at + 3] == [["f1 (next)", "0.5"], ["f1 (served)", "0.75"]]


def test_a_run_that_goes_on_has_no_final_figures_yet(tmp_path: Path) -> None:
    alone = page_of(run_folder(tmp_path / "alone", round_rows(CURVE), finished=False))
    grouped = page_of(run_folder(tmp_path / "grouped", round_rows(CURVE, n_clusters=[2] * 6), finished=False))

    names = []
    for page in (alone, grouped):
        (results,) = (one for one in page.sections if one.title == "Results in numbers")
        names.append([row[0] for row in results.table])
    assert names[0] == ["figure", "rounds", "simulated time", "down", "up"]
    assert names[1][:3] == ["figure", "rounds", "clusters now"]


def test_another_reference_can_be_chosen_and_a_wrong_one_is_named_with_the_nearest(tmp_path: Path) -> None:
    folder = compared(tmp_path / "runs", {"global": {1: CURVE}, "fielding": {1: CURVE}})

    assert read_report([folder], reference="fielding")[1]["reference"] == "fielding"
    with pytest.raises(OptionError, match="unknown reference 'feilding'; did you mean 'fielding'"):
        read_report([folder], reference="feilding")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        read_report([tmp_path])
    with pytest.raises(InputError, match="is no folder"):
        read_report([tmp_path / "none"])


def test_a_run_that_has_only_begun_says_so(tmp_path: Path) -> None:
    page = page_of(run_folder(tmp_path / "run", [], finished=False))

    assert cannot(page) == []
    assert titles(page)[0] == "State of the runs"


def test_a_comparison_shows_runs_in_every_state(tmp_path: Path) -> None:
    variants = tuple(Variant(name=name, folder=name, settings={}) for name in ("global", "fielding"))
    plan = Plan(config={"rounds": 6}, variants=variants, seeds=(1, 2, 3), reference="global")
    folder = tmp_path / "compared"
    folder.mkdir()
    write_plan(folder, plan)
    for name in ("global", "fielding"):
        run_folder(folder / f"{name}-1", round_rows(CURVE), method=name, seed=1)
    run_folder(folder / "fielding-2", round_rows(CURVE[:3]), seed=2, finished=False)
    (folder / "global-2").mkdir()
    write_failure(folder / "global-2", "its process was killed (SIGKILL)")

    page = page_of(folder)

    (table,) = (section.table for section in page.sections if section.title == "State of the runs")
    states = {(row[0], row[1]): row[2] for row in table[1:]}
    assert states == {
        ("global", "1"): "finished", ("global", "2"): "failed", ("global", "3"): "waiting",
        ("fielding", "1"): "finished", ("fielding", "2"): "stopped", ("fielding", "3"): "waiting",
    }  # fmt: skip
    assert any("SIGKILL" in note for note in page.notes)
    assert cannot(page) == []


def garble(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[len(lines) // 2] = b'{"round": \xff\xfe garbage\n'
    path.write_bytes(b"".join(lines))


def cut_off(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def other_lengths(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**line, "correct": line["correct"][1:]}) + "\n" for line in lines))


def other_types(path: Path) -> None:
    rounds = [
        {"round": "zero", "changed": [[0, 1]]},
        {"round": 1, "changed": {"0": 1}},
        {"round": 2, "changed": [[[], 0]]},
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in [*rounds, {"round": 3, "changed": [[0, True], [1]]}, 7]))


def garble_reports(folder: Path) -> None:
    for path in sorted(folder.iterdir())[1:]:
        path.write_bytes(b"no archive")


DAMAGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    **{f"{name} {how.__name__}": (f"{name}.jsonl", how) for name in LOGS for how in (remove, garble, cut_off, empty)},
    "manifest garbled": ("manifest.json", empty),
    "manifest cut off": ("manifest.json", cut_off),
    "no checkpoints": ("checkpoints", remove),
    "no reports": ("reports", remove),
    "reports garbled": ("reports", garble_reports),
    "summary missing": ("summary.json", remove),
    "summary garbled": ("summary.json", empty),
    "config missing": ("config.toml", remove),
    "clients of other lengths": ("clients.jsonl", other_lengths),
    "memberships of other types": ("memberships.jsonl", other_types),
    "concepts of other types": ("concepts.jsonl", other_types),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_drawn_as_far_as_it_goes(healthy: Path, tmp_path: Path, damage: str) -> None:
    name, do_harm = DAMAGES[damage]
    folder = tmp_path / "run"
    shutil.copytree(healthy, folder)
    do_harm(folder / name)

    page = page_of(folder)

    assert cannot(page) == []
    assert sum(one.figure is not None for one in shown(page)) >= (1 if name == "rounds.jsonl" else 5)
    is_told = [note for note in page.notes if name in note]
    assert (
        is_told or name not in ("rounds.jsonl", "events.jsonl", "manifest.json") or "cut" in damage or "empty" in damage
    )


STRANGE: st.SearchStrategy[Json] = st.sampled_from(
    [None, "x", -1, 10**400, float("inf"), float("nan"), [], {}, True, [[]], "", -1e308, 2**63]
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(choice=st.data())
def test_no_value_in_a_log_keeps_the_page_from_being_written(
    healthy: Path, tmp_path_factory: pytest.TempPathFactory, choice: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("strange") / "run"
    shutil.copytree(healthy, folder)
    name = choice.draw(st.sampled_from([*(f"{one}.jsonl" for one in LOGS), "manifest.json"]))
    lines = (folder / name).read_text().splitlines() if name.endswith("l") else [(folder / name).read_text()]
    at = choice.draw(st.integers(0, len(lines) - 1))
    row = json.loads(lines[at])
    for key in choice.draw(st.lists(st.sampled_from(sorted(row)), min_size=1, max_size=3)):
        row[key] = choice.draw(STRANGE)
    lines[at] = json.dumps(row)
    (folder / name).write_text("\n".join(lines) + "\n")

    page_of(folder)


def test_a_page_goes_into_a_folder_that_is_made_for_it(tmp_path: Path) -> None:
    report = read_report([run_folder(tmp_path / "run", round_rows(CURVE))])

    write_report(*report, tmp_path / "new" / "newer" / "page.html")

    assert (tmp_path / "new" / "newer" / "page.html").read_text().endswith("</html>\n")


def hostile(folder: Path) -> list[Path]:
    """Return runs whose every name tries to be mark-up."""
    return [
        big_folder(
            folder / f"run-{at}",
            Shape(
                n_clients=12, n_rounds=60, method=f"{EVIL} {at}", name=lambda one: f"{EVIL}{one}",
                label=lambda one: f"{EVIL}{one}", finished=at == 0,
            ),
        )
        for at in range(2)
    ]  # fmt: skip


@pytest.mark.browser
def test_hostile_ids_labels_and_methods_stay_text_and_switches_and_slider_work(page: "Tab", tmp_path: Path) -> None:
    made = write_report(*read_report(hostile(tmp_path)), tmp_path / "page.html")
    record: Any = page_record(made)
    sections = [one for one in record["sections"] if one["figure"] or (one["views"] and one["views"][0]["figure"])]

    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector("h1")
    page.evaluate("window.fielding.drawAll()")

    assert cannot(made) == []
    assert "taken" not in page.title()
    assert page.locator("img").count() == 0
    inside = {section["group"] for section in sections if section["group"]}
    assert len(inside) == 2
    hidden = [one for one in sections if one["group"] not in (None, f"{EVIL} 0")]
    assert page.locator(f"#sections {DRAWN}").count() == len(sections) - len(hidden)
    assert page.locator(f"#highlights {DRAWN}").count() == len(made.highlights) == 3

    button = page.locator("button.switch").first
    before = page.evaluate(VISIBLE)
    button.click()
    page.evaluate("window.fielding.drawAll()")
    assert page.evaluate(VISIBLE) < before
    button.click()
    page.evaluate("window.fielding.drawAll()")
    assert page.evaluate(VISIBLE) == before

    slider = page.locator("section:visible .slider input").first
    label = page.locator("section:visible .slider output").first
    last = label.inner_text()
    slider.fill("0")
    assert label.inner_text() != last
    page.locator("#inside").select_option(index=1)
    page.evaluate("window.fielding.drawAll()")
    assert page.locator("img").count() == 0


@pytest.mark.browser
@pytest.mark.parametrize("width", [1366, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["run", "comparison"])
def test_a_real_page_has_its_head_its_five_parts_and_nothing_wider_than_the_screen(
    page: "Tab", healthy: Path, tmp_path: Path, kind: str, width: int, scheme: str
) -> None:
    folder = healthy
    if kind == "comparison":
        folder = compared(tmp_path / "runs", {f"{name}-{'x' * 30}": {1: CURVE, 2: CURVE[::-1]} for name in "abc"})
    made = write_report(*read_report([folder]), tmp_path / "page.html")

    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector("h1")
    page.evaluate("window.fielding.drawAll()")

    assert page.locator("#head .sentence").inner_text().replace("\xa0", " ") == made.sentence
    assert page.locator(f"#highlights {DRAWN}").count() == 3
    parts = page.locator("#contents > li > a").all_inner_texts()
    assert parts == [part for part in PARTS if part in {section.part for section in made.sections}]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # Nothing sticks out of a figure's frame, and charts of the head lie beside or below each other.
    assert page.evaluate(OVERLAPS) == []


OVERLAPS = """(() => {
    const boxes = [...document.querySelectorAll("#highlights section")].map((one) => one.getBoundingClientRect());
    const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
    const pairs = boxes.flatMap((one, at) => boxes.slice(at + 1).map((other) => [one, other]));
    const drawn = [...document.querySelectorAll(".figure")].filter((one) => one.scrollWidth > one.clientWidth + 1);
    const met = pairs.filter(([one, other]) => meet(one, other)).map(() => "charts meet");
    return [...met, ...drawn.map((one) => one.dataset.key)];
})()"""
VISIBLE = """[...document.querySelectorAll(".js-plotly-plot")].flatMap((plot) => plot._fullData)
    .filter((one) => one.visible === true).length"""


# ---------------------------------------------------------------- warnings


def test_trainings_that_diverged_are_told_first(tmp_path: Path) -> None:
    rows = round_rows(CURVE, n_failed=[0, 3, 0, 0, 0, 0])

    (card,) = page_of(run_folder(tmp_path / "run", rows)).cards

    assert card.is_warning
    assert (card.name, card.value) == ("training diverged", "3 of 15")
    assert not page_of(run_folder(tmp_path / "whole", round_rows(CURVE))).cards


def test_devices_that_fail_are_named_until_they_are_forgiven(tmp_path: Path) -> None:
    failing: list[Json] = [{"client": "f" * 64, "failures": 3, "asked_from": 9, "said": "disk full"}]
    rows: list[dict[str, Json]] = [dict(row) for row in round_rows(CURVE)]
    rows[-1] |= {"n_failing": 5, "failing": failing}

    (card,) = page_of(run_folder(tmp_path / "run", rows)).cards

    assert card.is_warning
    assert (card.name, card.value) == ("devices that fail", "5")
    assert card.note == "ffffffffffffffff: 3 times in a row, asked again from round 9 on (disk full); and 4 more"
    assert not page_of(run_folder(tmp_path / "later", [*rows, {**rows[-2], "round": len(rows)}])).cards


# ---------------------------------------------------------------- deployed words


@pytest.mark.parametrize(
    ("engine", "time", "is_told"),
    [("flower", "measured time", True), (None, "simulated time", False)],
    ids=["nodes", "simulator"],
)
def test_times_of_real_devices_are_not_called_simulated(
    tmp_path: Path, engine: str | None, time: str, is_told: bool
) -> None:
    folder = run_folder(tmp_path / "run", round_rows([0.1, 0.2, 0.3]))
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | ({} if engine is None else {"engine": engine})))

    found = gather_runs([folder])

    assert time in {row[0] for section in page_of(folder).sections for row in section.table}
    assert [view.words[-1] for view in draw_accuracy(found).views][1] == f"over {time}"
    assert ("on real devices;" in report_lead(found)) == is_told
