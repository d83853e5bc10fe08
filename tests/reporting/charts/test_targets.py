from dataclasses import replace
from pathlib import Path

import numpy as np

from fielding.reporting.charts.group_bars import draw_times_to_target
from tests.reporting.charts.group_runs import accuracies, drawn, groups_of, traces

GLOBAL = [accuracies([0.1, 0.2, 0.5, 0.5], seconds=3600.0)] * 2


def test_bars_are_means_over_seeds_with_intervals(tmp_path: Path) -> None:
    ours = [accuracies([0.6] * 4, seconds=3600.0), accuracies([0.1, 0.6, 0.6, 0.6], seconds=3600.0)]

    hours, rounds = draw_times_to_target(groups_of(tmp_path, {"ours": ours, "global": GLOBAL}))

    bar, name = traces(hours, "ours")
    assert bar["x"] == [1.5]  # at once on one seed: after the first round; after two on the other
    np.testing.assert_allclose(bar["error_x"]["array"], [12.7062 * 0.5], rtol=1e-5)
    assert bar["error_x"]["arrayminus"] == [1.5]
    assert name["text"][0].startswith("ours: 1.5 hours<br>")
    assert traces(rounds, "ours")[0]["x"] == [1.5]
    assert drawn(hours)["layout"]["xaxis"]["title"]["text"] == "simulated hours"


def test_who_never_gets_there_is_told_in_words(tmp_path: Path) -> None:
    ours = [accuracies([0.6, 0.6, 0.6, 0.4], seconds=3600.0)] * 2

    hours, _ = draw_times_to_target(groups_of(tmp_path, {"ours": ours, "global": GLOBAL}))

    bar, name = traces(hours, "ours")
    assert bar["x"] == [0.0]
    assert "error_x" not in bar
    assert name["text"][0].startswith("ours: never on 2 seeds<br>")


def test_seeds_that_got_there_are_counted_where_not_all_did(tmp_path: Path) -> None:
    ours = [accuracies([0.1, 0.6, 0.6, 0.6], seconds=3600.0), accuracies([0.1] * 4, seconds=3600.0)]

    hours, _ = draw_times_to_target(groups_of(tmp_path, {"ours": ours, "global": GLOBAL}))

    assert "2 hours (1 of 2 seeds)" in traces(hours, "ours")[1]["text"][0]


def test_a_run_whose_seed_has_no_target_is_left_out(tmp_path: Path) -> None:
    hours, _ = draw_times_to_target(groups_of(tmp_path, {"ours": GLOBAL * 2, "global": GLOBAL[:1]}))

    assert "of" not in traces(hours, "ours")[1]["text"][0]


def test_one_group_has_no_target(tmp_path: Path) -> None:
    assert draw_times_to_target(groups_of(tmp_path, {"ours": GLOBAL})) == []


def test_a_target_that_nobody_ran_is_told(tmp_path: Path) -> None:
    runs = groups_of(tmp_path, {"a": GLOBAL, "b": GLOBAL})

    hours, rounds = draw_times_to_target(replace(runs, reference="gone"))

    assert hours.missing == rounds.missing
    assert "No seed has both an evaluation of gone" in hours.missing


def test_each_group_has_the_target_of_its_settings(tmp_path: Path) -> None:
    levels = {
        "ours easy": [0.5, 0.75],
        "ours hard": [0.25, 0.5],
        "global easy": [0.5, 0.75],
        "global hard": [0.25, 0.25],
    }
    runs = groups_of(tmp_path, {name: [accuracies(mine)] for name, mine in levels.items()}, "global easy")
    settings = {name: dict(zip(("method.name", "trace.scenario"), name.split(), strict=True)) for name in levels}

    _, rounds = draw_times_to_target(replace(runs, settings=settings))

    assert traces(rounds, "ours hard")[0]["x"] == [1.0]  # it would never come to the easy target
    assert "whichever of global easy, global hard has the same settings" in rounds.text
