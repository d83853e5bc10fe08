from pathlib import Path

from fielding.reporting.charts.curves import draw_agreement
from fielding.reporting.charts.figures import EVENT_COLOR
from tests.reporting.charts.group_runs import accuracies, drawn, groups_of, numbers, traces


def test_agreement_is_a_mean_over_seeds(tmp_path: Path) -> None:
    seeds = [accuracies([0.5, 0.5], ari=0.25), accuracies([0.5, 0.5], ari=0.75)]

    section = draw_agreement(groups_of(tmp_path, {"ours": seeds}))

    assert numbers(traces(section, "ours")[-1]["y"]) == [0.5, 0.5]


def test_re_clusterings_of_a_single_run_are_marked(tmp_path: Path) -> None:
    rows = accuracies([0.5, 0.5], ari=0.25)
    rows[1]["reclustered"] = True

    section = draw_agreement(groups_of(tmp_path, {"ours": [rows]}))

    assert [mark["x0"] for mark in drawn(section)["layout"]["shapes"] if mark["line"]["color"] == EVENT_COLOR] == [1.0]


def test_where_the_truth_is_not_known_nothing_is_drawn(tmp_path: Path) -> None:
    flat = [{**row, "n_clusters": 1} for row in accuracies([0.5], ari=0.0)]

    assert draw_agreement(groups_of(tmp_path / "a", {"ours": [accuracies([0.5])]})).missing
    assert draw_agreement(groups_of(tmp_path / "b", {"global": [flat]})).missing
