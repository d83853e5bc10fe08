from pathlib import Path

import numpy as np
import pytest

from fielding._typing import ClientId
from fielding.reporting.charts import truth as module
from fielding.reporting.charts.clusters import COLORS, ClusterColors
from fielding.reporting.charts.truth import concept_colors, draw_truth, true_colors
from fielding.reporting.numbers.run_record import read_run
from tests.reporting.charts.inside_runs import changed, inside_run, write_log


def test_rows_are_the_same_clients_above_and_below(tmp_path: Path) -> None:
    figure = draw_truth(inside_run(tmp_path / "run"), None).figure

    assert figure is not None
    above, below = figure["data"]
    assert above["y"] == below["y"] == ["ann", "bob", "cid", "dan"]
    assert above["x"] == [0, 4, 8, 10]
    assert above["z"] == [[0, 0, 0], [0, 1, 1], [1, 1, 2], [1, 1, 2]]
    assert below["z"] == [[0, 0, 0], [0, 1, 1], [1, 1, 1], [1, 1, 1]]


def test_a_concept_has_the_colour_of_its_cluster(tmp_path: Path) -> None:
    assert true_colors(inside_run(tmp_path / "run")) == {-1: COLORS[-1], 0: COLORS[0], 1: COLORS[1]}


def test_two_concepts_never_share_the_colour_of_one_cluster() -> None:
    colors = concept_colors(np.array([[4, 4, 4, 9]]), np.array([[0, 1, 1, 1]]), ClusterColors(slots={4: 0, 9: 1}))

    assert colors[1] == COLORS[0]
    assert colors[0] not in (COLORS[0], COLORS[1])


def test_clients_are_in_the_order_of_what_they_really_were(tmp_path: Path) -> None:
    folder = inside_run(tmp_path / "run").folder
    write_log(folder, "concepts", [changed(0, {"ann": 1, "bob": 0, "cid": 1, "dan": 0}), changed(4, {"bob": 1})])

    figure = draw_truth(read_run(folder), None).figure

    assert figure is not None
    assert figure["data"][0]["y"] == ["dan", "bob", "ann", "cid"]


def test_many_clients_are_sampled_and_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CLIENTS", 20)
    folder = inside_run(tmp_path / "run").folder
    everybody: dict[ClientId, int] = {client: client % 3 for client in range(50)}
    write_log(folder, "concepts", [changed(0, everybody)])
    write_log(folder, "memberships", [changed(0, everybody)])

    first, second = (draw_truth(read_run(folder), None) for _ in range(2))

    assert "20 of 50 clients are shown" in first.text
    assert first.figure == second.figure
    assert first.figure is not None
    assert len(first.figure["data"][0]["y"]) == 20


def test_natural_traces_have_no_truth(tmp_path: Path) -> None:
    folder = inside_run(tmp_path / "run").folder
    (folder / "concepts.jsonl").write_text("")

    assert "Nobody knows" in draw_truth(read_run(folder), None).missing
