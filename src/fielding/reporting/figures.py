"""Figures from numbers: the only module that knows plotly. Colours are told apart by colour-blind eyes too."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Vector

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7F7F7F", "#B8A900", "#8C564B", "#5B3A9B")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
EVENT_COLOR = "#D55E00"
ARRIVAL_COLOR = "#8A8F98"
MOST_MARKS = 300
"""More vertical lines would be a gray wall, and slow to draw."""
_BAND_OPACITY = 0.18

Values: TypeAlias = Sequence[float] | Vector
Gaps: TypeAlias = Sequence[float | None] | Vector
"""Values of which some are missing: None or NaN."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """One curve, or one layer of a stack, or one row of bars.

    Parameters
    ----------
    name
        For the legend.
    x, y
        Its points.
    style
        Colour and dash by number.
    is_main
        Whether it is the one to look at.
    is_step
        Whether it keeps its height until the next point.
    symbol
        Draw the points with this symbol instead of a line.
    band
        Lower and upper end of a band around it.
    """

    name: str
    x: Values
    y: Gaps
    style: int = 0
    is_main: bool = False
    is_step: bool = False
    symbol: str = ""
    band: tuple[Vector, Vector] | None = None

    @property
    def color(self) -> str:
        """Its colour."""
        return PALETTE[self.style % len(PALETTE)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Raster:
    """Colours over rows and spans of time.

    Parameters
    ----------
    title
        What it shows.
    edges
        Where the spans begin, and where the last one ends, shape ``(n_spans + 1,)``.
    cells
        What each row is in each span: an index into ``names``, -1 for nothing, shape ``(n_rows, n_spans)``.
    names
        What the indices mean; their colours are those of the palette, in this order.
    """

    title: str
    edges: Vector
    cells: npt.NDArray[np.int32]
    names: Sequence[str]


def lines_figure(
    lines: Sequence[Line], *, x_title: str, y_title: str, events: Sequence[float] = (), from_zero: bool = True
) -> Any:
    """Return curves over a common axis, with a dashed vertical line at each event."""
    import plotly.graph_objects as go

    figure = _blank(x_title, y_title)
    if not from_zero:
        figure.update_layout(yaxis={"rangemode": "normal"}, height=440)
    for line in lines:
        if line.band is not None:
            figure.add_trace(_band(line, *line.band))
        dash = "solid" if line.is_main else DASHES[line.style % len(DASHES)]
        look = {"color": line.color, "width": 3 if line.is_main else 1.5, "dash": dash}
        # A line through a single point is invisible.
        mode = "markers" if line.symbol or len(line.x) == 1 else "lines"
        figure.add_trace(
            go.Scatter(
                x=line.x, y=line.y, name=line.name, legendgroup=line.name, mode=mode,
                line={**look, "shape": "hv" if line.is_step else "linear"},
                marker={"symbol": line.symbol or "circle", "color": line.color, "size": 10 if line.is_main else 6},
                cliponaxis=not line.is_step,  # steps may run along the edge
            )
        )  # fmt: skip
    return marked(figure, events)


def stack_figure(layers: Sequence[Line], *, x_title: str, y_title: str, events: Sequence[float] = ()) -> Any:
    """Return layers upon each other; each keeps its height until its next point."""
    import plotly.graph_objects as go

    figure = _blank(x_title, y_title)
    for layer in layers:
        look = {"color": layer.color, "width": 0.5, "shape": "hv"}
        figure.add_trace(
            go.Scatter(
                x=layer.x, y=layer.y, name=layer.name, stackgroup="all", mode="lines", line=look, fillcolor=layer.color
            )
        )
    return marked(figure, events)


def bars_figure(bars: Sequence[Line], *, x_title: str, y_title: str) -> Any:
    """Return bars from zero, the later rows in front of the earlier ones."""
    import plotly.graph_objects as go

    figure = _blank(x_title, y_title)
    for row in bars:
        figure.add_trace(go.Bar(x=row.x, y=row.y, name=row.name, marker={"color": row.color, "line": {"width": 0}}))
    figure.update_layout(barmode="overlay")
    return figure


def raster_figure(rasters: Sequence[Raster], *, x_title: str, y_title: str) -> Any:
    """Return rasters below each other over one axis, so that equal rows can be compared on a phone too."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=len(rasters),
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.09,
        subplot_titles=[one.title for one in rasters],
    )
    figure.update_layout(_blank("", "").layout)
    for row, raster in enumerate(rasters, start=1):
        figure.add_trace(_heatmap(raster), row=row, col=1)
        figure.update_yaxes(
            title=y_title, showticklabels=False, showgrid=False, zeroline=False, autorange="reversed", row=row, col=1
        )
        figure.update_xaxes(showgrid=False, zeroline=False, row=row, col=1)
    for at, name in enumerate(rasters[0].names):
        marker = {"color": PALETTE[at % len(PALETTE)], "size": 10, "symbol": "square"}
        figure.add_trace(go.Scatter(x=[None], y=[None], name=name, mode="markers", marker=marker), row=1, col=1)
    figure.update_xaxes(title=x_title, row=len(rasters), col=1)
    figure.update_layout(hovermode="closest", height=270 * len(rasters) + 100, margin={"t": 70})
    figure.update_layout(legend={"y": 1.06})
    return figure


def marked(figure: Any, places: Sequence[float], *, color: str = EVENT_COLOR) -> Any:
    """Return a figure with a dashed vertical line at each place; with none if there are too many to tell apart.

    As shapes in one go: adding them singly is quadratic.
    """
    if len(places) <= MOST_MARKS:
        marks = [
            {
                "type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "layer": "below",
                "line": {"color": color, "width": 1, "dash": "5px,4px"}, "opacity": 0.6,
            }
            for at in places
        ]  # fmt: skip
        figure.update_layout(shapes=[*(figure.layout.shapes or ()), *marks])
    return figure


def zoomed(figure: Any, low: float, high: float) -> Any:
    """Return a figure whose vertical axis shows a range; a double click in the browser shows everything."""
    figure.update_layout(yaxis={"range": [low, high], "rangemode": "normal"}, height=440)
    return figure


def figure_html(figure: Any, div_id: str) -> str:
    """Return the HTML of a figure without the library, which a page holds once."""
    # Plotly offers to upload a chart unless it is told not to: the data of a page must not leave by a wrong click.
    settings = {
        "displaylogo": False, "responsive": True, "showSendToCloud": False, "plotlyServerURL": "",
        "modeBarButtonsToRemove": ["select2d", "lasso2d"],
    }  # fmt: skip
    return str(figure.to_html(full_html=False, include_plotlyjs=False, div_id=div_id, config=settings))


def library_script() -> str:
    """Return the source of plotly's browser library, so that a page needs no network."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _blank(x_title: str, y_title: str) -> Any:
    import plotly.graph_objects as go

    axis = {"gridcolor": "rgba(128,128,128,0.25)", "zerolinecolor": "rgba(128,128,128,0.4)", "automargin": True}
    return go.Figure(
        layout={
            "xaxis": {"title": x_title, **axis},
            "yaxis": {"title": y_title, "rangemode": "tozero", **axis},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#555"},
            "margin": {"l": 50, "r": 15, "t": 35, "b": 45},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "hovermode": "x unified",
            "modebar": {"bgcolor": "rgba(0,0,0,0)"},
            "height": 340,
        }
    )


def _band(line: Line, low: Vector, high: Vector) -> Any:
    """Return the band around a line as one closed shape, which the line's place in the legend switches too."""
    import plotly.graph_objects as go

    forth = np.asarray(line.x, dtype=np.float64)
    red, green, blue = (int(line.color[at : at + 2], 16) for at in (1, 3, 5))
    return go.Scatter(
        x=np.concatenate([forth, forth[::-1]]),
        y=np.concatenate([high, low[::-1]]),
        fill="toself", fillcolor=f"rgba({red},{green},{blue},{_BAND_OPACITY})", line={"width": 0}, mode="lines",
        name=line.name, legendgroup=line.name, showlegend=False, hoverinfo="skip",
    )  # fmt: skip


def _heatmap(raster: Raster) -> Any:
    """Return cells coloured by what they are; -1 stays empty."""
    import plotly.graph_objects as go

    n_names = max(1, len(raster.names))
    steps = [(at + side) / n_names for at in range(n_names) for side in (0, 1)]
    colors = [PALETTE[at % len(PALETTE)] for at in range(n_names) for _ in (0, 1)]
    spans = [f", rounds {start:g} to {stop - 1:g}" for start, stop in pairwise(raster.edges.tolist())]
    words = np.char.add(
        np.array([*raster.names, "nothing"], dtype=np.str_)[raster.cells], np.array(spans, dtype=np.str_)
    )
    return go.Heatmap(
        x=raster.edges, z=np.where(raster.cells < 0, np.nan, raster.cells.astype(np.float64)), text=words,
        zmin=-0.5, zmax=n_names - 0.5, colorscale=[list(pair) for pair in zip(steps, colors, strict=True)],
        showscale=False, hovertemplate="%{text}<extra></extra>", xgap=0, ygap=0,
    )  # fmt: skip
