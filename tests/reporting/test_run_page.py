import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fielding.reporting.run_figures import (
    MOST_CLUSTERS,
    accuracy_figure,
    clients_figure,
    shown_events,
    sizes_figure,
    traffic_figure,
)
from fielding.reporting.run_page import run_page
from fielding.reporting.run_record import client_accuracy, read_run
from fielding.reporting.thinning import MOST_BARS, MOST_POINTS
from fielding.simulation.experiment import run
from tests.reporting.run_logs import DRAWN, evaluated, round_line, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from fielding._typing import Json

TABLE: dict[str, "Json"] = {
    "rounds": 12,
    "trace": {"clients": 12, "gap": 3, "window": 3, "samples": 20, "scenario": "places"},
    "training": {"participants": 8, "local_steps": 2},
    "evaluation": {"every": 2},
}


def traces(figure: Any) -> list[dict[str, Any]]:
    return [trace.to_plotly_json() for trace in figure.data]


def body(html: str) -> str:
    """Return the page without the library that draws it."""
    return html.split("<body>")[1]


@pytest.fixture(scope="module")
def clustered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "fielding"
    run(TABLE, folder, page=False)
    return folder


@pytest.fixture(scope="module")
def unclustered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "global"
    run({**TABLE, "method": {"name": "global"}}, folder, page=False)
    return folder


def test_the_page_of_a_real_run_tells_what_its_logs_tell(clustered: Path) -> None:
    summary = json.loads((clustered / "summary.json").read_text())

    text = body(run_page(clustered))

    assert f"<b>{summary['final_accuracy']:.3f}</b>" in text
    assert f"<b>{summary['n_reports'] - 12}</b><span>besides 12 first reports, to join</span>" in text
    assert "mean over the 3 evaluations since round 7" in text
    assert "warning" not in text
    for title in ("Clusters over time", "Reports and moves", "Do the clusters match the truth?", "How clients fare"):
        assert title in text
    assert "<td>training.local_steps</td><td>2</td>" in text


def test_costs_are_told_by_kind_and_add_up_to_those_of_the_rounds(clustered: Path) -> None:
    record = read_run(clustered)

    assert record.costs is not None
    for name in ("bytes_down", "bytes_up", "client_seconds"):
        total = record.costs[name]
        assert isinstance(total, dict)
        assert total["model"] + total["report"] + total["probe"] == pytest.approx(total["all"])  # type: ignore[operator]
        assert total["all"] == pytest.approx(sum(float(str(row[name])) for row in record.rounds))


def test_a_run_without_clusters_has_no_word_about_them(unclustered: Path) -> None:
    text = body(run_page(unclustered))

    assert "Accuracy over rounds" in text
    for title in ("Clusters over time", "Reports and moves", "Do the clusters match the truth?", "re-clusterings"):
        assert title not in text


def test_equal_folders_give_equal_pages(clustered: Path) -> None:
    assert run_page(clustered) == run_page(clustered)


def test_a_run_of_one_round_shows_its_one_point(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [round_line(0, **evaluated(0.5))])

    assert traces(accuracy_figure(read_run(folder)))[0]["mode"] == "markers"
    assert "<b>0.500</b>" in body(run_page(folder))


def test_corrected_models_have_a_card_and_a_curve_if_there_are_any(tmp_path: Path) -> None:
    more: dict[str, Json] = {"corrected_accuracy": 0.8125, "corrected_worst_decile": 0.4375}
    pages = [run_page(write_run(tmp_path / "plain", [round_line(0, **evaluated(0.5))]))]
    pages += [run_page(write_run(tmp_path / "more", [round_line(0, **evaluated(0.5), **more)]))]

    assert ["corrected accuracy" in body(page) for page in pages] == [False, True]
    assert "0.812" in body(pages[1])
    assert "worst tenth: 0.438" in body(pages[1])
    names = [trace["name"] for trace in traces(accuracy_figure(read_run(tmp_path / "more")))]
    assert "mean, corrected" in names
    assert "mean, tuned" not in names


def test_a_run_in_which_nobody_was_tested_says_so(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [round_line(0, **evaluated(None)), round_line(1, train_loss=None)])

    text = body(run_page(folder))

    assert "No client was tested" in text
    assert "<span>final accuracy</span><b>none</b><span>no client had test samples</span>" in text
    assert "final figures" not in text


def test_a_run_whose_training_diverged_warns(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [round_line(at, n_failed=1, **evaluated(0.5)) for at in range(2)])

    assert '<div class="card warning"><span>training diverged</span><b>2 of 6</b>' in body(run_page(folder))


def test_agreement_is_left_out_where_there_is_one_cluster(tmp_path: Path) -> None:
    events: list[dict[str, Json]] = [{"round": 0, "shift": None, "fired": False}]
    one = write_run(tmp_path / "one", [round_line(0, **(evaluated(0.5) | {"n_clusters": 1}))], events=events)
    two = write_run(tmp_path / "two", [round_line(0, **evaluated(0.5))], events=events)

    assert "Clusters over time" in body(run_page(one))
    assert "Do the clusters match the truth?" not in body(run_page(one))
    assert "Do the clusters match the truth?" in body(run_page(two))


def test_words_and_drawing_agree_that_marks_are_dashed(clustered: Path) -> None:
    marks = accuracy_figure(read_run(clustered)).layout.shapes

    assert {mark.line.dash for mark in marks} == {"5px,4px"}
    assert "Gray dashed lines: new samples arrive." in body(run_page(clustered))


def test_without_a_checkpoint_costs_are_told_in_one_sum(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [round_line(0), round_line(1)])

    assert "<td>all</td><td>0.002 MB</td>" in body(run_page(folder))


def test_ids_and_settings_cannot_inject_anything(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    folder = write_run(
        tmp_path,
        [round_line(0, **evaluated(0.5))],
        memberships=[{"round": 0, "changed": [[evil, 0]]}],
        clients=[{"round": 0, "client": [evil], "n_test": [2], "correct": [1]}],
    )
    (folder / "manifest.json").write_text(json.dumps({"config": {"trace": {"name": evil, evil: evil}}, "seed": evil}))

    assert evil not in body(run_page(folder))


def test_the_stack_adds_up_to_all_clients_and_small_clusters_share_a_layer(tmp_path: Path) -> None:
    many: list[Json] = [[client, client % 20] for client in range(60)]
    moved: list[Json] = [[client, 3] for client in range(30)]
    folder = write_run(
        tmp_path,
        [round_line(at) for at in range(9)],
        memberships=[{"round": 0, "changed": many}, {"round": 5, "changed": moved}],
    )

    layers = traces(sizes_figure(read_run(folder)))

    assert len(layers) == MOST_CLUSTERS + 1
    assert layers[0]["x"] == [0, 5, 9]
    assert [sum(layer["y"][at] for layer in layers) for at in range(3)] == [60, 60, 60]


def test_long_runs_are_thinned_until_a_browser_can_draw_them(tmp_path: Path) -> None:
    rows = [round_line(at, n_reports=1, **evaluated(0.5 + (at == 7_777) / 4)) for at in range(10_000)]
    record = read_run(write_run(tmp_path, rows))

    curve = traces(accuracy_figure(record))[0]
    bars = traces(traffic_figure(record))[0]

    assert len(curve["x"]) <= MOST_POINTS
    assert max(curve["y"]) == 0.75
    assert len(bars["x"]) <= MOST_BARS
    assert sum(bars["y"]) == 10_000
    assert accuracy_figure(record).layout.shapes == ()


def test_of_very_many_events_the_re_clusterings_stay() -> None:
    events: list[dict[str, Json]] = [{"round": at, "fired": at % 1000 == 7} for at in range(50_000)]

    shown = shown_events(events)

    assert len(shown) <= MOST_POINTS
    assert sum(bool(event["fired"]) for event in shown) == 50
    assert len(shown_events(events[:MOST_POINTS])) == MOST_POINTS


def test_the_curve_of_clients_ends_with_all_of_them() -> None:
    accuracy = client_accuracy({"n_test": [4, 4, 2, 0], "correct": [1, 1, 2, 0]})

    curve = traces(clients_figure([("all", accuracy)]))[0]

    assert curve["x"].tolist() == [0.25, 0.25, 1.0]
    assert curve["y"] == pytest.approx([0.0, 200 / 3, 100.0])


@pytest.mark.browser
@pytest.mark.parametrize(("kind", "n_figures"), [("clustered", 8), ("unclustered", 4)])
def test_the_page_draws_its_figures_without_a_network(
    page: "Page", request: pytest.FixtureRequest, tmp_path: Path, kind: str, n_figures: int
) -> None:
    (tmp_path / "page.html").write_text(run_page(request.getfixturevalue(kind)))

    page.set_viewport_size({"width": 400, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())
    page.locator(DRAWN).nth(n_figures - 1).wait_for(state="attached")

    assert page.locator(".js-plotly-plot").count() == page.locator(DRAWN).count() == n_figures
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
