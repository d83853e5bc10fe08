import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fielding.errors import InputError
from fielding.reporting.paired import estimate, paired_difference, t_interval

VALUES = st.lists(st.floats(-10.0, 10.0), min_size=2, max_size=12)


@given(VALUES)
def test_intervals_are_those_of_scipy(values: list[float]) -> None:
    found = estimate(values)

    sem = float(stats.sem(values))
    assert found.mean == pytest.approx(np.mean(values))
    assert found.half_width == pytest.approx(sem * stats.t.ppf(0.975, len(values) - 1), abs=1e-12)


@given(VALUES, st.floats(-5.0, 5.0))
def test_what_a_seed_does_to_both_methods_cancels_out(values: list[float], gain: float) -> None:
    found = paired_difference([value + gain for value in values], values)

    assert found.mean == pytest.approx(gain, abs=1e-9)
    assert found.half_width == pytest.approx(0.0, abs=1e-9)


def test_a_single_seed_has_no_interval() -> None:
    record = estimate([0.5]).record()

    assert record == {"mean": 0.5, "ci95": None, "per_seed": [0.5]}


def test_columns_are_taken_one_by_one() -> None:
    mean, half_width = t_interval(np.array([[0.0, 5.0], [2.0, 5.0]]))

    alone = estimate([0.0, 2.0])
    assert mean.tolist() == [1.0, 5.0]
    assert half_width.tolist() == [alone.half_width, 0.0]


def test_no_seed_and_unequal_seeds_are_refused() -> None:
    with pytest.raises(InputError, match="at least one seed"):
        estimate([])
    with pytest.raises(InputError, match="2 values cannot be paired with 1"):
        paired_difference([0.1, 0.2], [0.1])
