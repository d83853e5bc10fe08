from pathlib import Path

import numpy as np
import pytest

from experiments.recurring import (
    GROUNDS,
    N_ROUNDS,
    ROWS,
    WITH,
    WITHOUT,
    Outcome,
    config_of,
    difference,
    outcome,
    recoveries,
    rounds_below,
    swings,
    table,
)
from experiments.swinging import drawn_labels, is_night, row_is_test, swinging_trace
from fielding._typing import Json
from fielding.traces.histograms import WindowPlan
from fielding.traces.pool import Pool


def came(rounds: float, *, accuracy: float = 0.8) -> Outcome:
    return Outcome(
        rounds=rounds,
        n_not_back=1,
        rounds_to_visit=2.0,
        n_not_at_visit=0,
        dip=0.1,
        area=0.5,
        accuracy=accuracy,
        reclusterings=4.0,
        megabytes=10.0,
    )


def test_recovery_is_counted_from_the_recurrence_to_95_percent_of_the_ten_rounds_before() -> None:
    day, night = [0.9] * 12, [0.8] * 12
    back = [0.5, 0.7, 0.75, 0.76, 0.9, 0.9]  # 95 % of 0.8 is 0.76, 95 % of 0.9 is 0.855

    (found,) = recoveries([*day, *night, *back], [12, 24])

    assert (found.rounds, found.is_back) == (3, True)
    assert (found.rounds_to_visit, found.is_at_visit) == (4, True)
    assert found.dip == pytest.approx(0.3)
    assert found.area == pytest.approx(0.3 + 0.1 + 0.05 + 0.04)


def test_the_first_swing_is_no_recurrence_and_every_later_one_ends_with_the_next() -> None:
    accuracy = [0.9] * 10 + [0.1] * 10 + [0.9] * 10 + [0.2] * 10

    one, other = recoveries(accuracy, [10, 20, 30])

    assert one.rounds == 0
    assert one.dip == pytest.approx(0.1 - 0.9)
    assert (other.rounds, other.is_back) == (10, False)
    assert (other.rounds_to_visit, other.is_at_visit) == (0, True), "it is back where it was on its last visit"


def test_only_the_last_ten_rounds_before_a_drift_count() -> None:
    (found,) = recoveries([*[0.0] * 30, *[0.6] * 10, 0.5], [5, 40])

    assert found.dip == pytest.approx(0.1)


def test_a_target_that_is_never_reached_takes_all_rounds() -> None:
    assert rounds_below([0.1, 0.2, 0.3], 0.5) == 3
    assert rounds_below([], 0.5) == 0


def test_the_figures_of_a_run_are_means_over_its_recurrences() -> None:
    rows: list[dict[str, Json]] = [{"accuracy": 0.9 if at < 45 else 0.5} for at in range(80)]
    summary: dict[str, Json] = {"final_accuracy": 0.5, "reclusterings": 3, "bytes_down": 2_000_000, "bytes_up": 1e6}

    found = outcome(rows, summary)

    assert found.rounds == (30 + 0) / 2
    assert (found.n_not_back, found.megabytes) == (1, 3.0)


def test_the_table_ends_with_what_re_use_changes_seed_by_seed() -> None:
    lines = table({WITHOUT: [came(9.0), came(7.0)], WITH: [came(6.0, accuracy=0.9), came(4.0, accuracy=0.9)]})

    assert [line[0] for line in lines] == ["method", WITHOUT, WITH, "difference by re-use"]
    assert lines[1][1:3] == ["8.0 ± 12.7", "2"]
    assert lines[3][1] == "-3.0 ± 0.0"
    assert lines[3][7] == "+10.0 ± 0.0"
    assert {len(line) for line in lines} == {len(lines[0])}
    assert difference([came(1.0)], [came(1.0)])[1] == "+0.0"


def test_swings_of_the_trace_fall_into_the_rounds_that_are_looked_at() -> None:
    plan = WindowPlan(interval="1d", gap=15, window=15)
    night = is_night(np.arange(20))

    changes = [plan.step_of(at) for at in range(1, 20) if night[at] != night[at - 1]]
    assert [step for step in changes if step < N_ROUNDS] == swings(N_ROUNDS)


def images() -> Pool:
    y = np.arange(400, dtype=np.int32) % 4
    x = np.zeros((400, 3, 3), dtype=np.uint8)
    x[:, 0, 0] = np.arange(400) % 256
    x[:, 0, 1] = np.arange(400) // 256
    return Pool(x=x, y=y, classes=("a", "b", "c", "d"))


def test_nobody_is_tested_with_what_anybody_trains_on_and_images_keep_their_labels() -> None:
    pool = images()
    trace = swinging_trace(pool, (5, 4, 20), seed=3, turned=False)
    sample = trace["x"][:, 0, 0].astype(int) + 256 * trace["x"][:, 0, 1].astype(int)

    assert trace["y"].tolist() == pool.y[sample].tolist()
    assert row_is_test(400).tolist() == pool.is_test()[sample].tolist()
    assert np.bincount(trace["client"]).tolist() == [80] * 5


def test_images_are_turned_at_night_alone() -> None:
    straight, turned = (swinging_trace(images(), (3, 3, 10), seed=3, turned=one) for one in (False, True))
    night = is_night(turned["time"].astype(np.int64) // 86_400)

    assert (turned["x"][~night] == straight["x"][~night]).all()
    assert (turned["x"][night] == np.rot90(straight["x"][night], axes=(1, 2))).all()
    assert 0 < night.sum() < night.size


def test_labels_follow_their_mix() -> None:
    mixes = np.tile([0.0, 0.25, 0.75], (4_000, 1))

    counts = np.bincount(drawn_labels(mixes, np.random.default_rng(1)), minlength=3)

    assert counts[0] == 0
    assert abs(counts[1] - 1_000) < 120  # four standard deviations are 110


def test_all_runs_are_tested_after_every_round(
    tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIELDING_DATA", str(data_folder))
    monkeypatch.setattr("experiments.recurring.N_CLIENTS", 4)
    configs = [config_of(ground, row, 11, tmp_path) for ground in GROUNDS for row in ROWS]

    assert {config.evaluation.every for config in configs} == {1}
    assert [config.method.options for config in configs[:3]] == [{}, {"reuse": 0}, {"reuse": 5}]
    assert len({config.trace.file for config in configs}) == 3
