from pathlib import Path

import numpy as np
import pytest

from fielding.reporting.demo_figures import accuracy_over_time, read_curves
from fielding.reporting.demo_page import Truth, rasters
from tests.reporting.run_logs import evaluated, round_line, write_run


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

    clusters, places = rasters(folder, truth)

    # Bob stays in place 0, cid leaves it late, ann always was in place 1.
    assert places.cells.tolist() == [[0, 0], [0, 1], [1, 1]]
    assert clusters.cells.tolist() == [[0, 0], [0, 1], [1, 1]]
    assert places.edges.tolist() == [0.0, 10.0, 22.0]
    assert clusters.edges.tolist() == [0.0, 12.0, 22.0]


def test_a_cluster_without_a_place_of_its_own_has_a_name_of_its_own(tmp_path: Path) -> None:
    truth = Truth(rounds=[0], client_ids=[0, 1, 2], places=np.zeros((1, 3), dtype=np.int32))
    folder = write_run(tmp_path, [round_line(0)], memberships=[{"round": 0, "changed": [[0, 4], [1, 4], [2, 6]]}])

    clusters, _ = rasters(folder, truth)

    assert clusters.cells.tolist() == [[0], [0], [1]]
    assert list(clusters.names) == ["place 1 and its cluster", "another cluster (1)"]


def test_runs_of_different_speed_are_compared_while_both_last(tmp_path: Path) -> None:
    fast = [round_line(at, **(evaluated(at / 10) | {"time_s": 60.0 * (at + 1)})) for at in range(5)]
    slow = [round_line(at, **(evaluated(at / 10) | {"time_s": 120.0 * (at + 1)})) for at in range(5)]
    curves = {
        "fast": read_curves([write_run(tmp_path / "fast", fast)]),
        "slow": read_curves([write_run(tmp_path / "slow", slow)]),
    }

    first, second = accuracy_over_time(curves).data

    assert (first.x[0], first.x[-1]) == (2.0, 5.0)
    assert (first.y[-1], second.y[-1]) == pytest.approx((0.4, 0.15))
