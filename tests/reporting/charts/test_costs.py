from pathlib import Path

import numpy as np
import pytest

from fielding.federation.ledger import Ledger
from fielding.reporting.charts.group_bars import draw_costs
from fielding.reporting.numbers.run_record import Row, RunRecord
from tests.reporting.charts.group_runs import accuracies, drawn, groups_of, numbers, traces


def test_without_a_checkpoint_sums_over_rounds_are_shown(tmp_path: Path) -> None:
    down, _, hours = draw_costs(groups_of(tmp_path, {"ours": [accuracies([0.5, 0.5]), accuracies([0.5] * 4)]}))

    part, _ = traces(down, "all purposes")
    np.testing.assert_allclose(part["x"], [0.003])  # 1,000 bytes a round, three rounds on average
    np.testing.assert_allclose(traces(hours, "all purposes")[0]["x"], [27 / 3600])
    assert "purposes are not known" in down.text


def test_costs_are_split_by_purpose_where_a_checkpoint_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(2)
    ledger.charge("model", [0], down_bytes=3_000_000, up_bytes=0, seconds=3600.0)
    ledger.charge("report", [1], down_bytes=0, up_bytes=500_000, seconds=0.0)

    def charged(_: RunRecord) -> Row:
        return ledger.totals()

    monkeypatch.setattr(RunRecord, "costs", charged)

    down, up, hours = draw_costs(groups_of(tmp_path, {"ours": [accuracies([0.5])]}))

    assert list(down.table[1]) == ["ours", "3", "3"]
    assert traces(up, "reports of data")[0]["x"] == [0.5]
    assert not traces(up, "models in training")
    assert traces(hours, "models in training")[0]["x"] == [1.0]


def test_accuracy_is_set_against_all_bytes_of_a_run(tmp_path: Path) -> None:
    gathered = groups_of(
        tmp_path, {"ours": [accuracies([0.25]), accuracies([0.5] * 3)], "theirs": [accuracies([0.75])]}
    )

    section = draw_costs(gathered)[-1]

    single, mean = traces(section, "ours")
    assert (numbers(single["x"]), numbers(single["y"])) == ([0.002, 0.006], [0.25, 0.5])
    np.testing.assert_allclose([*numbers(mean["x"]), *numbers(mean["y"])], [0.004, 0.375])
    assert len(traces(section, "theirs")) == 1


def test_one_group_is_not_set_against_anybody(tmp_path: Path) -> None:
    titles = [section.title for section in draw_costs(groups_of(tmp_path, {"ours": [accuracies([0.5])]}))]

    assert titles == ["What clients receive", "What clients send", "How long clients are busy"]


def test_traffic_that_differs_much_has_a_logarithmic_axis(tmp_path: Path) -> None:
    gathered = groups_of(tmp_path, {"a": [accuracies([0.5])], "b": [accuracies([0.5] * 11)]})

    assert drawn(draw_costs(gathered)[-1])["layout"]["xaxis"]["type"] == "log"


def test_before_the_first_round_nothing_is_drawn(tmp_path: Path) -> None:
    assert all(section.missing for section in draw_costs(groups_of(tmp_path, {"ours": [[]]})))
