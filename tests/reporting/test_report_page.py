"""The page about runs: whole for a healthy folder, and for a damaged one all that can still be drawn."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
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
from fielding.reporting.numbers.comparison import compare_groups
from fielding.reporting.numbers.groups import gather_runs
from fielding.reporting.numbers.run_record import read_run
from fielding.reporting.page import Page, page_html, page_record
from fielding.reporting.report_page import (
    MOST_CARDS,
    make_page,
    read_report,
    report_cards,
    report_lead,
    run_cards,
    write_report,
)
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


def test_every_section_of_a_healthy_run_is_drawn(healthy: Path) -> None:
    page = page_of(healthy)

    assert cannot(page) == []
    assert list(page.notes) == []
    drawn = [section for section in page.sections if section.figure or section.table or section.cards]
    # A single run has no other to be held against.
    assert len(page.sections) - len(drawn) <= 4
    assert len(drawn) >= 15


def test_a_comparison_has_a_table_and_a_switch_per_group(tmp_path: Path) -> None:
    folder = compared(tmp_path / "runs", {"global": {1: CURVE, 2: CURVE}, "fielding": {1: CURVE, 2: CURVE}})

    page = page_of(folder)

    assert cannot(page) == []
    assert list(page.groups or ()) == ["fielding", "global"]
    assert "Results in numbers" in titles(page)
    assert page.title == "2 methods compared"
    assert [card.note for card in page.cards][1] == "the others are held against it"


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
    assert sum(section.figure is not None for section in page.sections) >= (1 if name == "rounds.jsonl" else 5)
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
    sections: list[Any] = [one for one in list(page_record(made)["sections"]) if one["figure"]]  # type: ignore[arg-type,index,call-overload]

    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector("h1")
    page.evaluate("window.fielding.drawAll()")

    assert cannot(made) == []
    assert "taken" not in page.title()
    assert page.locator("img").count() == 0
    inside = {section["group"] for section in sections if section["group"]}
    assert len(inside) == 2
    hidden = [one for one in sections if one["group"] not in (None, f"{EVIL} 0")]
    assert page.locator(DRAWN).count() == len(sections) - len(hidden)

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


VISIBLE = """[...document.querySelectorAll(".js-plotly-plot")].flatMap((plot) => plot._fullData)
    .filter((one) => one.visible === true).length"""


# ---------------------------------------------------------------- report cards


RISING = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
BETTER = [0.2, 0.4, 0.5, 0.6, 0.7, 0.8]


def test_a_run_tells_its_accuracy_its_time_and_its_bytes(tmp_path: Path) -> None:
    cards = {card.name: card for card in run_cards(read_run(run_folder(tmp_path / "run", round_rows(RISING))))}

    # The later half of the six evaluations: the mean of 0.4, 0.5 and 0.6.
    assert cards["final accuracy"].value == "0.500"
    assert cards["worst decile"].value == "0.250"
    assert cards["simulated time"].value == "6m00s"
    assert cards["simulated time"].note == "6 rounds"
    assert not any(card.is_warning for card in cards.values())
    assert "clusters now" not in cards


def test_a_run_without_a_round_or_a_test_says_so(tmp_path: Path) -> None:
    for at, rows in enumerate(([], round_rows([None, None]))):
        (card,) = (
            one for one in run_cards(read_run(run_folder(tmp_path / str(at), rows))) if one.name == "final accuracy"
        )
        assert (card.value, card.note) == ("none", "no client was tested")


def test_a_run_with_clusters_tells_of_them(tmp_path: Path) -> None:
    rows = round_rows(RISING, n_clusters=[1, 2, 2, 3, 3, 3], n_moved=[0, 5, 0, 1, 0, 0])
    cards = {card.name: card.value for card in run_cards(read_run(run_folder(tmp_path / "run", rows)))}

    assert (cards["clusters now"], cards["moves"], cards["re-clusterings"]) == ("3", "6", "0")


def test_trainings_that_diverged_are_told_first(tmp_path: Path) -> None:
    rows = round_rows(RISING, n_failed=[0, 3, 0, 0, 0, 0])

    first = run_cards(read_run(run_folder(tmp_path / "run", rows)))[0]

    assert first.is_warning
    assert (first.name, first.value) == ("training diverged", "3 of 15")


def test_groups_have_a_card_each_with_their_gain(tmp_path: Path) -> None:
    runs = gather_runs([compared(tmp_path, {"global": {1: RISING, 2: RISING}, "fielding": {1: BETTER, 2: BETTER}})])

    cards = {card.name: card for card in report_cards(runs, compare_groups(runs))}

    assert (cards["fielding"].value, cards["global"].value) == ("0.700", "0.500")
    assert cards["fielding"].note.startswith("+0.200")
    assert cards["fielding"].note.endswith("against global")
    assert cards["fielding"].group == "fielding"
    assert cards["fielding"].color != cards["global"].color


def test_each_card_names_whom_its_group_is_held_against(tmp_path: Path) -> None:
    names = ("global-easy", "global-hard", "ifca-easy", "ifca-hard")
    runs = gather_runs([compared(tmp_path, {name: {1: RISING} for name in names})])
    settings = {name: dict(zip(("method.name", "trace.scenario"), name.split("-"), strict=True)) for name in names}
    runs = replace(runs, reference="global-easy", settings=settings)

    notes = {card.name: card.note for card in report_cards(runs, compare_groups(runs))}

    assert notes["ifca-hard"] == "+0.000 against global-hard"
    assert notes["global-hard"] == "others are held against it"


def test_without_a_run_of_the_reference_cards_tell_no_gain(tmp_path: Path) -> None:
    runs = gather_runs([compared(tmp_path, {"ifca": {1: RISING}, "fielding": {1: BETTER}})])
    runs = replace(runs, reference="gone")

    assert {card.note for card in report_cards(runs, compare_groups(runs))} == {"mean over clients and seeds"}


def test_many_groups_are_left_to_the_table(tmp_path: Path) -> None:
    runs = gather_runs([compared(tmp_path, {f"method-{at}": {1: RISING} for at in range(MOST_CARDS + 1)})])

    assert report_cards(runs, compare_groups(runs)) == []


def test_groups_without_a_finished_run_show_how_far_they_are(tmp_path: Path) -> None:
    run_folder(tmp_path / "done", round_rows(RISING), method="global")
    run_folder(tmp_path / "long", round_rows(RISING), seed=1, finished=False)
    behind = run_folder(tmp_path / "short", round_rows(RISING), seed=2, finished=False)
    (behind / "rounds.jsonl").write_text("".join((behind / "rounds.jsonl").read_text().splitlines(keepends=True)[:4]))
    runs = gather_runs([tmp_path])

    cards = {card.name: card for card in report_cards(runs, compare_groups(runs))}

    # The newest accuracies of the two: 0.6 and 0.4.
    assert (cards["fielding"].value, cards["fielding"].note) == ("0.500", "so far, round 4 to 6 of 6")
    assert cards["global"].note == "the others are held against it"


def test_a_run_that_goes_on_has_no_final_accuracy_yet(tmp_path: Path) -> None:
    cards = run_cards(read_run(run_folder(tmp_path / "run", round_rows(RISING), finished=False)))

    assert (cards[0].name, cards[0].value, cards[0].note) == ("accuracy", "0.600", "so far, round 6 of 6")
    assert "final accuracy" not in [card.name for card in cards]


# ---------------------------------------------------------------- deployed words


@pytest.mark.parametrize(
    ("engine", "time", "is_told"),
    [("flower", "time", True), (None, "simulated time", False)],
    ids=["nodes", "simulator"],
)
def test_times_of_real_devices_are_not_called_simulated(
    tmp_path: Path, engine: str | None, time: str, is_told: bool
) -> None:
    folder = run_folder(tmp_path / "run", round_rows([0.1, 0.2, 0.3]))
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | ({} if engine is None else {"engine": engine})))

    found = gather_runs([folder])

    assert time in {card.name for card in run_cards(read_run(folder))}
    assert [section.title for section in draw_accuracy(found)][1] == f"Accuracy over {time}"
    assert ("on real devices;" in report_lead(found)) == is_told
