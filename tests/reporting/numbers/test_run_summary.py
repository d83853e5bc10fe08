from typing import TYPE_CHECKING

import pytest

from fielding.reporting.numbers.run_summary import (
    dynamic_regret,
    final_mean,
    final_words,
    first_crossing,
    first_hold,
    largest_dip,
    last_crossing,
    run_summary,
    times_to_target,
)
from tests.reporting.run_folders import round_rows

if TYPE_CHECKING:
    from fielding._typing import Json


def rounds(accuracies: list[float | None], reclustered: tuple[int, ...] = ()) -> list[dict[str, "Json"]]:
    return [
        {"round": at, "time_s": 10.0 * at, "n_clusters": 2, "reclustered": at in reclustered, "accuracy": accuracy}
        for at, accuracy in enumerate(accuracies)
    ]


def test_final_figures_are_means_over_the_last_tenth_not_the_best() -> None:
    assert final_mean(rounds([0.99, *[0.5] * 89, *[0.6] * 10])) == pytest.approx(0.6)


def test_final_figures_need_five_evaluations_of_the_second_half() -> None:
    every_tenth = [at / 100 if at % 10 == 0 else None for at in range(100)]

    assert final_mean(rounds(every_tenth)) == pytest.approx(0.7)  # 50, 60, 70, 80, 90


def test_final_figures_have_nothing_from_the_first_half_even_if_few_are_left() -> None:
    assert final_mean(rounds([0.1, 0.2, 0.3, 0.5, 0.7, 0.9])) == pytest.approx(0.7)
    assert final_mean(rounds([0.1, 0.2, 0.9])) == 0.9  # the middle round is half in the first half


def test_without_an_evaluation_in_the_second_half_the_last_one_counts() -> None:
    assert final_mean(rounds([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, *[None] * 94])) == 0.6
    assert final_mean(rounds([0.1])) == 0.1
    assert final_mean(rounds([None, None])) is None
    assert final_mean([]) is None


def test_the_summary_tells_what_the_final_figures_are_means_over() -> None:
    summary = run_summary(rounds([0.1, None, 0.3, None, 0.5, None, 0.7, None]), (), gap=1)

    assert (summary["final_from_round"], summary["n_final_evaluations"]) == (4, 2)
    assert summary["final_accuracy"] == pytest.approx(0.6)
    assert final_words(summary) == "mean over the 2 evaluations since round 4"


def test_heterogeneity_with_and_without_clusters_is_a_mean_over_the_final_evaluations() -> None:
    rows = rounds([0.1, 0.2, 0.3, 0.4])
    for row, measured, unclustered in zip(rows, (1.0, 1.0, 0.25, 0.75), (1.5, 1.5, 1.0, 2.0), strict=True):
        row.update(measured_heterogeneity=measured, unclustered_heterogeneity=unclustered)

    summary = run_summary(rows, (), gap=1)

    assert (summary["measured_heterogeneity"], summary["unclustered_heterogeneity"]) == (0.5, 1.5)


def test_failed_trainings_are_counted_among_all() -> None:
    rows = [{**row, "n_participants": 3, "n_failed": at} for at, row in enumerate(rounds([0.1, 0.2, 0.3]))]

    summary = run_summary(rows, (), gap=1)

    assert (summary["n_failed"], summary["n_trained"]) == (3, 12)


def test_first_reports_are_told_apart_from_those_of_drift() -> None:
    rows = [{**row, "n_reports": 3} for row in rounds([0.1, 0.2])]

    summary = run_summary(rows, [{"joined": ["ann", "bob", "cid"]}, {"joined": ["dan"]}], gap=1)

    assert (summary["n_reports"], summary["n_first_reports"]) == (6, 4)


def test_a_dip_is_the_largest_fall_within_a_gap_after_a_re_clustering() -> None:
    rows = rounds([0.8, 0.75, 0.6, 0.9, 0.2], reclustered=(1, 3))

    assert largest_dip(rows, gap=1) == pytest.approx(0.05)
    assert largest_dip(rows, gap=2) == pytest.approx(0.4)


def test_a_re_clustering_with_nothing_before_or_after_has_no_dip() -> None:
    assert largest_dip(rounds([0.8, 0.7], reclustered=(0,)), gap=5) is None
    assert largest_dip(rounds([0.8, None, None], reclustered=(1,)), gap=2) is None


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ([0.1, 0.9, 0.8], 1),
        ([0.9, 0.1, 0.8], 2),
        ([0.9, 0.9, 0.1], None),
        ([0.9, None, None], 0),
        ([None], None),
    ],
)
def test_a_target_is_reached_where_the_curve_comes_to_stay(
    accuracies: list[float | None], expected: int | None
) -> None:
    row = last_crossing(rounds(accuracies), 0.8)

    assert (row and row["round"]) == expected


@pytest.mark.parametrize(("accuracies", "expected"), [([0.9, 0.1, 0.8], 0), ([None, 0.8, 0.1], 1), ([0.1], None)])
def test_a_target_is_crossed_where_the_curve_first_is_there(
    accuracies: list[float | None], expected: int | None
) -> None:
    row = first_crossing(rounds(accuracies), 0.8)

    assert (row and row["round"]) == expected


def test_a_run_without_rounds_has_a_summary() -> None:
    summary = run_summary([], (), gap=1)

    assert summary["final_accuracy"] is None
    assert (summary["final_from_round"], summary["n_final_evaluations"]) == (None, 0)


def test_what_clients_did_to_their_models_is_summed_up_beside_and_only_if_they_did() -> None:
    plain = rounds([0.1, 0.5, 0.7])
    rows = [
        {**row, "corrected_accuracy": 0.8, "corrected_worst_decile": 0.4, "corrected_newest_accuracy": 0.6,
         "tuned_accuracy": float(at)}
        for at, row in enumerate(plain)
    ]  # fmt: skip

    summary, without = run_summary(rows, (), gap=1), run_summary(plain, (), gap=1)

    more = {name: value for name, value in summary.items() if name not in without}
    assert more == {
        "final_accuracy_corrected": pytest.approx(0.8),
        "worst_decile_corrected": pytest.approx(0.4),
        "final_newest_accuracy_corrected": pytest.approx(0.6),
        "final_accuracy_tuned": pytest.approx(2.0),
    }
    assert summary["final_accuracy"] == without["final_accuracy"]


# ---------------------------------------------------------------- targets


def times(curve: list[float | None], target: float | None) -> tuple[float | None, ...]:
    """Return the rounds until accuracy stays at the target, is first at it, and is so five times in a row."""
    found = times_to_target(round_rows(curve), target)
    for name in ("target", "first_crossing", "held"):
        rounds, seconds = found[f"rounds_to_{name}"], found[f"time_to_{name}_s"]
        assert seconds == (None if rounds is None else 60.0 * rounds)
    return tuple(found[f"rounds_to_{name}"] for name in ("target", "first_crossing", "held"))


def test_the_last_upward_crossing_counts_not_the_first() -> None:
    assert times([0.1, 0.6, 0.6, 0.4, 0.6, 0.7], 0.5) == (5.0, 2.0, None)


def test_a_target_that_is_never_reached_has_no_time() -> None:
    assert times([0.1, 0.2, 0.3], 0.5) == (None, None, None)


def test_a_target_that_is_reached_at_once_takes_one_round() -> None:
    assert times([0.5, 0.6, 0.7, 0.8, 0.9], 0.5) == (1.0, 1.0, 1.0)


def test_a_curve_that_dips_below_at_the_end_did_not_reach_the_target_to_stay() -> None:
    assert times([0.1, 0.6, 0.6, 0.6, 0.6, 0.6, 0.4], 0.5) == (None, 2.0, 2.0)


def test_five_in_a_row_need_not_last() -> None:
    assert times([0.6, 0.1, *[0.6] * 4, 0.1, *[0.6] * 5, 0.1, 0.6], 0.5) == (14.0, 1.0, 8.0)


def test_a_curve_that_only_touches_the_target_is_at_it() -> None:
    assert times([0.25, 0.5, 0.5], 0.5) == (2.0, 2.0, None)


def test_rounds_without_an_evaluation_neither_reach_nor_interrupt() -> None:
    assert times([None, 0.6, None, 0.6, None, 0.6, None, 0.6, None, 0.6], 0.5) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize(("curve", "target"), [([0.6, 0.7], None), ([], 0.5), ([None, None], 0.5)])
def test_without_a_target_or_an_evaluation_there_is_no_time(curve: list[float | None], target: float | None) -> None:
    assert times(curve, target) == (None, None, None)


def test_four_in_a_row_are_not_five() -> None:
    assert first_hold(round_rows([0.6] * 4), 0.5) is None
    assert first_hold(round_rows([0.6] * 5), 0.5) == round_rows([0.6] * 5)[0]


def test_regret_is_over_the_rounds_that_both_evaluated() -> None:
    ours, oracle = round_rows([0.5, None, 0.5, 0.7]), round_rows([0.6, 0.9, 0.9, None])

    assert dynamic_regret(ours, oracle) == pytest.approx((0.1 + 0.4) / 2)
    assert dynamic_regret(ours, []) is None
    assert dynamic_regret(oracle, oracle) == 0.0
