from typing import TYPE_CHECKING

import pytest

from fielding.reporting.run_summary import final_mean, largest_dip, reached, run_summary

if TYPE_CHECKING:
    from fielding._typing import Json


def rounds(accuracies: list[float | None], reclustered: tuple[int, ...] = ()) -> list[dict[str, "Json"]]:
    return [
        {"round": at, "time_s": 10.0 * at, "n_clusters": 2, "reclustered": at in reclustered, "accuracy": accuracy}
        for at, accuracy in enumerate(accuracies)
    ]


def test_final_figures_are_means_over_the_last_tenth_not_the_best() -> None:
    assert final_mean(rounds([0.99, *[0.5] * 89, *[0.6] * 10])) == pytest.approx(0.6)


def test_final_figures_need_five_evaluations_even_if_those_are_old() -> None:
    assert final_mean(rounds([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, *[None] * 94])) == pytest.approx(0.4)
    assert final_mean(rounds([0.1, None])) == 0.1
    assert final_mean(rounds([None, None])) is None
    assert final_mean([]) is None


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
    row = reached(rounds(accuracies), 0.8)

    assert (row and row["round"]) == expected


def test_a_run_without_rounds_has_a_summary() -> None:
    assert run_summary([], (), gap=1)["final_accuracy"] is None
