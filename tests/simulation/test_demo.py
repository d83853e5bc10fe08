import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fielding._version import __version__
from fielding.errors import InputError
from fielding.simulation.demo import METHODS, SETTINGS, Progress, demo_config, run_demo, truth_of
from fielding.simulation.experiment import run
from tests.reporting.run_logs import DRAWN

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from fielding._typing import Json

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
    assert run_demo(folder, 2, settings=SMALL) is not None
    return folder


def logs(folder: Path) -> dict[str, bytes]:
    paths = [*folder.glob("*/rounds.jsonl"), *folder.glob("*/memberships.jsonl"), folder / "summary.json"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_the_numbers_of_the_demo_are_those_that_its_docs_tell() -> None:
    config = demo_config("fielding", 1)

    assert (config.preset, config.rounds, config.training.participants) == ("paper", 200, 20)
    assert (config.trace.clients, config.trace.gap, config.trace.window, config.trace.samples) == (100, 20, 20, 100)
    assert (config.training.local_steps, config.training.batch_size, config.training.learning_rate) == (20, 20, 0.05)
    assert (config.coordinator.detector, config.coordinator.tau) == ("any-change", 1 / 3)


def test_every_method_runs_on_every_seed_and_is_held_against_the_global_model(whole: Path) -> None:
    summary = json.loads((whole / "summary.json").read_text())

    for method in METHODS:
        finals = [json.loads((whole / f"{method}-{seed}" / "summary.json").read_text()) for seed in (1, 2)]
        assert summary["methods"][method]["final_accuracy"]["per_seed"] == [one["final_accuracy"] for one in finals]
    assert set(summary["paired"]) == {"fielding", "moves", "static"}
    theirs = summary["methods"]["global"]["final_accuracy"]["per_seed"]
    for method, figures in summary["paired"].items():
        ours = summary["methods"][method]["final_accuracy"]["per_seed"]
        assert figures["final_accuracy"]["per_seed"] == [one - other for one, other in zip(ours, theirs, strict=True)]
    assert summary["final_from_round"] == finals[0]["final_from_round"] == 5
    assert {path.parent.name for path in whole.glob("*/report.html")} == {f"{method}-1" for method in METHODS}


def test_each_method_lacks_what_the_one_before_it_has(whole: Path) -> None:
    found = json.loads((whole / "summary.json").read_text())["methods"]
    counts = {
        name: {one: found[name][one]["mean"] for one in ("moves", "reclusterings", "n_reports")} for name in found
    }

    assert list(found) == ["fielding", "moves", "static", "global"]
    assert counts["moves"]["moves"] > 0
    assert counts["moves"]["reclusterings"] == 0
    # A first report of each of the 12 clients, and nothing thereafter.
    assert counts["static"] == {"moves": 0, "reclusterings": 0, "n_reports": 12}
    assert counts["global"] == {"moves": 0, "reclusterings": 0, "n_reports": 0}


@pytest.mark.parametrize("after", [8, 43])
def test_a_stopped_demo_goes_on_and_ends_as_if_never_stopped(whole: Path, tmp_path: Path, after: int) -> None:
    seen: list[Progress] = []

    def stop_after(progress: Progress) -> bool:
        seen.append(progress)
        return len(seen) < after

    assert run_demo(tmp_path, 2, watch=stop_after, settings=SMALL) is None
    assert not (tmp_path / "summary.json").exists()
    assert seen[-1].n_rounds == after

    assert run_demo(tmp_path, 2, settings=SMALL) is not None
    assert logs(tmp_path) == logs(whole)


def test_fewer_seeds_take_what_is_there(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "out")
    trained: list[Progress] = []

    def note(progress: Progress) -> bool:
        trained.append(progress)
        return True

    summary = run_demo(folder, 1, watch=note, settings=SMALL)

    assert summary is not None
    assert summary["seeds"] == [1]
    assert trained == []


def test_a_demo_with_other_numbers_is_not_mixed_in(whole: Path) -> None:
    before = logs(whole)

    with pytest.raises(InputError, match=r"another demo \(demo.rounds was 8, now it is 9\); name another folder"):
        run_demo(whole, 2, settings={**SMALL, "rounds": 9})

    assert logs(whole) == before


def test_a_demo_of_two_methods_is_told_from_this_one_and_left_alone(tmp_path: Path) -> None:
    before = json.dumps({"fielding": __version__, "demo": SMALL})  # as demos of two methods wrote it
    (tmp_path / "manifest.json").write_text(before)

    with pytest.raises(InputError, match=r"methods was \['fielding', 'global'\], now it is .*; name another folder"):
        run_demo(tmp_path, 1, settings=SMALL)

    assert (tmp_path / "manifest.json").read_text() == before
    assert not list(tmp_path.glob("*-1"))


def test_a_demo_of_another_version_is_not_mixed_in(whole: Path, tmp_path: Path) -> None:
    manifest = json.loads((whole / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "fielding": "0.0.0"}))

    with pytest.raises(InputError, match=r"another demo \(fielding was '0.0.0', now it is"):
        run_demo(tmp_path, 1, settings=SMALL)


@pytest.mark.parametrize("content", ["{}", "[1]", "not json", '{"demo": 3}', '{"seed": 1, "config": {}}'])
def test_the_manifest_of_something_else_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)

    with pytest.raises(InputError, match="holds something else than this demo; name another folder with --out"):
        run_demo(tmp_path, 1, settings=SMALL)


@pytest.mark.parametrize("name", ["summary.json", "report.html", "fielding-1", "static-3"])
def test_files_of_others_are_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")

    with pytest.raises(InputError, match=f"{name} that no demo wrote"):
        run_demo(tmp_path, 1, settings=SMALL)

    assert (tmp_path / name).read_text() == "mine"
    assert not (tmp_path / "manifest.json").exists()


def test_the_truth_is_what_the_runs_are_scored_with(tmp_path: Path) -> None:
    config = demo_config("fielding", 1, SMALL)

    truth = truth_of(config)

    assert truth.rounds == [0, 4]
    assert truth.places.shape == (2, 12)
    assert (truth.places[0] != truth.places[1]).any()
    result = run(config, page=False)
    assert list(truth.client_ids) == list(result.checkpoint.client_ids)


def test_no_seed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 1"):
        run_demo(tmp_path / "out", 0)

    assert not (tmp_path / "out").exists()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_draws_its_figures_without_a_network(page: "Page", whole: Path, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": 400, "height": 900})
    page.goto((whole / "report.html").as_uri())
    page.locator(DRAWN).nth(4).wait_for(state="attached")

    assert page.title() == "Do clusters pay off while clients move?"
    assert page.locator(".js-plotly-plot").count() == page.locator(DRAWN).count() == 5
    said = page.locator("body").inner_text()
    assert [f"{method} - global" in said for method in METHODS] == [True, True, True, False]
    assert [f"{method}: final accuracy" in said for method in METHODS] == [True] * 4
    assert "Final: mean over the 2 evaluations since round 5. Above: not below the global model's final" in said
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
