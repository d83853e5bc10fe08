from dataclasses import replace
from pathlib import Path

import numpy as np

from fielding.reporting.charts.curves import (
    MANY_GROUPS,
    MOST_POINTS,
    MOST_TICKS,
    Curves,
    add_level,
    common_target,
    counted_runs,
    curves_figure,
    draw_accuracy,
    draw_agreement,
    draw_cluster_counts,
    draw_heterogeneity,
    draw_losses,
    draw_metric,
    drop_many_bands,
    fit_axis,
    group_lines,
    join_curves,
    mean_and_half_width,
    mean_line,
    metric_names,
    over_rounds,
    over_time,
    reclusterings,
    seeds_words,
)
from fielding.reporting.charts.figures import ARRIVAL_COLOR, EVENT_COLOR, Line
from fielding.reporting.numbers.groups import Group, RunGroups
from tests.reporting.charts.group_runs import accuracies, drawn, groups_of, numbers, one_run, traces, view


def test_the_line_of_a_group_is_the_mean_over_its_seeds_and_the_band_their_interval(tmp_path: Path) -> None:
    gathered = groups_of(
        tmp_path, {"ours": [accuracies([0.29, 0.2]), accuracies([0.31, 0.4])], "global": [accuracies([0.1, 0.5])]}
    )

    band, line = traces(draw_accuracy(gathered).views[0], "ours")

    np.testing.assert_allclose(numbers(line["y"]), [0.3, 0.3])
    # The quantile of t with one degree of freedom, times the errors 0.01 and 0.1; cut off where no accuracy is.
    np.testing.assert_allclose(numbers(band["y"]), [0.427062, 1.0, 0.0, 0.172938], atol=1e-5)
    assert line["meta"] == {"group": "ours"}


def test_the_target_is_the_final_accuracy_of_global_even_if_another_is_the_reference(tmp_path: Path) -> None:
    runs = {"ours": [accuracies([0.2, 0.6])], "global": [accuracies([0.1, 0.5]), accuracies([0.1, 0.4])]}

    gathered = groups_of(tmp_path, runs, reference="ours")

    assert common_target(gathered) == ("global", 0.45)
    layout = drawn(draw_accuracy(gathered).views[0])["layout"]
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

    timed = view(draw_accuracy(gathered), "over simulated time")

    assert drawn(timed)["layout"]["xaxis"]["title"]["text"] == "simulated hours"
    x = numbers(traces(timed, "a")[0]["x"])
    assert (x[0], x[-1]) == (2.0, 4.0)


def test_corrected_accuracy_has_views_of_its_own(tmp_path: Path) -> None:
    rows = accuracies([0.5, 0.6], corrected_accuracy=0.75)

    found = draw_accuracy(groups_of(tmp_path, {"a": [rows], "b": [accuracies([0.5])]}))

    assert [list(one.words) for one in found.views if "minus the reference" not in one.words] == [
        ["window", reading, axis]
        for reading in ("model as it is", "corrected")
        for axis in ("over rounds", "over simulated time", "over bytes")
    ]
    corrected = view(found, "corrected", "over rounds")
    assert numbers(traces(corrected, "a")[0]["y"]) == [0.75, 0.75]
    assert not traces(corrected, "b")


def test_what_clients_are_served_opens_the_chart_only_where_all_groups_have_experts(tmp_path: Path) -> None:
    plain, served = accuracies([0.5, 0.6]), accuracies([0.5, 0.6], served_accuracy=0.7)
    both = draw_accuracy(groups_of(tmp_path / "both", {"a": [served], "b": [served]}))
    one = draw_accuracy(groups_of(tmp_path / "one", {"a": [served], "b": [plain]}))

    assert both.views[0].words[1] == "served"
    assert one.views[0].words[1] == "model as it is"
    assert {view.words[1] for view in one.views} == {"served", "model as it is"}


def test_metrics_of_ones_own_are_drawn_as_accuracy_is_whatever_their_unit(tmp_path: Path) -> None:
    ours, theirs = (
        accuracies([0.5, 0.6], **{"metric/error": level, "served_next_metric/error": 40.0}) for level in (0.002, 0.004)
    )
    gathered = groups_of(tmp_path / "two", {"a": [theirs], "b": [ours]})

    found = draw_metric(gathered, "error")

    assert metric_names(gathered) == ["error"]
    assert found.title == "error"
    window = view(found, "window", "model as it is", "over rounds")
    assert numbers(traces(window, "b")[0]["y"]) == [0.002, 0.002]
    assert drawn(window)["layout"]["yaxis"]["title"]["text"] == "error, window"
    low, high = drawn(window)["layout"]["yaxis"]["range"]
    assert 0.001 < low < 0.002 < 0.004 < high < 0.005
    assert numbers(traces(view(found, "next interval", "served", "over rounds"), "b")[0]["y"]) == [40.0, 40.0]
    minus = view(found, "window", "minus the reference")
    assert numbers(traces(minus, "b")[0]["y"]) == [-0.002, -0.002]
    assert "better." not in minus.text
    alone = draw_metric(groups_of(tmp_path / "one", {"a": [ours]}), "error")
    assert {one.words[0] for one in alone.views} == {"served", "model as it is"}


def test_a_metric_without_any_value_is_told(tmp_path: Path) -> None:
    found = draw_metric(groups_of(tmp_path, {"a": [[{**accuracies([0.5])[0], "metric/f1": None}]]}), "f1")

    assert found.missing == "No client had a value of this metric so far."


def test_the_next_and_the_newest_interval_have_views_and_differences_of_their_own(tmp_path: Path) -> None:
    ours, theirs = (accuracies([0.5, 0.6], newest_accuracy=0.7, next_accuracy=level) for level in (0.75, 0.25))
    gathered = groups_of(tmp_path, {"a": [theirs], "b": [ours]})

    found = draw_accuracy(gathered)

    assert numbers(traces(view(found, "next interval", "over rounds"), "b")[0]["y"]) == [0.75, 0.75]
    assert numbers(traces(view(found, "newest interval", "over rounds"), "b")[0]["y"]) == [0.7, 0.7]
    assert numbers(traces(view(found, "next interval", "minus the reference"), "b")[0]["y"]) == [0.5, 0.5]
    assert numbers(traces(view(found, "window", "minus the reference"), "b")[0]["y"]) == [0.0, 0.0]


def test_a_score_that_is_the_same_throughout_is_drawn_once_and_told(tmp_path: Path) -> None:
    rows = accuracies([0.5, 0.5], newest_accuracy=0.5)

    several = draw_accuracy(groups_of(tmp_path / "a", {"a": [rows], "b": [rows]}))
    alone = draw_accuracy(groups_of(tmp_path / "b", {"a": [rows]}))

    assert {one.words[0] for one in several.views} == {"window"}
    assert several.text == "Left out: newest interval (model as it is), the same as window (model as it is)."
    assert alone.text == "Left out: newest interval, the same as window."
    assert not traces(alone.views[0], "newest interval")


def test_a_single_run_shows_the_three_scores_worst_tenth_and_more_with_arrivals_and_re_clusterings(
    tmp_path: Path,
) -> None:
    rows = accuracies([0.5, 0.6, 0.7, 0.8], worst_decile=0.25, tuned_accuracy=0.9, next_accuracy=0.4)
    rows[3]["reclustered"] = True
    gathered = groups_of(tmp_path, {"fielding": [rows]})

    found = draw_accuracy(gathered)
    section, timed, sent, *_ = found.views

    assert numbers(traces(section, "window")[0]["y"]) == [0.5, 0.6, 0.7, 0.8]
    assert numbers(traces(section, "next interval")[0]["y"]) == [0.4] * 4
    assert numbers(traces(section, "worst tenth of the clients")[0]["y"]) == [0.25] * 4
    assert numbers(traces(view(found, "tuned", "over rounds"), "window")[0]["y"]) == [0.9] * 4
    marks = {(shape["x0"], shape["line"]["color"]) for shape in drawn(section)["layout"]["shapes"]}
    assert marks == {(2.0, ARRIVAL_COLOR), (3.0, EVENT_COLOR)}
    assert [shape["x0"] for shape in drawn(timed)["layout"]["shapes"]] == [4.0]  # minutes
    assert "Orange" in section.text
    # A thousand bytes down and as many up in each round.
    np.testing.assert_allclose(numbers(traces(sent, "window")[0]["x"])[-1], 0.008, rtol=1e-6)


def test_a_single_group_of_seeds_has_bands_and_no_orange_marks(tmp_path: Path) -> None:
    rows = accuracies([0.5, 0.6])
    rows[1]["reclustered"] = True

    section, *_ = draw_accuracy(groups_of(tmp_path, {"fielding": [rows, accuracies([0.7, 0.8])]})).views

    band, _ = traces(section, "window")
    assert max(numbers(band["y"])) == 1.0, "the band ends where no accuracy can be"
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

    assert all(draw_accuracy(gathered).missing for gathered in (alone, both))


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
        assert "Dotted" not in draw_accuracy(one).views[0].text


# ---------------------------------------------------------------- mean curves


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


# ---------------------------------------------------------------- differences


def test_differences_are_paired_by_seed_and_round(tmp_path: Path) -> None:
    ours = [accuracies([0.5, None, 0.9]), accuracies([0.7, 0.8, 0.9])]
    theirs = [accuracies([0.4, 0.5, 0.5]), accuracies([0.4, 0.5])]

    gathered = groups_of(tmp_path, {"ours": ours, "global": theirs}, reference="global")
    section = view(draw_accuracy(gathered), "minus the reference")

    band, line = traces(section, "ours")
    assert numbers(line["x"]) == [0.0, 1.0, 2.0]
    np.testing.assert_allclose(numbers(line["y"]), [0.2, 0.3, 0.4])  # of both seeds, of the second, of the first
    np.testing.assert_allclose(numbers(band["y"])[:3], [0.2 + 12.7062 * 0.1, 0.3, 0.4], rtol=1e-5)
    assert [shape["y0"] for shape in drawn(section)["layout"]["shapes"] if shape.get("xref")] == [0.0]
    assert "Minus the accuracy of global" in section.text


def test_groups_without_a_common_seed_or_round_or_reference_have_no_difference(tmp_path: Path) -> None:
    apart = groups_of(tmp_path / "a", {"a": [accuracies([0.5, None])], "b": [accuracies([None, 0.5])]})
    gone = groups_of(tmp_path / "b", {"a": [accuracies([0.5])], "b": [accuracies([0.5])]})

    for gathered in (apart, replace(gone, reference="gone")):
        assert "minus the reference" not in {word for one in draw_accuracy(gathered).views for word in one.words}


def test_each_group_is_drawn_against_the_one_with_its_settings(tmp_path: Path) -> None:
    levels = {"ours easy": 0.75, "ours hard": 0.5, "global easy": 0.5, "global hard": 0.125}
    runs = groups_of(tmp_path, {name: [accuracies([level])] for name, level in levels.items()}, "global easy")
    settings = {name: dict(zip(("method.name", "trace.scenario"), name.split(), strict=True)) for name in levels}

    section = view(draw_accuracy(replace(runs, settings=settings)), "minus the reference")

    assert "whichever of global easy, global hard has the same settings" in section.text
    assert numbers(traces(section, "ours easy")[0]["y"]) == [0.25]
    assert numbers(traces(section, "ours hard")[0]["y"]) == [0.375]
    assert traces(section, "global hard") == []


# ---------------------------------------------------------------- losses


def test_losses_in_training_and_in_testing_are_two_views(tmp_path: Path) -> None:
    tested, trained = draw_losses(
        groups_of(tmp_path, {"a": [accuracies([0.5], test_loss=2.0)], "b": [accuracies([0.5])]})
    ).views

    assert numbers(traces(trained, "b")[0]["y"]) == [0.5]
    assert numbers(traces(tested, "a")[0]["y"]) == [2.0]
    assert not traces(tested, "b")


def test_before_the_first_round_losses_are_missing(tmp_path: Path) -> None:
    assert draw_losses(groups_of(tmp_path, {"a": [[]], "b": [[]]})).missing


# ---------------------------------------------------------------- heterogeneity


def test_clusters_are_compared_with_no_clustering_as_it_was_measured(tmp_path: Path) -> None:
    rows = accuracies([0.5, 0.5], measured_heterogeneity=0.25, unclustered_heterogeneity=1.5)

    section = draw_heterogeneity(groups_of(tmp_path, {"a": [accuracies([0.5])], "b": [rows, rows]}))

    assert numbers(traces(section, "b")[-1]["y"]) == [0.25, 0.25]
    assert numbers(traces(section, "no clustering")[-1]["y"]) == [1.5, 1.5]
    assert not traces(section, "a")


def test_older_runs_are_compared_with_global(tmp_path: Path) -> None:
    runs = {name: [accuracies([0.5], measured_heterogeneity=high)] for name, high in (("ours", 0.5), ("global", 1.0))}

    section = draw_heterogeneity(groups_of(tmp_path, runs))

    assert not traces(section, "no clustering")
    assert "global has all clients in one cluster" in section.text


def test_what_nobody_measured_is_said_to_be_missing(tmp_path: Path) -> None:
    alone = groups_of(tmp_path / "a", {"ours": [accuracies([0.5], measured_heterogeneity=0.5)]})

    assert "was not measured" in draw_heterogeneity(alone).text
    assert draw_heterogeneity(groups_of(tmp_path / "b", {"ours": [accuracies([0.5])]})).missing


# ---------------------------------------------------------------- clusters


def test_the_number_of_clusters_is_a_mean_and_re_clusterings_are_marked_on_it(tmp_path: Path) -> None:
    first, second = accuracies([0.5, 0.5]), accuracies([0.5, 0.5])
    first[1] |= {"n_clusters": 5, "reclustered": True, "n_moved": 4}

    section = draw_cluster_counts(groups_of(tmp_path, {"ours": [first, second]}))

    _, line, marks = traces(section, "ours")
    assert numbers(line["y"]) == [2.0, 3.5]
    assert (numbers(marks["x"]), numbers(marks["y"])) == ([1.0], [3.5])
    assert marks["text"] == ["grouped anew in 1 of 2 runs"]
    assert list(section.table[1]) == ["ours", "0.5", "2", "2.75", "3.5"]


def test_a_number_of_clusters_that_never_changes_is_told_and_not_drawn(tmp_path: Path) -> None:
    section = draw_cluster_counts(groups_of(tmp_path, {"ours": [accuracies([0.5] * 3)]}))

    assert section.figure is None
    assert "Their number never changed: ours 2." in section.text
    assert section.table[1][0] == "ours"


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
    for at, row in enumerate(rows):
        row |= {"reclustered": True, "n_clusters": 2 + at % 2}

    section = draw_cluster_counts(groups_of(tmp_path, {"ours": [rows]}))

    assert len(drawn(section)["data"]) == 1
    assert "too many to be marked" in section.text


# ---------------------------------------------------------------- agreement


def test_agreement_is_a_mean_over_seeds(tmp_path: Path) -> None:
    seeds = [accuracies([0.5, 0.5], ari=0.25), accuracies([0.5, 0.5], ari=0.75)]

    section = draw_agreement(groups_of(tmp_path, {"ours": seeds}))

    assert numbers(traces(section, "ours")[-1]["y"]) == [0.5, 0.5]


def test_agreement_that_never_changes_is_told_and_not_drawn(tmp_path: Path) -> None:
    section = draw_agreement(groups_of(tmp_path, {"ours": [accuracies([0.5] * 3, ari=1.0)]}))

    assert section.missing == "The adjusted Rand index never changed: ours 1."


def test_re_clusterings_of_a_single_run_are_marked(tmp_path: Path) -> None:
    rows = accuracies([0.5, 0.5], ari=0.25)
    rows[1]["reclustered"] = True

    section = draw_agreement(groups_of(tmp_path, {"ours": [rows]}))

    assert [mark["x0"] for mark in drawn(section)["layout"]["shapes"] if mark["line"]["color"] == EVENT_COLOR] == [1.0]


def test_where_the_truth_is_not_known_nothing_is_drawn(tmp_path: Path) -> None:
    flat = [{**row, "n_clusters": 1} for row in accuracies([0.5], ari=0.0)]

    assert draw_agreement(groups_of(tmp_path / "a", {"ours": [accuracies([0.5])]})).missing
    assert draw_agreement(groups_of(tmp_path / "b", {"global": [flat]})).missing
