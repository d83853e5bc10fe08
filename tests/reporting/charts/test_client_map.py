import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding._typing import Vector
from fielding.reporting.charts import client_map as module
from fielding.reporting.charts.client_map import draw_client_map, fit_plane, map_moments
from fielding.reporting.charts.histories import newest_rows
from fielding.reporting.numbers.run_record import read_run
from fielding.reporting.page import Section
from fielding.traces.reports import ReportStream
from tests.reporting.charts.inside_runs import inside_run


def numbers(packed: Any) -> Vector:
    if isinstance(packed, dict):
        return np.frombuffer(base64.b64decode(packed["bdata"]), dtype=packed["dtype"]).astype(np.float64)
    return np.array([np.nan if one is None else one for one in packed], dtype=np.float64)


def dots(section: Section, at: int) -> dict[str, Any]:
    return dict(section.frames[at].traces[0])


def two_kinds(n_each: int = 40) -> ReportStream:
    rng = np.random.default_rng(0)
    mixes = np.concatenate([rng.dirichlet([40, 5, 1, 1], n_each), rng.dirichlet([1, 1, 5, 40], n_each)])
    return ReportStream(
        kind="histogram",
        client_ids=tuple(range(2 * n_each)),
        client=np.arange(2 * n_each),
        step=np.zeros(2 * n_each, dtype=np.int64),
        representations=mixes,
    )


def test_clients_of_two_kinds_are_apart_on_the_first_axis() -> None:
    reports = two_kinds()

    plane = fit_plane(reports, newest_rows(reports, [0]))
    first = plane.project(reports.representations.astype(np.float64))[:, 0]

    low, high = sorted([first[:40], first[40:]], key=lambda part: float(part.mean()))
    assert low.max() < high.min()
    assert plane.shares[0] > 0.8
    assert sum(plane.shares) <= 1.0 + 1e-12


def test_the_plane_does_not_depend_on_the_order_of_clients() -> None:
    reports = two_kinds()
    order = np.random.default_rng(1).permutation(80)
    other = ReportStream(
        kind="histogram",
        client_ids=reports.client_ids,
        client=reports.client,
        step=reports.step,
        representations=reports.representations[order],
    )

    planes = [fit_plane(one, newest_rows(one, [0])) for one in (reports, other)]

    np.testing.assert_allclose(planes[0].axes, planes[1].axes, atol=1e-9)


def test_vectors_are_drawn_as_they_are() -> None:
    rows = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    reports = ReportStream(
        kind="vector",
        client_ids=(0, 1, 2, 3),
        client=np.arange(4),
        step=np.zeros(4, dtype=np.int64),
        representations=rows,
    )

    plane = fit_plane(reports, newest_rows(reports, [0]))

    np.testing.assert_allclose(plane.project(rows), rows, atol=1e-12)
    np.testing.assert_allclose(plane.shares, (0.9, 0.1))


def test_each_moment_shows_the_newest_reports_and_the_clusters_then(tmp_path: Path) -> None:
    section = draw_client_map(inside_run(tmp_path / "run"), None)

    assert [frame.label for frame in section.frames] == ["round 0", "round 4", "round 8"]
    assert [numbers(dots(section, at)["marker"]["color"]).tolist() for at in range(3)] == [
        [0, 0, 1, 1], [0, 1, 1, 1], [0, 1, 2, 2],
    ]  # fmt: skip
    assert dots(section, 0)["text"][1] == "cluster 0<br>cat (60%), dog (40%)"
    assert dots(section, 1)["text"][1] == "cluster 1<br>owl (80%), dog (20%)"
    assert dots(section, 2)["text"][2] == "cluster 2<br>dog (100%)"


def test_who_reported_the_same_stays_in_place(tmp_path: Path) -> None:
    section = draw_client_map(inside_run(tmp_path / "run"), None)

    places = np.stack([numbers(dots(section, at)["x"]) for at in range(3)])

    assert (places[:, 0] == places[0, 0]).all()  # ann reported once
    assert places[0, 1] != places[1, 1]


def test_the_middle_of_a_cluster_is_the_mean_of_its_dots(tmp_path: Path) -> None:
    section = draw_client_map(inside_run(tmp_path / "run"), None)

    x, middles = numbers(dots(section, 0)["x"]), section.frames[0].traces[1]["x"]

    np.testing.assert_allclose(middles, [x[:2].mean(), x[2:].mean()], atol=1e-4)
    assert section.frames[0].traces[1]["text"] == [
        "middle of cluster 0: 2 clients",
        "middle of cluster 1: 2 clients",
    ]


def test_axis_titles_say_how_much_they_show(tmp_path: Path) -> None:
    figure = draw_client_map(inside_run(tmp_path / "run"), None).figure

    assert figure is not None
    assert "% of the variance" in figure["layout"]["xaxis"]["title"]["text"]


def test_a_sample_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CLIENTS", 3)

    section = draw_client_map(inside_run(tmp_path / "run"), None)

    assert "3 of 4 clients are shown" in section.text
    assert len(dots(section, 0)["text"]) == 3


def test_other_representations_are_named_and_have_no_labels(tmp_path: Path) -> None:
    run = inside_run(tmp_path / "run", coordinator={"kind": "vector", "representation": "embedding"})

    section = draw_client_map(run, None)

    assert "embedding" in section.text
    assert dots(section, 0)["text"][0] == "cluster 0"


def test_clients_without_samples_leave_the_map(tmp_path: Path) -> None:
    folder = inside_run(tmp_path / "run").folder
    np.savez(
        folder / "reports" / "00000009.npz",
        step=np.array([9]),
        client=np.array(["ann"]),
        representation=np.zeros((1, 3), dtype=np.float32),
    )

    section = draw_client_map(read_run(folder), None)

    assert section.frames[-1].label == "round 9"
    assert np.isnan(numbers(dots(section, -1)["x"])[0])
    assert section.frames[-1].traces[1]["text"] == ["middle of cluster 1: 1 clients", "middle of cluster 2: 2 clients"]


def test_re_clusterings_are_shown_before_other_moments(tmp_path: Path) -> None:
    run = inside_run(tmp_path / "run")
    reports = run.reports()

    assert reports is not None
    assert map_moments(run, reports, most=2) == [0, 8]
