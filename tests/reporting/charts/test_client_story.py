import re
from pathlib import Path

import numpy as np
import pytest

from fielding.errors import InputError
from fielding.reporting.charts.client_story import MOST_FEATURES, draw_client_story
from fielding.reporting.charts.clusters import COLORS
from fielding.reporting.client_reasons import client_ids
from fielding.reporting.numbers.run_record import read_run
from tests.reporting.charts.inside_runs import inside_run


def test_the_mix_of_labels_is_drawn_over_time(tmp_path: Path) -> None:
    reported = draw_client_story(inside_run(tmp_path / "run"), "bob")[0]

    assert reported.title == "What client bob reported"
    assert reported.figure is not None
    heat = reported.figure["data"][0]
    assert heat["y"] == ["cat", "dog", "owl"]
    assert heat["x"] == [0, 4, 10]
    assert heat["z"] == [[0.6, 0.0], [0.4, 0.2], [0.0, 0.8]]


def test_clusters_and_concepts_are_bars_from_change_to_change(tmp_path: Path) -> None:
    stays = draw_client_story(inside_run(tmp_path / "run"), "cid")[1]

    assert stays.figure is not None
    clusters, concepts = stays.figure["data"]
    assert (clusters["base"], clusters["x"], clusters["text"]) == ([0, 8], [8, 2], ["1", "2"])
    assert clusters["marker"]["color"] == [COLORS[1], COLORS[2]]
    assert (concepts["base"], concepts["x"], concepts["text"]) == ([0], [10], ["1"])
    assert "changed its cluster 1 time." in stays.text


def test_accuracy_stands_beside_that_of_its_cluster_and_of_all(tmp_path: Path) -> None:
    accuracy = draw_client_story(inside_run(tmp_path / "run"), "ann")[2]

    assert accuracy.figure is not None
    lines = {trace["name"]: trace["y"] for trace in accuracy.figure["data"]}
    assert lines["this client"] == [0.25, 1.0]
    assert lines["its cluster"] == [0.375, 1.0]
    assert lines["all clients"] == pytest.approx([0.625, 2 / 3])


def test_ids_are_found_by_their_text(tmp_path: Path) -> None:
    run = inside_run(tmp_path / "run", [10, 9, 2, 1])

    assert client_ids(run) == [1, 2, 9, 10]
    assert draw_client_story(run, "10")[0].title == "What client 10 reported"


def test_an_unknown_client_is_answered_with_the_nearest(tmp_path: Path) -> None:
    run = inside_run(tmp_path / "run")

    with pytest.raises(InputError, match=re.escape("no such client in this run: 'bab'; did you mean 'bob'?")):
        draw_client_story(run, "bab")


def test_vectors_are_drawn_with_their_sign(tmp_path: Path) -> None:
    folder = inside_run(tmp_path / "run", coordinator={"kind": "vector", "representation": "embedding"}).folder
    np.savez(
        folder / "reports" / "00000009.npz",
        step=np.array([9]),
        client=np.array(["ann"]),
        representation=np.array([[-2.0, 0.5, 1.0]], dtype=np.float32),
    )

    reported = draw_client_story(read_run(folder), "ann")[0]

    assert "embedding" in reported.text
    assert reported.figure is not None
    heat = reported.figure["data"][0]
    assert (heat["zmin"], heat["zmax"]) == (-2.0, 2.0)
    assert heat["y"] == ["number 0", "number 1", "number 2"]
    assert heat["colorbar"]["title"]["text"] == ""


def test_rare_labels_are_summed_up(tmp_path: Path) -> None:
    folder = inside_run(tmp_path / "run").folder
    for path in (folder / "reports").iterdir():
        path.unlink()
    np.savez(
        folder / "reports" / "00000000.npz",
        step=np.array([0]),
        client=np.array(["ann"]),
        representation=np.full((1, 50), 0.02, dtype=np.float32),
    )

    figure = draw_client_story(read_run(folder), "ann")[0].figure

    assert figure is not None
    heat = figure["data"][0]
    assert len(heat["y"]) == MOST_FEATURES + 1
    assert heat["y"][-1] == "10 other labels"
    assert heat["z"][-1] == [pytest.approx(0.2)]
