"""Figures from numbers: the only module that knows plotly. Colours are told apart by colour-blind eyes too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fielding._typing import Json

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7F7F7F", "#B8A900", "#8C564B", "#5B3A9B")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
EVENT_COLOR = "#D55E00"
Row = Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One curve: a name, its points, its colour and dash by number, and whether it is the one to look at."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    style: int = 0
    is_main: bool = False


def lines_figure(
    lines: Sequence[Line], *, x_title: str, y_title: str, events: Sequence[float] = (), from_zero: bool = True
) -> Any:
    """Return curves over a common axis, with a faint vertical line at each event."""
    import plotly.graph_objects as go

    figure = _blank(x_title, y_title)
    if not from_zero:
        figure.update_layout(yaxis={"rangemode": "normal"}, height=440)
    for line in lines:
        dash = "solid" if line.is_main else DASHES[line.style % len(DASHES)]
        look = {"color": PALETTE[line.style % len(PALETTE)], "width": 3 if line.is_main else 1.5, "dash": dash}
        figure.add_trace(go.Scatter(x=line.x, y=line.y, name=line.name, mode="lines", line=look))
    _mark(figure, events)
    return figure


def distance_figure(rows: Sequence[Row]) -> Any:
    """Return how alike the members of clusters are, against no clustering."""
    steps = _column(rows, "step")
    return lines_figure(
        [
            Line(name="one group of all", x=steps, y=_column(rows, "mean_distance_unclustered"), style=6),
            Line(name="with clusters", x=steps, y=_column(rows, "mean_client_distance"), style=0),
        ],
        x_title="step",
        y_title="mean distance to the other members",
        events=_fired(rows),
    )


def shift_figure(rows: Sequence[Row]) -> Any:
    """Return how far the centers moved, the shift that would be too much, and where all were grouped anew."""
    import plotly.graph_objects as go

    steps = _column(rows, "step")
    figure = lines_figure(
        [Line(name="threshold", x=steps, y=_column(rows, "threshold"), style=6)],
        x_title="step",
        y_title="shift of the center that moved most",
    )
    for name, fired, symbol, color in (
        ("moves were enough", False, "circle", PALETTE[0]),
        ("re-clustered", True, "diamond", EVENT_COLOR),
    ):
        chosen = [row for row in rows if bool(row["reclustered"]) is fired and row["shift"] is not None]
        marker = {"color": color, "size": 10 if fired else 5, "symbol": symbol}
        figure.add_trace(
            go.Scatter(x=_column(chosen, "step"), y=_column(chosen, "shift"), name=name, mode="markers", marker=marker)
        )
    return figure


def sizes_figure(rows: Sequence[Row]) -> Any:
    """Return the active clients of each cluster over time, as a stack."""
    import plotly.graph_objects as go

    steps = _column(rows, "step")
    sizes = [row["cluster_sizes"] for row in rows]
    ids = sorted({int(cluster) for step in sizes if isinstance(step, dict) for cluster in step})
    figure = _blank("step", "active clients")
    for at, cluster in enumerate(ids):
        heights = [step.get(str(cluster), 0) if isinstance(step, dict) else 0 for step in sizes]
        color = PALETTE[at % len(PALETTE)]
        figure.add_trace(
            go.Scatter(
                x=steps, y=heights, name=f"cluster {cluster}", stackgroup="all", mode="lines",
                line={"color": color, "width": 0.5, "shape": "hv"}, fillcolor=color,
            )
        )  # fmt: skip
    _mark(figure, _fired(rows))
    return figure


def traffic_figure(rows: Sequence[Row]) -> Any:
    """Return how many clients reported and how many moved at each step."""
    import plotly.graph_objects as go

    steps = _column(rows, "step")
    figure = _blank("step", "clients")
    for name, column, color in (("reported", "n_reports", PALETTE[4]), ("moved", "n_moved", PALETTE[1])):
        figure.add_trace(
            go.Bar(x=steps, y=_column(rows, column), name=name, marker={"color": color, "line": {"width": 0}})
        )
    figure.update_layout(barmode="overlay")
    return figure


def figure_html(figure: Any, div_id: str) -> str:
    """Return the HTML of a figure without the library, which a page holds once."""
    settings = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["select2d", "lasso2d"]}
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
            "height": 340,
        }
    )


def _mark(figure: Any, events: Sequence[float]) -> None:
    """Draw a vertical line at each event; as shapes in one go, since adding them singly is quadratic."""
    figure.update_layout(
        shapes=[
            {
                "type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "layer": "below",
                "line": {"color": EVENT_COLOR, "width": 1, "dash": "dot"}, "opacity": 0.6,
            }
            for at in events
        ]
    )  # fmt: skip


def _column(rows: Sequence[Row], name: str) -> list[Any]:
    return [row[name] for row in rows]


def _fired(rows: Sequence[Row]) -> list[Any]:
    return [row["step"] for row in rows if row["reclustered"]]
