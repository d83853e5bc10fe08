import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fielding.comparing.compare import run_comparison
from fielding.comparing.demo import CAVEAT, ROWS, SETTINGS, demo_page, plan_demo, write_demo_page
from fielding.comparing.sweep import Following
from fielding.errors import InputError
from fielding.reporting.report_page import read_report
from tests.comparing.forked import forked_runs as forked_runs
from tests.reporting.run_logs import DRAWN

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from fielding._typing import Json

pytestmark = pytest.mark.usefixtures("forked_runs")
SMALL: dict[str, "Json"] = {
    **SETTINGS,
    "rounds": 8,
    "trace": {"name": "digits", "scenario": "places", "clients": 12, "gap": 4, "window": 4, "samples": 20},
    "training": {"participants": 8, "local_steps": 2},
    "evaluation": {"every": 2},
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "out"
    assert run_comparison(plan_demo(folder, 2, SMALL), n_jobs=2, page=False).is_ended
    write_demo_page(folder)
    return folder


def logs(folder: Path) -> dict[str, bytes]:
    paths = [*folder.glob("*/rounds.jsonl"), *folder.glob("*/memberships.jsonl")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_the_numbers_of_the_demo_are_those_that_its_docs_tell(tmp_path: Path) -> None:
    planned = plan_demo(tmp_path / "out", 1).configs
    configs = {name.removesuffix("-1"): config for name, config in planned.items()}

    assert list(configs) == ["auto", "fielding", "moves", "static", "global"]
    for config in configs.values():
        trace, training = config.trace, config.training
        assert (config.rounds, training.participants, config.evaluation.every) == (200, 20, 10)
        assert (trace.clients, trace.gap, trace.window, trace.samples) == (100, 20, 20, 100)
        assert (training.local_steps, training.batch_size, training.learning_rate) == (20, 20, 0.05)
        assert training == configs["fielding"].training
    assert (configs["auto"].preset, configs["auto"].coordinator.representation) == ("auto", "auto")
    assert {configs[name].preset for name in ("fielding", "moves", "static", "global")} == {"paper"}
    assert (configs["fielding"].coordinator.detector, configs["fielding"].coordinator.tau) == ("any-change", 1 / 3)


def test_every_method_runs_on_every_seed_and_is_held_against_the_global_model(whole: Path) -> None:
    summary = json.loads((whole / "summary.json").read_text())

    for method in ROWS:
        finals = [json.loads((whole / f"{method}-{seed}" / "summary.json").read_text()) for seed in (1, 2)]
        assert summary["methods"][method]["final_accuracy"]["per_seed"] == [one["final_accuracy"] for one in finals]
    assert summary["reference"] == "global"
    theirs = summary["methods"]["global"]["final_accuracy"]["per_seed"]
    for method in ("auto", "fielding", "moves", "static"):
        ours = summary["methods"][method]["final_accuracy"]["per_seed"]
        expected = [one - other for one, other in zip(ours, theirs, strict=True)]
        assert summary["paired"][method]["final_accuracy"]["per_seed"] == expected


def test_clients_of_auto_are_served_by_experts_and_those_of_the_paper_by_their_model(whole: Path) -> None:
    found = json.loads((whole / "summary.json").read_text())["methods"]

    assert [name for name in found if found[name]["final_accuracy_served"]["mean"] is not None] == ["auto"]


def test_each_method_lacks_what_the_one_before_it_has(whole: Path) -> None:
    found = json.loads((whole / "summary.json").read_text())["methods"]
    counts = {
        name: {one: found[name][one]["mean"] for one in ("moves", "reclusterings", "n_reports")} for name in found
    }

    assert list(found) == ["auto", "fielding", "moves", "static", "global"]
    assert counts["moves"]["moves"] > 0
    assert counts["moves"]["reclusterings"] == 0
    # A first report of each of the 12 clients, and nothing thereafter.
    assert counts["static"] == {"moves": 0, "reclusterings": 0, "n_reports": 12}
    assert counts["global"] == {"moves": 0, "reclusterings": 0, "n_reports": 0}


def test_a_stopped_demo_goes_on_and_ends_as_if_never_stopped(whole: Path, tmp_path: Path) -> None:
    done: list[str] = []
    following = Following(on_done=lambda one: done.append(one.name), is_stopped=lambda: len(done) >= 2)

    assert not run_comparison(plan_demo(tmp_path, 2, SMALL), n_jobs=1, following=following, page=False).is_ended
    assert not (tmp_path / "summary.json").exists()

    assert run_comparison(plan_demo(tmp_path, 2, SMALL), n_jobs=2, page=False).is_ended
    assert logs(tmp_path) == logs(whole)


def test_a_demo_with_other_numbers_is_not_mixed_in(whole: Path) -> None:
    before = logs(whole)

    with pytest.raises(InputError, match=r"rounds"):
        plan_demo(whole, 2, {**SMALL, "rounds": 9})

    assert logs(whole) == before


@pytest.mark.parametrize("name", ["manifest.json", "summary.json", "report.html", "fielding-1"])
def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")

    with pytest.raises(InputError, match=str(tmp_path)):
        plan_demo(tmp_path, 1, SMALL)

    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_no_seed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="number of seeds is 0"):
        plan_demo(tmp_path / "out", 0)

    assert not (tmp_path / "out").exists()


def test_a_page_can_be_written_again_from_the_folder_alone(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "out")
    (folder / "report.html").unlink()

    write_demo_page(folder)

    assert (folder / "report.html").read_bytes() == (whole / "report.html").read_bytes()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_draws_its_figures_without_a_network(page: "Page", whole: Path, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": 400, "height": 900})
    page.goto((whole / "report.html").as_uri())
    page.wait_for_selector("h1")
    page.evaluate("window.fielding.drawAll()")

    assert page.title() == "Do clusters pay off while clients move and groups split?"
    assert page.locator(".js-plotly-plot:visible").count() == page.locator(f"{DRAWN}:visible").count() >= 10
    said = page.locator("body").inner_text()
    assert CAVEAT[:60] in said
    assert "every 20 rounds one client in twenty moves" in said
    assert "This cannot be drawn" not in said
    assert page.locator(".card").count() >= 4
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_the_page_says_in_whole_sentences_how_much_was_run(whole: Path) -> None:
    lead = demo_page(*read_report([whole])).lead

    assert "(8 rounds, 2 seeds, with 95 % intervals). Accuracy is the unweighted mean over clients" in lead
    assert lead.count("(") == lead.count(")")
    assert "on the test samples of their windows, and on samples of the interval to come" in lead
    assert "auto does, the paper does not" in lead
