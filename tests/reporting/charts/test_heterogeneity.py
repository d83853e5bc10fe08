from pathlib import Path

from fielding.reporting.charts.curves import draw_heterogeneity
from tests.reporting.charts.group_runs import accuracies, groups_of, numbers, traces


def test_clusters_are_held_against_no_clustering_as_it_was_measured(tmp_path: Path) -> None:
    rows = accuracies([0.5, 0.5], measured_heterogeneity=0.25, unclustered_heterogeneity=1.5)

    section = draw_heterogeneity(groups_of(tmp_path, {"a": [accuracies([0.5])], "b": [rows, rows]}))

    assert numbers(traces(section, "b")[-1]["y"]) == [0.25, 0.25]
    assert numbers(traces(section, "no clustering")[-1]["y"]) == [1.5, 1.5]
    assert not traces(section, "a")


def test_older_runs_are_held_against_global(tmp_path: Path) -> None:
    runs = {name: [accuracies([0.5], measured_heterogeneity=high)] for name, high in (("ours", 0.5), ("global", 1.0))}

    section = draw_heterogeneity(groups_of(tmp_path, runs))

    assert not traces(section, "no clustering")
    assert "global has all clients in one cluster" in section.text


def test_what_nobody_measured_is_said_to_be_missing(tmp_path: Path) -> None:
    alone = groups_of(tmp_path / "a", {"ours": [accuracies([0.5], measured_heterogeneity=0.5)]})

    assert "was not measured" in draw_heterogeneity(alone).text
    assert draw_heterogeneity(groups_of(tmp_path / "b", {"ours": [accuracies([0.5])]})).missing
