from dataclasses import replace
from pathlib import Path

import numpy as np

from fielding.reporting.charts.curves import draw_differences
from tests.reporting.charts.group_runs import accuracies, drawn, groups_of, numbers, traces


def test_differences_are_paired_by_seed_and_round(tmp_path: Path) -> None:
    ours = [accuracies([0.5, None, 0.9]), accuracies([0.7, 0.8, 0.9])]
    theirs = [accuracies([0.4, 0.5, 0.5]), accuracies([0.4, 0.5])]

    (section,) = draw_differences(groups_of(tmp_path, {"ours": ours, "global": theirs}, reference="global"))

    band, line = traces(section, "ours")
    assert numbers(line["x"]) == [0.0, 1.0, 2.0]
    np.testing.assert_allclose(numbers(line["y"]), [0.2, 0.3, 0.4])  # of both seeds, of the second, of the first
    np.testing.assert_allclose(numbers(band["y"])[:3], [0.2 + 12.7062 * 0.1, 0.3, 0.4], rtol=1e-5)
    assert [shape["y0"] for shape in drawn(section)["layout"]["shapes"] if shape.get("xref")] == [0.0]
    assert section.title == "Accuracy against global"


def test_the_two_differences_of_the_paper_are_drawn_where_there_are_such_groups(tmp_path: Path) -> None:
    runs = {
        "global": [accuracies([0.1])], "fielding": [accuracies([0.75])], "always": [accuracies([0.5])],
        "selected": [accuracies([0.25])],
    }  # fmt: skip

    _, ours, heard = draw_differences(groups_of(tmp_path, runs))

    assert ours.title == "Accuracy of fielding minus always"
    assert numbers(traces(ours, "fielding - always")[0]["y"]) == [0.25]
    assert heard.title == "Accuracy of always minus selected"
    assert numbers(traces(heard, "always - selected")[0]["y"]) == [0.25]
    assert "one seed" in ours.text


def test_the_same_difference_is_not_drawn_twice(tmp_path: Path) -> None:
    runs = {"always": [accuracies([0.5])], "fielding": [accuracies([0.75])]}

    assert len(draw_differences(groups_of(tmp_path, runs, reference="always"))) == 1


def test_groups_without_a_common_seed_or_round_cannot_be_compared(tmp_path: Path) -> None:
    (section,) = draw_differences(groups_of(tmp_path, {"a": [accuracies([0.5, None])], "b": [accuracies([None, 0.5])]}))

    assert "No other group" in section.missing


def test_one_group_differs_from_nobody(tmp_path: Path) -> None:
    assert draw_differences(groups_of(tmp_path, {"a": [accuracies([0.5])]})) == []


def test_a_reference_without_a_run_is_told(tmp_path: Path) -> None:
    runs = groups_of(tmp_path, {"a": [accuracies([0.5])], "b": [accuracies([0.5])]})

    (section,) = draw_differences(replace(runs, reference="gone"))

    assert section.missing == "There is no run of gone, which others are held against."


def test_each_group_is_drawn_against_the_one_with_its_settings(tmp_path: Path) -> None:
    levels = {"ours easy": 0.75, "ours hard": 0.5, "global easy": 0.5, "global hard": 0.125}
    runs = groups_of(tmp_path, {name: [accuracies([level])] for name, level in levels.items()}, "global easy")
    settings = {name: dict(zip(("method.name", "trace.scenario"), name.split(), strict=True)) for name in levels}

    (section,) = draw_differences(replace(runs, settings=settings))

    assert section.title == "Accuracy against the reference"
    assert "whichever of global easy, global hard has the same settings" in section.text
    assert numbers(traces(section, "ours easy")[0]["y"]) == [0.25]
    assert numbers(traces(section, "ours hard")[0]["y"]) == [0.375]
    assert traces(section, "global hard") == []
