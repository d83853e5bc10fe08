from pathlib import Path

from fielding.reporting.charts.curves import MOST_TICKS, draw_cluster_counts
from tests.reporting.charts.group_runs import accuracies, drawn, groups_of, numbers, traces


def test_the_number_of_clusters_is_a_mean_and_re_clusterings_are_marked_on_it(tmp_path: Path) -> None:
    first, second = accuracies([0.5, 0.5]), accuracies([0.5, 0.5])
    first[1] |= {"n_clusters": 5, "reclustered": True, "n_moved": 4}

    section = draw_cluster_counts(groups_of(tmp_path, {"ours": [first, second]}))

    _, line, marks = traces(section, "ours")
    assert numbers(line["y"]) == [2.0, 3.5]
    assert (numbers(marks["x"]), numbers(marks["y"])) == ([1.0], [3.5])
    assert marks["text"] == ["grouped anew in 1 of 2 runs"]
    assert list(section.table[1]) == ["ours", "0.5", "2", "2.75", "3.5"]


def test_groups_without_clusters_are_left_out(tmp_path: Path) -> None:
    flat = accuracies([0.5, 0.5])
    for row in flat:
        row["n_clusters"] = 1

    section = draw_cluster_counts(groups_of(tmp_path / "a", {"ours": [accuracies([0.5])], "global": [flat]}))

    assert not traces(section, "global")
    assert list(section.row_groups) == ["ours"]
    assert draw_cluster_counts(groups_of(tmp_path / "b", {"global": [flat]})).missing


def test_very_many_re_clusterings_are_told_not_marked(tmp_path: Path) -> None:
    rows = accuracies([0.5] * (MOST_TICKS + 1))
    for row in rows:
        row["reclustered"] = True

    section = draw_cluster_counts(groups_of(tmp_path, {"ours": [rows]}))

    assert len(drawn(section)["data"]) == 1
    assert "too many to be marked" in section.text
