"""Figures from numbers, as plotly's browser library draws them. Colours are told apart by colour-blind eyes too."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Vector

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7F7F7F", "#B8A900", "#A0604F", "#8064C0")
DASHES = ("solid", "dash", "dot")  # told apart where there are more lines than colours
EVENT_COLOR = "#D55E00"
ARRIVAL_COLOR = "#8A8F98"
GRAY = 6  # the style of what is there for comparison only
MOST_MARKS = 300  # more vertical lines would be a gray wall, and slow to draw
MOST_POINTS = 2000  # points of a curve; no screen shows more
MOST_BARS = 400  # bars of a figure
_BAND_OPACITY = 0.18
_FEWEST_PACKED = 24
Figure: TypeAlias = dict[str, Any]  # data and layout, as plotly's browser library takes them
Values: TypeAlias = Sequence[float] | Vector
Gaps: TypeAlias = Sequence[float | None] | Vector  # values of which some are missing: None or NaN


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """One curve, or one layer of a stack, or one row of bars."""

    name: str
    # Its points; the x of bars may be words.
    x: Values | Sequence[str]
    y: Gaps
    style: int = 0  # colour and dash by number
    is_main: bool = False  # whether it is the one to look at
    is_step: bool = False  # whether it keeps its height until the next point
    symbol: str = ""  # draw the points with this symbol instead of a line
    band: tuple[Vector, Vector] | None = None  # lower and upper end of a band around it
    group: str | None = None  # the group of runs that it is of; the page switches it on and off by that

    @property
    def color(self) -> str:
        """Its colour."""
        return PALETTE[self.style % len(PALETTE)]


def lines_figure(
    lines: Sequence[Line], *, x_title: str, y_title: str, events: Sequence[float] = (), from_zero: bool = True
) -> Figure:
    """Return curves over a common axis, with a dashed vertical line at each event."""
    # All bands lie below all lines.
    traces = [_band(line, *line.band) for line in lines if line.band is not None] + [_curve(line) for line in lines]
    figure = blank_figure(traces, x_title=x_title, y_title=y_title)
    if not from_zero:
        figure["layout"]["yaxis"]["rangemode"] = "normal"
        figure["layout"]["height"] = 400
    return mark_places(figure, events)


def stack_figure(layers: Sequence[Line], *, x_title: str, y_title: str, events: Sequence[float] = ()) -> Figure:
    """Return layers upon each other; each keeps its height until its next point."""
    traces = [
        {
            **_trace_names(layer), "type": "scatter", "x": pack(layer.x), "y": pack(layer.y), "stackgroup": "all",
            "mode": "lines", "line": {"color": layer.color, "width": 0.5, "shape": "hv"}, "fillcolor": layer.color,
        }
        for layer in layers
    ]  # fmt: skip
    return mark_places(blank_figure(traces, x_title=x_title, y_title=y_title), events)


def bars_figure(bars: Sequence[Line], *, x_title: str, y_title: str, mode: str = "overlay") -> Figure:
    """Return bars from zero; ``mode`` says how those of one place stand: ``overlay``, ``stack`` or ``group``."""
    traces = [
        {
            **_trace_names(row), "type": "bar", "x": pack(row.x), "y": pack(row.y),
            "marker": {"color": row.color, "line": {"width": 0}},
        }
        for row in bars
    ]  # fmt: skip
    figure = blank_figure(traces, x_title=x_title, y_title=y_title)
    figure["layout"]["barmode"] = mode
    return figure


def blank_figure(traces: Sequence[Mapping[str, Any]], *, x_title: str, y_title: str) -> Figure:
    """Return a figure with the look of all figures; titles hold the units."""
    axis = {"gridcolor": "rgba(128,128,128,0.25)", "zerolinecolor": "rgba(128,128,128,0.4)", "automargin": True}
    return {
        "data": list(traces),
        "layout": {
            "xaxis": {"title": {"text": as_text(x_title), "font": {"size": 13}}, **axis},
            "yaxis": {
                "title": {"text": as_text(y_title), "font": {"size": 13}, "standoff": 10},
                "rangemode": "tozero",
                **axis,
            },
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#555"},
            "margin": {"l": 50, "r": 15, "t": 35, "b": 45},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "hovermode": "x unified",
            "hoverlabel": {"namelength": -1},
            "modebar": {"bgcolor": "rgba(0,0,0,0)"},
            "height": 340,
        },
    }


def _trace_names(line: Line) -> dict[str, Any]:
    names: dict[str, Any] = {"name": as_text(line.name), "legendgroup": as_text(line.name)}
    return names if line.group is None else {**names, "meta": {"group": line.group}}


def _curve(line: Line) -> dict[str, Any]:
    dash = DASHES[line.style // len(PALETTE) % len(DASHES)]
    # A line through a single point is invisible.
    mode = "markers" if line.symbol or len(line.x) == 1 else "lines"
    return {
        **_trace_names(line), "type": "scatter", "x": pack(line.x), "y": pack(line.y), "mode": mode,
        "line": {
            "color": line.color, "width": 3 if line.is_main else 1.8, "dash": dash,
            "shape": "hv" if line.is_step else "linear",
        },
        "marker": {"symbol": line.symbol or "circle", "color": line.color, "size": 10 if line.is_main else 6},
        "cliponaxis": not line.is_step,  # steps may run along the edge
    }  # fmt: skip


def _band(line: Line, low: Vector, high: Vector) -> dict[str, Any]:
    """Return the band around a line as one closed shape, which the line's place in the legend switches too."""
    forth = np.asarray(line.x, dtype=np.float64)
    return {
        **_trace_names(line), "type": "scatter",
        "x": pack(np.concatenate([forth, forth[::-1]])), "y": pack(np.concatenate([high, low[::-1]])),
        "fill": "toself", "fillcolor": shade(line.color, _BAND_OPACITY), "line": {"width": 0}, "mode": "lines",
        "showlegend": False, "hoverinfo": "skip",
    }  # fmt: skip


def mark_places(figure: Figure, places: Sequence[float], *, color: str = EVENT_COLOR) -> Figure:
    """Return a figure with a dashed vertical line at each place; with none if there are too many to tell apart."""
    if not places or len(places) > MOST_MARKS:
        return figure
    marks = [
        {
            "type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "layer": "below",
            "line": {"color": color, "width": 1, "dash": "5px,4px"}, "opacity": 0.6,
        }
        for at in places
    ]  # fmt: skip
    return add_shapes(figure, marks)


def add_shapes(figure: Figure, shapes: Sequence[Mapping[str, Any]]) -> Figure:
    """Return a figure with more shapes."""
    layout = figure["layout"]
    return {**figure, "layout": {**layout, "shapes": [*layout.get("shapes", ()), *shapes]}}


def change_layout(figure: Figure, **changes: Any) -> Figure:
    """Return a figure with another layout; tables in it (axes, legend) are merged, not replaced."""
    layout = dict(figure["layout"])
    for name, value in changes.items():
        before = layout.get(name)
        layout[name] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return {**figure, "layout": layout}


ZOOMED = "zoomed"  # a mark on figures whose axis does not show everything


def zoom(figure: Figure, low: float, high: float) -> Figure:
    """Return a figure whose vertical axis shows a range; a double click in the browser shows everything."""
    return change_layout(figure, yaxis={"range": [low, high], "rangemode": "normal"}, height=400, meta=ZOOMED)


def thin(x: Vector, y: Vector, most: int = MOST_POINTS) -> tuple[Vector, Vector]:
    """Return a curve of at most so many points, four at least: first, last, and the extremes of equal parts between.

    Examples
    --------
    >>> y = np.zeros(100)
    >>> y[37] = 1.0
    >>> x, y = thin(np.arange(100.0), y, most=6)
    >>> x.tolist(), y.tolist()
    ([0.0, 1.0, 37.0, 50.0, 99.0], [0.0, 0.0, 1.0, 0.0, 0.0])
    """
    if x.size <= most:
        return x, y
    edges = np.linspace(1, x.size - 1, max(1, most // 2 - 1) + 1).astype(np.int64)
    kept = [0]
    for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part, is_gap = y[start:stop], np.isnan(y[start:stop])
        lowest, highest = np.where(is_gap, np.inf, part).argmin(), np.where(is_gap, -np.inf, part).argmax()
        kept += sorted({start + int(lowest), start + int(highest)})
    chosen = np.array([*kept, x.size - 1])
    return x[chosen], y[chosen]


def bin_sums(values: Vector, most: int = MOST_BARS) -> tuple[Vector, Vector, int]:
    """Return sums over equal spans of rounds, the round each span begins with, and how many rounds a span has.

    Examples
    --------
    >>> starts, sums, width = bin_sums(np.ones(10), most=4)
    >>> starts.tolist(), sums.tolist(), width
    ([0.0, 3.0, 6.0, 9.0], [3.0, 3.0, 3.0, 1.0], 3)
    """
    width = max(1, -(-values.size // most))
    starts = np.arange(0, values.size, width)
    sums = np.add.reduceat(np.nan_to_num(values, nan=0.0), starts) if values.size else np.zeros(0)
    return starts.astype(np.float64), sums, width


def pack(values: Values | Gaps | Sequence[str] | npt.NDArray[Any]) -> Any:
    """Return numbers as the browser library reads them, many of them as bytes: a quarter of the length of digits.

    Examples
    --------
    >>> pack([1.0, float("nan")]), pack(np.arange(100.0))["dtype"], pack(["a", "b"])
    ([1.0, None], 'i2', ['a', 'b'])
    """
    if len(values) and isinstance(values[0], str):
        return [as_text(str(one)) for one in values]
    column = np.array([np.nan if one is None else one for one in values], dtype=np.float64)
    if column.size < _FEWEST_PACKED:
        return [None if np.isnan(one) else one for one in column.tolist()]
    kind = _narrowest(column)
    return {"dtype": kind, "bdata": base64.b64encode(column.astype(f"<{kind}").tobytes()).decode()}


def _narrowest(column: Vector) -> str:
    """Return the shortest type that tells these numbers apart on a screen."""
    if np.isnan(column).any():
        return "f4"
    highest = float(np.abs(column).max())
    if (column == np.round(column)).all() and highest < 2**31:
        return "i2" if highest < 2**15 else "i4"
    return "f4" if highest < 1e6 else "f8"


def as_text(words: str) -> str:
    """Return words that the browser library shows as they are: it would take tags in them for mark-up."""
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def shade(color: str, opacity: float) -> str:
    """Return a colour of the palette that lets through what is behind it.

    Examples
    --------
    >>> shade("#0072B2", 0.5)
    'rgba(0,114,178,0.5)'
    """
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def library_script() -> str:
    """Return the source of plotly's browser library, so that a page needs no network."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
