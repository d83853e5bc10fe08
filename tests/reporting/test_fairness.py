import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fielding.reporting.numbers.run_metrics import fairness_figures, final_fairness
from fielding.reporting.numbers.run_record import parse_client_tests

ACCURACIES = arrays(np.float64, st.integers(1, 40), elements=st.floats(0.0, 1.0))


def test_the_figures_are_those_of_twenty_clients_by_hand() -> None:
    accuracy = np.arange(20, 0, -1) / 20.0  # 0.05 to 1: two clients are a tenth

    found = fairness_figures(accuracy)

    assert found["worst_decile"] == pytest.approx((0.05 + 0.10) / 2)
    assert found["best_decile"] == pytest.approx((0.95 + 1.0) / 2)
    assert found["decile_gap"] == pytest.approx(0.9)
    assert found["client_p10"] == pytest.approx(0.05 + 1.9 * 0.05)
    assert found["client_min"] == 0.05
    assert found["client_std"] == pytest.approx(np.std(accuracy))
    # 10.5 is the sum, 7.175 that of the squares.
    assert found["jain_index"] == pytest.approx(10.5**2 / (20 * 7.175))


def test_a_tenth_of_eleven_clients_is_two() -> None:
    found = fairness_figures(np.array([0.0, 0.5, *[1.0] * 9]))

    assert (found["worst_decile"], found["best_decile"]) == (0.25, 1.0)


def test_clients_without_test_samples_are_left_out_and_nobody_has_no_figures() -> None:
    assert fairness_figures(np.array([np.nan, 0.5])) == fairness_figures(np.array([0.5]))
    assert fairness_figures(np.array([np.nan])) == {}


@given(ACCURACIES)
def test_the_index_is_between_one_over_n_and_one(accuracy: np.ndarray) -> None:
    index = fairness_figures(accuracy)["jain_index"]

    assert 1 / accuracy.size - 1e-9 <= index <= 1 + 1e-9


@pytest.mark.parametrize("level", [0.0, 0.5])
def test_clients_that_are_served_alike_are_served_fairly(level: float) -> None:
    found = fairness_figures(np.full(7, level))

    assert found["jain_index"] == pytest.approx(1.0)
    assert found["decile_gap"] == found["client_std"] == 0.0


def test_final_figures_are_means_over_the_final_evaluations_alone() -> None:
    same = {"client": ["ann", "bob"], "cluster": [0, 0], "n_test": [4, 4], "corrected": [4, 4]}
    lines = [{"round": at, "correct": right, **same} for at, right in ((0, [0, 0]), (5, [1, 4]), (9, [2, 4]))]

    found = final_fairness([parse_client_tests(line) for line in lines], [5, 9])  # type: ignore[arg-type]

    assert found["client_min"] == pytest.approx((0.25 + 0.5) / 2)
    assert found["decile_gap"] == pytest.approx((0.75 + 0.5) / 2)
    assert (found["client_min_corrected"], found["decile_gap_corrected"]) == (1.0, 0.0)
    assert "client_min_tuned" not in found
    assert final_fairness([], [5, 9]) == dict.fromkeys(found.keys() - {f"{name}_corrected" for name in found})
