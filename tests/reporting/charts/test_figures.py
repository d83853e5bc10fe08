import base64
import math

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fielding.reporting.charts.figures import (
    MOST_MARKS,
    PALETTE,
    Line,
    as_text,
    bars_figure,
    bin_sums,
    change_layout,
    lines_figure,
    mark_places,
    pack,
    stack_figure,
    thin,
)

LINE = Line(name="ours", x=[0.0, 1.0], y=[5.0, None], group="fielding")


def test_a_band_goes_there_along_its_top_and_back_along_its_bottom() -> None:
    line = Line(name="ours", x=[0.0, 1.0], y=[5.0, 6.0], band=(np.array([4.0, 5.0]), np.array([6.0, 7.0])))

    band, curve = lines_figure([line], x_title="x", y_title="y")["data"]

    assert band["x"] == [0.0, 1.0, 1.0, 0.0]
    assert band["y"] == [6.0, 7.0, 5.0, 4.0]
    assert band["legendgroup"] == curve["legendgroup"]


def test_marks_add_up_and_too_many_are_left_out() -> None:
    figure = lines_figure([LINE], x_title="x", y_title="y", events=[1.0])

    assert [mark["x0"] for mark in mark_places(figure, [2.0, 3.0])["layout"]["shapes"]] == [1.0, 2.0, 3.0]
    assert len(mark_places(figure, [0.0] * (MOST_MARKS + 1))["layout"]["shapes"]) == 1


@pytest.mark.parametrize("figure", [lines_figure, stack_figure, bars_figure])
def test_the_library_knows_every_attribute_and_traces_know_their_group(figure) -> None:  # type: ignore[no-untyped-def]
    made = figure([LINE], x_title="x", y_title="y")

    go.Figure(made)
    assert made["data"][0]["meta"] == {"group": "fielding"}


def test_a_layout_is_changed_without_losing_what_is_not_named() -> None:
    before = lines_figure([LINE], x_title="x", y_title="y")

    after = change_layout(before, yaxis={"range": [0, 1]}, height=100)["layout"]

    assert after["yaxis"]["title"]["text"] == "y"
    assert after["yaxis"]["range"] == [0, 1]
    assert "range" not in before["layout"]["yaxis"]


@given(hnp.arrays(np.float64, st.integers(0, 60), elements=st.floats(-1e9, 1e9) | st.just(math.nan)))
def test_packed_numbers_are_told_apart_as_well_as_a_screen_can(values: np.ndarray) -> None:
    found = pack(values)
    if isinstance(found, dict):
        numbers = np.frombuffer(base64.b64decode(found["bdata"]), dtype=f"<{found['dtype']}").astype(float)
    else:
        numbers = np.array([np.nan if one is None else one for one in found], dtype=float)

    np.testing.assert_allclose(numbers, values, rtol=1e-6, atol=1e-30)


@given(st.text())
def test_no_text_is_mark_up_after_it_was_made_text(words: str) -> None:
    found = as_text(words)

    assert "<" not in found
    assert ">" not in found
    assert found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == words


# ---------------------------------------------------------------- thinning


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


def test_all_bands_lie_below_all_lines_and_colours_come_before_dashes() -> None:
    band = (np.zeros(2), np.ones(2))
    lines = [Line(name=str(at), x=[0.0, 1.0], y=[0.0, 1.0], style=at, band=band) for at in (0, 3, len(PALETTE))]

    traces = lines_figure(lines, x_title="x", y_title="y")["data"]

    assert ["fill" in trace for trace in traces] == [True] * 3 + [False] * 3
    assert [trace["line"]["dash"] for trace in traces[3:]] == ["solid", "solid", "dash"]
