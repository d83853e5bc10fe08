from pathlib import Path

import numpy as np

from fielding.reporting.charts.curves import (
    MANY_GROUPS,
    MOST_POINTS,
    Curves,
    add_level,
    counted_runs,
    curves_figure,
    drop_many_bands,
    group_lines,
    join_curves,
    mean_and_half_width,
    mean_line,
    over_rounds,
    over_time,
    seeds_words,
)
from fielding.reporting.charts.figures import Line
from fielding.reporting.numbers.groups import Group
from tests.reporting.charts.group_runs import accuracies, groups_of, one_run

# The 97.5 % quantile of Student's t with two degrees of freedom, from tables.
T_OF_THREE = 4.30265


def test_means_and_intervals_are_those_of_the_runs_that_got_so_far() -> None:
    values = np.array([[0.1, 0.2], [0.2, np.nan], [0.6, 0.4]])

    mean, half_width = mean_and_half_width(values)

    np.testing.assert_allclose(mean, [0.3, 0.3])
    spread = np.sqrt((0.2**2 + 0.1**2 + 0.3**2) / 2)
    np.testing.assert_allclose(half_width[0], T_OF_THREE * spread / np.sqrt(3), rtol=1e-5)
    np.testing.assert_allclose(half_width[1], 12.7062 * np.sqrt(2 * 0.1**2) / np.sqrt(2), rtol=1e-5)


def test_the_band_is_the_interval_and_ends_in_the_line_where_one_run_is_left() -> None:
    line = mean_line(Curves(x=np.array([0.0, 5.0]), values=np.array([[0.0, 1.0], [2.0, np.nan]])), "ours", style=2)

    assert line.band is not None
    np.testing.assert_allclose(line.band[0], [1 - 12.7062, 1.0], rtol=1e-5)
    np.testing.assert_allclose(line.band[1], [1 + 12.7062, 1.0], rtol=1e-5)


def test_a_single_run_has_no_band() -> None:
    assert mean_line(Curves(x=np.arange(2.0), values=np.ones((1, 2))), "ours", style=0).band is None


def test_a_long_curve_is_thinned_together_with_its_band() -> None:
    values = np.stack([np.arange(5000.0), np.arange(5000.0) + 2.0])

    line = mean_line(Curves(x=np.arange(5000.0), values=values), "ours", style=0)

    assert line.band is not None
    assert len(line.y) == line.band[0].size <= MOST_POINTS
    np.testing.assert_allclose(np.asarray(line.y) - line.band[0], 12.7062, rtol=1e-5)


def test_only_finished_runs_count_as_soon_as_there_is_one(tmp_path: Path) -> None:
    done = one_run(tmp_path / "a", accuracies([0.5]))
    going = one_run(tmp_path / "b", accuracies([0.9]), seed=2, is_finished=False)

    assert counted_runs(Group(name="ours", runs=(done, going))) == (done,)
    assert counted_runs(Group(name="ours", runs=(going,))) == (going,)


def test_rounds_without_a_finite_value_are_left_out(tmp_path: Path) -> None:
    run = one_run(tmp_path / "a", [*accuracies([0.5, None]), {"round": 2, "time_s": 9.0, "accuracy": float("inf")}])

    found = over_rounds([run], "accuracy")

    assert found is not None
    assert found.x.tolist() == [0.0]


def test_over_time_a_value_holds_until_the_next_up_to_the_end_of_the_shortest_run(tmp_path: Path) -> None:
    slow = one_run(tmp_path / "slow", accuracies([0.1, 0.2, 0.3], seconds=100.0))
    fast = one_run(tmp_path / "fast", accuracies([0.5, 0.6, 0.7], seconds=60.0), seed=2)

    found = over_time([slow, fast], "accuracy", n_points=9)

    assert found is not None
    assert found.x.tolist() == [100, 110, 120, 130, 140, 150, 160, 170, 180]
    assert found.values[0].tolist() == [0.1] * 9
    assert found.values[1].tolist() == [0.5, 0.5, *[0.6] * 6, 0.7]


def test_runs_that_do_not_overlap_in_time_are_compared_at_one_moment(tmp_path: Path) -> None:
    early = one_run(tmp_path / "early", accuracies([0.1, 0.2], seconds=1.0))
    late = one_run(tmp_path / "late", accuracies([0.5, 0.6], seconds=100.0), seed=2)

    found = over_time([early, late], "accuracy")

    assert found is not None
    assert found.x.tolist() == [100.0]
    assert found.values.tolist() == [[0.2], [0.5]]


def test_without_any_value_there_is_no_curve() -> None:
    assert join_curves([]) is None
    assert over_rounds([], "accuracy") is None
    assert over_time([], "accuracy") is None


def test_many_groups_have_neither_bands_nor_a_legend(tmp_path: Path) -> None:
    names = [f"method {at}" for at in range(MANY_GROUPS + 1)]
    gathered = groups_of(tmp_path, {name: [accuracies([0.5]), accuracies([0.7])] for name in names})

    lines = group_lines(gathered, lambda runs: over_rounds(runs, "accuracy"), (0.0, 1.0))

    assert [line.name for line in lines] == names
    assert all(line.band is None for line in lines)
    assert curves_figure(lines, x_title="round", y_title="accuracy")["layout"]["showlegend"] is False
    assert "left out" in seeds_words(gathered)
    assert all(line.band is not None for line in drop_many_bands([_banded()]))


def test_four_bands_are_fainter_than_three() -> None:
    few = curves_figure([_banded()] * 3, x_title="x", y_title="y")["data"]
    many = curves_figure([_banded()] * 4, x_title="x", y_title="y")["data"]

    assert few[0]["fillcolor"] == "rgba(0,114,178,0.18)"
    assert many[0]["fillcolor"] == "rgba(0,114,178,0.08)"


def test_a_level_is_a_line_across_with_words_that_stay_text() -> None:
    layout = add_level(curves_figure([_banded()], x_title="x", y_title="y"), 0.5, "<b>")["layout"]

    assert (layout["shapes"][0]["y0"], layout["shapes"][0]["y1"]) == (0.5, 0.5)
    assert layout["annotations"][0]["text"] == "&lt;b&gt;"


def _banded() -> Line:
    return Line(name="ours", x=[0.0], y=[1.0], band=(np.array([0.5]), np.array([1.5])))
