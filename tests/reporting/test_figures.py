import numpy as np

from fielding.reporting.figures import MOST_MARKS, Line, Raster, lines_figure, marked, raster_figure


def test_a_band_goes_there_along_its_top_and_back_along_its_bottom() -> None:
    line = Line(name="ours", x=[0.0, 1.0], y=[5.0, 6.0], band=(np.array([4.0, 5.0]), np.array([6.0, 7.0])))

    band, curve = lines_figure([line], x_title="x", y_title="y").data

    assert band.x.tolist() == [0.0, 1.0, 1.0, 0.0]
    assert band.y.tolist() == [6.0, 7.0, 5.0, 4.0]
    assert band.legendgroup == curve.legendgroup


def test_marks_add_up_and_too_many_are_left_out() -> None:
    figure = lines_figure([Line(name="ours", x=[0.0, 1.0], y=[5.0, 6.0])], x_title="x", y_title="y", events=[1.0])

    assert [mark.x0 for mark in marked(figure, [2.0, 3.0]).layout.shapes] == [1.0, 2.0, 3.0]
    assert len(marked(figure, [0.0] * (MOST_MARKS + 1)).layout.shapes) == 3


def test_a_raster_leaves_empty_what_is_nothing_and_names_the_rest() -> None:
    cells = np.array([[0, 1], [-1, 1]], dtype=np.int32)
    raster = Raster(title="cluster", edges=np.array([0.0, 2.0, 5.0]), cells=cells, names=["red", "green"])

    heat = raster_figure([raster], x_title="round", y_title="clients").data[0]

    assert heat.x.tolist() == [0.0, 2.0, 5.0]
    np.testing.assert_array_equal(heat.z, [[0.0, 1.0], [np.nan, 1.0]])
    assert heat.text.tolist() == [
        ["red, rounds 0 to 1", "green, rounds 2 to 4"],
        ["nothing, rounds 0 to 1", "green, rounds 2 to 4"],
    ]
    assert [share for share, _ in heat.colorscale] == [0.0, 0.5, 0.5, 1.0]
