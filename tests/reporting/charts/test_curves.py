from dataclasses import replace
from pathlib import Path

import numpy as np

from fielding.reporting.charts.curves import common_target, curves_figure, draw_accuracy, fit_axis, reclusterings
from fielding.reporting.charts.figures import ARRIVAL_COLOR, EVENT_COLOR, Line
from fielding.reporting.numbers.groups import Group, RunGroups
from tests.reporting.charts.group_runs import accuracies, drawn, groups_of, numbers, one_run, traces


def test_the_line_of_a_group_is_the_mean_over_its_seeds_and_the_band_their_interval(tmp_path: Path) -> None:
    gathered = groups_of(
        tmp_path, {"ours": [accuracies([0.29, 0.2]), accuracies([0.31, 0.4])], "global": [accuracies([0.1, 0.5])]}
    )

    band, line = traces(draw_accuracy(gathered)[0], "ours")

    np.testing.assert_allclose(numbers(line["y"]), [0.3, 0.3])
    # The quantile of t with one degree of freedom, times the errors 0.01 and 0.1; cut off where no accuracy is.
    np.testing.assert_allclose(numbers(band["y"]), [0.427062, 1.0, 0.0, 0.172938], atol=1e-5)
    assert line["meta"] == {"group": "ours"}


def test_the_target_is_the_final_accuracy_of_global_even_if_another_is_the_reference(tmp_path: Path) -> None:
    runs = {"ours": [accuracies([0.2, 0.6])], "global": [accuracies([0.1, 0.5]), accuracies([0.1, 0.4])]}

    gathered = groups_of(tmp_path, runs, reference="ours")

    assert common_target(gathered) == ("global", 0.45)
    layout = drawn(draw_accuracy(gathered)[0])["layout"]
    assert [shape["y0"] for shape in layout["shapes"] if shape.get("xref") == "paper"] == [0.45]


def test_without_global_the_target_is_that_of_the_reference_and_alone_there_is_none(tmp_path: Path) -> None:
    two = groups_of(tmp_path / "two", {"a": [accuracies([0.25])], "b": [accuracies([0.5])]}, reference="b")
    one = groups_of(tmp_path / "one", {"global": [accuracies([0.25])]})

    assert common_target(two) == ("b", 0.5)
    assert common_target(one) is None


def test_over_time_hours_are_told_where_there_are_many(tmp_path: Path) -> None:
    gathered = groups_of(
        tmp_path,
        {"a": [accuracies([0.1, 0.2], seconds=7200.0)], "b": [accuracies([0.1, 0.2], seconds=7200.0)]},
    )

    _, timed = draw_accuracy(gathered)

    assert drawn(timed)["layout"]["xaxis"]["title"]["text"] == "simulated hours"
    x = numbers(traces(timed, "a")[0]["x"])
    assert (x[0], x[-1]) == (2.0, 4.0)


def test_corrected_accuracy_has_figures_of_its_own(tmp_path: Path) -> None:
    rows = accuracies([0.5, 0.6], corrected_accuracy=0.75)

    found = draw_accuracy(groups_of(tmp_path, {"a": [rows], "b": [accuracies([0.5])]}))

    assert [section.title for section in found] == [
        "Accuracy over rounds",
        "Accuracy over simulated time",
        "Corrected accuracy over rounds",
        "Corrected accuracy over simulated time",
    ]
    assert numbers(traces(found[2], "a")[0]["y"]) == [0.75, 0.75]
    assert not traces(found[2], "b")


def test_a_single_run_shows_mean_worst_tenth_and_more_with_arrivals_and_re_clusterings(tmp_path: Path) -> None:
    rows = accuracies([0.5, 0.6, 0.7, 0.8], worst_decile=0.25, tuned_accuracy=0.9)
    rows[3]["reclustered"] = True
    gathered = groups_of(tmp_path, {"fielding": [rows]})

    section, timed = draw_accuracy(gathered)

    assert numbers(traces(section, "mean over clients")[0]["y"]) == [0.5, 0.6, 0.7, 0.8]
    assert numbers(traces(section, "worst tenth of the clients")[0]["y"]) == [0.25] * 4
    assert numbers(traces(section, "mean, tuned")[0]["y"]) == [0.9] * 4
    marks = {(shape["x0"], shape["line"]["color"]) for shape in drawn(section)["layout"]["shapes"]}
    assert marks == {(2.0, ARRIVAL_COLOR), (3.0, EVENT_COLOR)}
    assert [shape["x0"] for shape in drawn(timed)["layout"]["shapes"]] == [4.0]  # minutes
    assert "Orange" in section.text


def test_a_single_group_of_seeds_has_bands_and_no_orange_marks(tmp_path: Path) -> None:
    rows = accuracies([0.5, 0.6])
    rows[1]["reclustered"] = True

    section, _ = draw_accuracy(groups_of(tmp_path, {"fielding": [rows, accuracies([0.7, 0.8])]}))

    assert len(traces(section, "mean over clients")) == 2
    assert "Orange" not in section.text


def test_the_axis_fits_what_comes_after_the_start() -> None:
    y = np.concatenate([[0.0], np.full(19, 0.8)])
    line = Line(name="ours", x=np.arange(20.0), y=y)

    low, high = fit_axis(curves_figure([line], x_title="x", y_title="y"), [line])["layout"]["yaxis"]["range"]

    assert 0.7 < low < 0.8 < high < 0.9


def test_runs_without_an_evaluation_are_said_to_have_none(tmp_path: Path) -> None:
    run = one_run(tmp_path / "a", accuracies([None]), is_finished=False)
    alone = RunGroups(title="", groups=(Group(name="a", runs=(run,)),), reference=None)
    both = RunGroups(title="", groups=(Group(name="a", runs=(run,)), Group(name="b", runs=(run,))), reference="a")

    assert all(section.missing for gathered in (alone, both) for section in draw_accuracy(gathered))


def test_seconds_of_re_clusterings_are_known_too(tmp_path: Path) -> None:
    rows = accuracies([0.5, 0.6], seconds=10.0)
    rows[1]["reclustered"] = True
    run = one_run(tmp_path / "a", rows)

    assert reclusterings(run) == [1.0]
    assert reclusterings(run, "time_s") == [20.0]


def test_groups_with_different_targets_or_one_that_nobody_ran_have_no_line_for_it(tmp_path: Path) -> None:
    names = ("ours easy", "ours hard", "global easy", "global hard")
    gathered = groups_of(tmp_path, {name: [accuracies([0.5, 0.5])] for name in names}, "global easy")
    settings = {name: dict(zip(("method.name", "trace.scenario"), name.split(), strict=True)) for name in names}

    for one in (replace(gathered, settings=settings), replace(gathered, reference="gone")):
        assert common_target(one) is None
        assert "Dotted" not in draw_accuracy(one)[0].text
