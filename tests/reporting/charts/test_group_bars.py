from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fielding.federation.ledger import Ledger
from fielding.reporting.charts.group_bars import (
    GroupBar,
    draw_accuracy_against_bytes,
    draw_costs,
    draw_times_to_target,
    group_bars,
)
from fielding.reporting.numbers.run_record import Row, RunRecord
from tests.reporting.charts.group_runs import accuracies, drawn, groups_of, numbers, traces


def test_parts_of_a_row_are_named_once_and_rows_have_their_names_above() -> None:
    bars = [GroupBar(group=group, length=1.0, part=part) for group in ("a", "b") for part in ("model", "report")]

    figure = group_bars(bars, {"a": "2 MB"}, x_title="MB")

    entries = [trace for trace in figure["data"] if trace["showlegend"]]
    assert [trace["name"] for trace in entries] == ["model", "report"]
    assert not any("meta" in trace for trace in entries)  # a group that is switched off leaves the legend as it is
    names = [trace["text"][0] for trace in figure["data"] if trace["type"] == "scatter"]
    assert names == ["a: 2 MB<br>\u200b", "b<br>\u200b"]


def test_rows_without_a_length_still_have_an_axis() -> None:
    figure = group_bars([GroupBar(group="a", length=0.0)], {}, x_title="hours")

    assert figure["layout"]["xaxis"]["range"] == [0, 1]


def test_names_of_rows_stay_text() -> None:
    figure = group_bars([GroupBar(group="<b>", length=1.0, part="<i>")], {"<b>": "<u>"}, x_title="hours")

    assert not [text for trace in figure["data"] for text in (*trace["y"], trace["name"]) if "<" in str(text)]
    assert figure["data"][1]["text"] == ["&lt;b&gt;: &lt;u&gt;<br>\u200b"]


# ---------------------------------------------------------------- costs


def test_without_a_checkpoint_sums_over_rounds_are_shown(tmp_path: Path) -> None:
    down, _, hours = draw_costs(groups_of(tmp_path, {"ours": [accuracies([0.5, 0.5]), accuracies([0.5] * 4)]})).views

    part, _ = traces(down, "all purposes")
    np.testing.assert_allclose(part["x"], [0.003])  # 1,000 bytes a round, three rounds on average
    np.testing.assert_allclose(traces(hours, "all purposes")[0]["x"], [27 / 3600])
    assert "purposes are not known" in down.text


def test_costs_are_split_by_purpose_where_a_checkpoint_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(2)
    ledger.charge("model", [0], down_bytes=3_000_000, up_bytes=0, seconds=3600.0)
    ledger.charge("report", [1], down_bytes=0, up_bytes=500_000, seconds=0.0)
    ledger.charge("probe", [1], down_bytes=1_000_000, up_bytes=0, seconds=0.0)

    def charged(_: RunRecord) -> Row:
        return ledger.totals()

    monkeypatch.setattr(RunRecord, "costs", charged)

    down, up, hours = draw_costs(groups_of(tmp_path, {"ours": [accuracies([0.5])]})).views

    assert list(down.table[1]) == ["ours", "3", "1", "4"]
    assert not up.table, "of one purpose the bars tell all"
    assert traces(up, "reports of data")[0]["x"] == [0.5]
    assert not traces(up, "models in training")
    assert traces(hours, "models in training")[0]["x"] == [1.0]


def test_accuracy_is_set_against_all_bytes_of_a_run(tmp_path: Path) -> None:
    gathered = groups_of(
        tmp_path,
        {
            "ours": [accuracies([0.25], next_accuracy=0.125), accuracies([0.5] * 3, next_accuracy=0.25)],
            "theirs": [accuracies([0.75])],
        },
    )

    section, following = draw_accuracy_against_bytes(gathered)[0].views

    single, mean = traces(section, "ours")
    assert (numbers(single["x"]), numbers(single["y"])) == ([0.002, 0.006], [0.25, 0.5])
    np.testing.assert_allclose([*numbers(mean["x"]), *numbers(mean["y"])], [0.004, 0.375])
    assert len(traces(section, "theirs")) == 1
    assert mean["error_y"]["array"] == [0.625], "the interval ends at 1"
    assert numbers(traces(following, "ours")[1]["y"]) == [0.1875]
    assert not traces(following, "theirs")


def test_one_group_is_not_set_against_anybody(tmp_path: Path) -> None:
    gathered = groups_of(tmp_path, {"ours": [accuracies([0.5])]})
    words = [view.words[0] for view in draw_costs(gathered).views]

    assert words == ["received", "sent", "busy"]
    assert draw_accuracy_against_bytes(gathered) == []


def test_traffic_that_differs_much_has_a_logarithmic_axis(tmp_path: Path) -> None:
    gathered = groups_of(tmp_path, {"a": [accuracies([0.5])], "b": [accuracies([0.5] * 11)]})

    assert drawn(draw_accuracy_against_bytes(gathered)[0])["layout"]["xaxis"]["type"] == "log"


def test_before_the_first_round_nothing_is_drawn(tmp_path: Path) -> None:
    assert draw_costs(groups_of(tmp_path, {"ours": [[]]})).missing


# ---------------------------------------------------------------- targets


GLOBAL = [accuracies([0.1, 0.2, 0.5, 0.5], seconds=3600.0)] * 2


def test_bars_are_means_over_seeds_with_intervals(tmp_path: Path) -> None:
    ours = [accuracies([0.6] * 4, seconds=3600.0), accuracies([0.1, 0.6, 0.6, 0.6], seconds=3600.0)]

    hours, rounds = draw_times_to_target(groups_of(tmp_path, {"ours": ours, "global": GLOBAL}))[0].views

    bar, name = traces(hours, "ours")
    assert bar["x"] == [1.5]  # at once on one seed: after the first round; after two on the other
    np.testing.assert_allclose(bar["error_x"]["array"], [12.7062 * 0.5], rtol=1e-5)
    assert bar["error_x"]["arrayminus"] == [1.5]
    assert name["text"][0].startswith("ours: 1.5 hours<br>")
    assert traces(rounds, "ours")[0]["x"] == [1.5]
    assert drawn(hours)["layout"]["xaxis"]["title"]["text"] == "simulated hours"


def test_who_never_gets_there_is_told_in_words(tmp_path: Path) -> None:
    ours = [accuracies([0.6, 0.6, 0.6, 0.4], seconds=3600.0)] * 2

    hours, _ = draw_times_to_target(groups_of(tmp_path, {"ours": ours, "global": GLOBAL}))[0].views

    bar, name = traces(hours, "ours")
    assert bar["x"] == [0.0]
    assert "error_x" not in bar
    assert name["text"][0].startswith("ours: never on 2 seeds<br>")


def test_seeds_that_got_there_are_counted_where_not_all_did(tmp_path: Path) -> None:
    ours = [accuracies([0.1, 0.6, 0.6, 0.6], seconds=3600.0), accuracies([0.1] * 4, seconds=3600.0)]

    hours, _ = draw_times_to_target(groups_of(tmp_path, {"ours": ours, "global": GLOBAL}))[0].views

    assert "2 hours (1 of 2 seeds)" in traces(hours, "ours")[1]["text"][0]


def test_a_run_whose_seed_has_no_target_is_left_out(tmp_path: Path) -> None:
    hours, _ = draw_times_to_target(groups_of(tmp_path, {"ours": GLOBAL * 2, "global": GLOBAL[:1]}))[0].views

    assert "of" not in traces(hours, "ours")[1]["text"][0]


def test_one_group_has_no_target(tmp_path: Path) -> None:
    assert draw_times_to_target(groups_of(tmp_path, {"ours": GLOBAL})) == []


def test_a_target_that_nobody_ran_is_told(tmp_path: Path) -> None:
    runs = groups_of(tmp_path, {"a": GLOBAL, "b": GLOBAL})

    (section,) = draw_times_to_target(replace(runs, reference="gone"))

    assert "No seed has both an evaluation of gone" in section.missing


def test_each_group_has_the_target_of_its_settings(tmp_path: Path) -> None:
    levels = {
        "ours easy": [0.5, 0.75],
        "ours hard": [0.25, 0.5],
        "global easy": [0.5, 0.75],
        "global hard": [0.25, 0.25],
    }
    runs = groups_of(tmp_path, {name: [accuracies(mine)] for name, mine in levels.items()}, "global easy")
    settings = {name: dict(zip(("method.name", "trace.scenario"), name.split(), strict=True)) for name in levels}

    _, rounds = draw_times_to_target(replace(runs, settings=settings))[0].views

    assert traces(rounds, "ours hard")[0]["x"] == [1.0]  # it would never come to the easy target
    assert "whichever of global easy, global hard has the same settings" in rounds.text
