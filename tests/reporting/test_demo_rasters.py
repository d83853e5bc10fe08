from pathlib import Path

import numpy as np

from fielding._typing import Json
from fielding.reporting.demo_rasters import Truth, rasters
from tests.reporting.run_logs import round_line, write_run


def test_clusters_are_drawn_beside_the_places_row_by_row(tmp_path: Path) -> None:
    truth = Truth(rounds=[0, 10], client_ids=["ann", "bob", "cid"], places=np.array([[1, 0, 0], [1, 0, 1]], np.int32))
    folder = write_run(
        tmp_path,
        [round_line(0)],
        memberships=[
            {"round": 0, "changed": [["ann", 5], ["bob", 8], ["cid", 8]]},
            {"round": 12, "changed": [["cid", 5]]},
        ],
    )

    clusters, places = rasters({"fielding": folder}, truth)

    # Bob stays in place 0, cid leaves it late, ann always was in place 1.
    assert places.cells.tolist() == [[0, 0], [0, 1], [1, 1]]
    assert clusters.cells.tolist() == [[0, 0], [0, 1], [1, 1]]
    assert places.edges.tolist() == [0.0, 10.0, 22.0]
    assert clusters.edges.tolist() == [0.0, 12.0, 22.0]


def test_a_cluster_without_a_place_of_its_own_has_a_name_of_its_own(tmp_path: Path) -> None:
    truth = Truth(rounds=[0], client_ids=[0, 1, 2], places=np.zeros((1, 3), dtype=np.int32))
    folder = write_run(tmp_path, [round_line(0)], memberships=[{"round": 0, "changed": [[0, 4], [1, 4], [2, 6]]}])

    clusters, _ = rasters({"fielding": folder}, truth)

    assert clusters.cells.tolist() == [[0], [0], [1]]
    assert list(clusters.names) == ["place 1 and its cluster", "another cluster (1)"]


def test_methods_with_the_same_clusters_share_a_picture_and_all_share_the_colors(tmp_path: Path) -> None:
    truth = Truth(rounds=[0, 10], client_ids=[0, 1], places=np.array([[0, 1], [1, 1]], dtype=np.int32))
    start: Json = {"round": 0, "changed": [[0, 3], [1, 4]]}
    moved: Json = {"round": 10, "changed": [[0, 4]]}
    apart: Json = {"round": 10, "changed": [[0, 9]]}
    logs = {"one": [start, moved], "two": [start], "three": [start, moved], "four": [start, apart]}
    folders = {
        name: write_run(
            tmp_path / name, [round_line(0)], memberships=[line for line in lines if isinstance(line, dict)]
        )
        for name, lines in logs.items()
    }

    found = rasters(folders, truth)

    assert [one.title for one in found] == [
        "clusters of one and three", "clusters of two", "clusters of four", "true places"
    ]  # fmt: skip
    assert [one.cells.tolist() for one in found] == [[[0, 1], [1, 1]], [[0], [1]], [[0, 2], [1, 1]], [[0, 1], [1, 1]]]
    assert {tuple(one.names) for one in found} == {
        ("place 1 and its cluster", "place 2 and its cluster", "another cluster (1)")
    }
    assert {one.edges[-1] for one in found} == {20.0}
