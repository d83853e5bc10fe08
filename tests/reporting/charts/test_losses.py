from pathlib import Path

from fielding.reporting.charts.curves import draw_losses
from tests.reporting.charts.group_runs import accuracies, groups_of, numbers, traces


def test_a_single_group_has_both_losses_in_one_figure(tmp_path: Path) -> None:
    (section,) = draw_losses(groups_of(tmp_path, {"ours": [accuracies([0.5, None], test_loss=2.0)]}))

    assert numbers(traces(section, "training")[0]["y"]) == [0.5, 0.5]
    assert numbers(traces(section, "test")[0]["y"]) == [2.0]


def test_several_groups_have_a_figure_for_each_loss(tmp_path: Path) -> None:
    trained, tested = draw_losses(
        groups_of(tmp_path, {"a": [accuracies([0.5], test_loss=2.0)], "b": [accuracies([0.5])]})
    )

    assert numbers(traces(trained, "b")[0]["y"]) == [0.5]
    assert numbers(traces(tested, "a")[0]["y"]) == [2.0]
    assert not traces(tested, "b")


def test_before_the_first_round_losses_are_missing(tmp_path: Path) -> None:
    assert draw_losses(groups_of(tmp_path / "a", {"a": [[]]}))[0].missing
    assert all(section.missing for section in draw_losses(groups_of(tmp_path / "b", {"a": [[]], "b": [[]]})))
