from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Matrix
from fielding.reporting.demo_figures import Curves, accuracy_over_rounds, accuracy_over_time, agreement, read_curves
from tests.reporting.run_logs import evaluated, round_line, write_run


def curves_of(accuracy: list[list[float]], ari: float) -> Curves:
    values: Matrix = np.array(accuracy)
    times: Matrix = np.tile(np.array([60.0, 120.0]), (len(accuracy), 1))
    return Curves(rounds=np.array([0.0, 1.0]), seconds=times, accuracy=values, ari=np.full_like(values, ari))


def test_runs_of_different_speed_are_compared_while_both_last(tmp_path: Path) -> None:
    fast = [round_line(at, **(evaluated(at / 10) | {"time_s": 60.0 * (at + 1)})) for at in range(5)]
    slow = [round_line(at, **(evaluated(at / 10) | {"time_s": 120.0 * (at + 1)})) for at in range(5)]
    curves = {
        "fast": read_curves([write_run(tmp_path / "fast", fast)]),
        "slow": read_curves([write_run(tmp_path / "slow", slow)]),
    }

    first, second = accuracy_over_time(curves).data

    assert (first.x[0], first.x[-1]) == (2.0, 5.0)
    assert (first.y[-1], second.y[-1]) == pytest.approx((0.4, 0.15))


def test_every_method_has_a_curve_and_one_band_is_drawn_where_two_would_lie_upon_each_other() -> None:
    shared = [[0.5, 0.75], [0.75, 1.0]]
    curves = {
        "first": curves_of(shared, 1.0),
        "twin": curves_of(shared, 1.0),
        "other": curves_of([[0.5, 0.5], [0.25, 0.5]], 0.0),
    }

    traces = accuracy_over_rounds(curves, []).data

    means = {one.name: one for one in traces if one.fill is None}
    assert {name: one.y.tolist() for name, one in means.items()} == {
        "first": [0.625, 0.875], "twin": [0.625, 0.875], "other": [0.375, 0.5]
    }  # fmt: skip
    assert [one.name for one in traces if one.fill is not None] == ["first", "other"]
    assert len({(one.line.color, one.line.dash) for one in means.values()}) == 3


def test_agreement_is_drawn_for_clustered_methods_in_the_colors_that_they_have_elsewhere() -> None:
    curves = {name: curves_of([[at / 4, 0.5]], at / 4) for at, name in enumerate(("one", "none", "two"))}

    everywhere = {one.name: one.line.color for one in accuracy_over_rounds(curves, []).data}
    drawn = agreement(curves, ["one", "two"]).data

    assert [(one.name, one.y.tolist()) for one in drawn] == [("one", [0.0, 0.0]), ("two", [0.5, 0.5])]
    assert [one.line.color for one in drawn] == [everywhere["one"], everywhere["two"]]
