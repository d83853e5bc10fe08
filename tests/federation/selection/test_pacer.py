import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fielding.federation.selection.oort import pace_percentiles

BOUNDS = (0.1, 5.0)
sums = st.floats(0.0, 1e6)


@given(st.floats(5.0, 100.0), sums, sums)
def test_the_percentile_stays_between_one_step_and_a_hundred(start: float, before: float, now: float) -> None:
    after = pace_percentiles(np.array([start]), np.array([before]), np.array([now]), delta=5.0, bounds=BOUNDS)

    assert 5.0 <= after[0] <= 100.0


def test_the_pacer_moves_both_ways_and_stops_at_both_ends() -> None:
    percentile = np.array([10.0, 10.0, 98.0, 7.0, 10.0])
    before = np.array([100.0, 100.0, 100.0, 100.0, 100.0])
    now = np.array([110.0, 600.0, 100.0, 900.0, 111.0])

    after = pace_percentiles(percentile, before, now, delta=5.0, bounds=BOUNDS)

    assert after.tolist() == [15.0, 5.0, 100.0, 5.0, 10.0]


def test_a_stretch_in_which_nobody_was_exploited_says_nothing() -> None:
    after = pace_percentiles(np.full(2, 30.0), np.zeros(2), np.array([0.0, 9.0]), delta=5.0, bounds=BOUNDS)

    assert after.tolist() == [30.0, 30.0]
