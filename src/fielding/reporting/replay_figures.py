"""The figures of a replay, from the lines of its log."""

from collections.abc import Mapping, Sequence
from typing import Any

from fielding._typing import Json
from fielding.reporting.figures import Figure, Line, bars_figure, lines_figure, stack_figure

Row = Mapping[str, Json]


def distance_figure(rows: Sequence[Row]) -> Figure:
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


def shift_figure(rows: Sequence[Row], *, step: str = "step", fired: str = "reclustered") -> Figure:
    """Return how far the centers moved, the shift that would be too much, and where all were grouped anew.

    Parameters
    ----------
    rows
        Lines with ``shift`` and ``threshold``, either of which may be None.
    step, fired
        What the lines call the time, and whether all were grouped anew.
    """
    quiet = [row for row in rows if not row[fired] and row["shift"] is not None]
    loud = [row for row in rows if row[fired] and row["shift"] is not None]
    return lines_figure(
        [
            Line(name="threshold", x=_column(rows, step), y=_column(rows, "threshold"), style=6),
            Line(name="moves were enough", x=_column(quiet, step), y=_column(quiet, "shift"), symbol="circle"),
            Line(
                name="re-clustered",
                x=_column(loud, step),
                y=_column(loud, "shift"),
                style=5,
                symbol="diamond",
                is_main=True,
            ),
        ],
        x_title=step,
        y_title="largest shift of a center",
    )


def sizes_figure(rows: Sequence[Row]) -> Figure:
    """Return the active clients of each cluster over time, as a stack; the last step is as wide as the one before."""
    steps = _column(rows, "step")
    width = steps[-1] - steps[-2] if len(steps) > 1 else 1
    steps += [step + width for step in steps[-1:]]
    sizes = [row["cluster_sizes"] for row in [*rows, *rows[-1:]]]
    ids = sorted({int(cluster) for step in sizes if isinstance(step, dict) for cluster in step})
    layers = [
        Line(
            name=f"cluster {cluster}",
            x=steps,
            y=[step.get(str(cluster), 0) if isinstance(step, dict) else 0 for step in sizes],  # type: ignore[misc]
            style=at,
        )
        for at, cluster in enumerate(ids)
    ]
    return stack_figure(layers, x_title="step", y_title="active clients", events=_fired(rows))


def traffic_figure(rows: Sequence[Row]) -> Figure:
    """Return how many clients reported and how many moved at each step."""
    steps = _column(rows, "step")
    bars = [
        Line(name="reported", x=steps, y=_column(rows, "n_reports"), style=4),
        Line(name="moved", x=steps, y=_column(rows, "n_moved"), style=1),
    ]
    return bars_figure(bars, x_title="step", y_title="clients")


def _column(rows: Sequence[Row], name: str) -> list[Any]:
    return [row[name] for row in rows]


def _fired(rows: Sequence[Row]) -> list[Any]:
    return [row["step"] for row in rows if row["reclustered"]]
