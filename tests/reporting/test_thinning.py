import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fielding.reporting.charts.figures import bin_sums, thin

MISSING = st.one_of(st.floats(-1e6, 1e6), st.just(float("nan")))


@given(st.lists(MISSING, min_size=1, max_size=300), st.integers(4, 60))
def test_a_thinned_curve_keeps_ends_extremes_and_order(values: list[float], most: int) -> None:
    x, y = np.arange(float(len(values))), np.array(values)

    kept_x, kept_y = thin(x, y, most)

    assert kept_x.size <= max(most, 4)
    assert kept_x[[0, -1]].tolist() == x[[0, -1]].tolist()
    assert (np.diff(kept_x) > 0).all()
    np.testing.assert_array_equal(kept_y, y[kept_x.astype(np.int64)])
    if not np.isnan(y).all():
        assert (np.nanmin(kept_y), np.nanmax(kept_y)) == (np.nanmin(y), np.nanmax(y))


def test_a_short_curve_stays_as_it_is() -> None:
    x, y = thin(np.arange(3.0), np.array([1.0, np.nan, 2.0]))

    assert x.tolist() == [0.0, 1.0, 2.0]
    assert np.isnan(y[1])


@given(st.lists(st.integers(0, 100), max_size=300), st.integers(1, 50))
def test_bins_lose_nobody(values: list[int], most: int) -> None:
    starts, sums, width = bin_sums(np.array(values, dtype=np.float64), most)

    assert sums.sum() == sum(values)
    assert len(sums) == len(starts) <= most
    assert all(sums[at] == sum(values[at * width : (at + 1) * width]) for at in range(len(sums)))
