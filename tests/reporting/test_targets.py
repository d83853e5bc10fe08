import pytest

from fielding.reporting.numbers.run_summary import dynamic_regret, first_hold, times_to_target
from tests.reporting.run_folders import round_rows


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
