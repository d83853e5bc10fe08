"""Accuracy around drifts: means over the same drifts at every point, and what is said where tests are too rare."""

from pathlib import Path

import numpy as np

from fielding.reporting.charts.drift_events import around_drifts, draw_around_drifts
from fielding.reporting.numbers.groups import Group, RunGroups
from tests.reporting.charts.group_runs import accuracies, drawn, groups_of, numbers, one_run, traces, view

# Samples arrive in rounds 4, 8 and 12, and every one costs a tenth; two rounds later it is made up for.
DROPS = [0.8, 0.8, 0.8, 0.8, 0.7, 0.7, 0.8, 0.8, 0.7, 0.7, 0.8, 0.8, 0.7, 0.7, 0.8, 0.8]


def dropping(folder: Path, **more: float) -> RunGroups:
    run = one_run(folder / "run", accuracies(DROPS, **more), trace={"name": "digits", "gap": 4, "window": 4})
    return RunGroups(title="", groups=(Group(name="ours", runs=(run,)),), reference=None)


def test_the_line_is_the_mean_over_drifts_from_before_to_after(tmp_path: Path) -> None:
    section = draw_around_drifts(dropping(tmp_path))

    (shown,) = section.views
    (line,) = traces(shown, "ours")
    assert numbers(line["x"]) == [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0]
    np.testing.assert_allclose(numbers(line["y"]), [0.8, 0.8, 0.7, 0.7, 0.8, 0.8])
    assert [shape["x0"] for shape in drawn(shown)["layout"]["shapes"]] == [0.0]


def test_the_number_of_drifts_and_how_often_models_are_tested_are_told(tmp_path: Path) -> None:
    (shown,) = draw_around_drifts(dropping(tmp_path)).views

    assert shown.text.startswith("Mean over 3 drifts per run: rounds in which new samples arrived")
    assert "Models are tested every 1 rounds" in shown.text
    # Lower by 0.1, 0.075 and 0.06 than in the ten rounds before; back at 95 % of that two rounds after each drift.
    assert [list(row) for row in shown.table] == [
        ["", "drifts per run", "drop", "rounds to recover", "not recovered"], ["ours", "3", "0.078", "2", "0%"],
    ]  # fmt: skip


def test_the_next_interval_has_a_view_of_its_own(tmp_path: Path) -> None:
    section = draw_around_drifts(dropping(tmp_path, next_accuracy=0.25))

    assert set(numbers(traces(view(section, "next interval"), "ours")[0]["y"])) == {0.25}


def test_every_point_is_a_mean_over_the_same_drifts() -> None:
    rounds, accuracy = np.arange(4.0, 40.0, 5.0), np.linspace(0.1, 0.8, 8)

    found = around_drifts(rounds, accuracy, [5.0, 20.0, 35.0])

    # Before the first drift there is one test only, and after the last one as well.
    assert found is not None
    assert found[2] == 1


def test_where_tests_are_rarer_than_drifts_nothing_is_drawn(tmp_path: Path) -> None:
    assert around_drifts(np.arange(0.0, 100.0, 10.0), np.full(10, 0.5), [10.0, 20.0, 30.0]) is None
    assert around_drifts(np.arange(3.0), np.full(3, 0.5), []) is None
    assert "fewer than two evaluations" in draw_around_drifts(groups_of(tmp_path, {"a": [accuracies([0.5])]})).missing
