"""What runs measured over rounds or simulated time: means over seeds with 95 % intervals, short enough to draw."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fielding._typing import Matrix, Vector
from fielding.reporting.figures import Figure, Line, as_text, lines_figure, shade, with_layout, with_shapes
from fielding.reporting.gathering import Gathered, Group
from fielding.reporting.paired import t_interval
from fielding.reporting.run_lines import column
from fielding.reporting.run_record import RunRecord
from fielding.reporting.run_summary import final_mean
from fielding.reporting.thinning import thinned

MOST_POINTS = 240
"""Points of a curve with a band; a figure is hardly wider in pixels that can be told apart."""
MANY_GROUPS = 8
"""With more groups a legend would be larger than the figure; the switches of the page tell colours too."""
_FEWEST_POINTS = 100
_SEVERAL_BANDS = 3
"""With more bands each is fainter, lest they hide the lines."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curves:
    """A quantity of several runs at common places.

    Parameters
    ----------
    x
        Rounds or seconds, rising, shape ``(n_points,)``.
    values
        Of each run, NaN where it has none, shape ``(n_runs, n_points)``; each point has one at least.
    """

    x: Vector
    values: Matrix


Reading = Callable[[Sequence[RunRecord]], Curves | None]
"""Reads a quantity of some runs; None if none of them has it."""


def counted(group: Group) -> tuple[RunRecord, ...]:
    """Return the runs of a group that means are over: the finished ones; all of them as long as none is."""
    return group.finished or group.runs


def final_accuracy(run: RunRecord) -> float | None:
    """Return the final accuracy of a run; None if there is none, or none that is a number."""
    final = final_mean(run.rounds)
    return final if final is not None and np.isfinite(final) else None


def over_rounds(runs: Sequence[RunRecord], name: str) -> Curves | None:
    """Return a figure of ``rounds.jsonl`` over the rounds in which any of the runs has it; None if none has."""
    return joined([points(run, name) for run in runs])


def over_time(runs: Sequence[RunRecord], name: str, n_points: int = MOST_POINTS) -> Curves | None:
    """Return a figure of ``rounds.jsonl`` over simulated seconds, None if no run has it.

    A value holds until the next one; moments go from when all runs have a value to the end of the shortest run.
    """
    tracks = [track for track in (points(run, name, "time_s") for run in runs) if track[0].size]
    if not tracks:
        return None
    first, last = max(float(x[0]) for x, _ in tracks), min(float(x[-1]) for x, _ in tracks)
    x = np.linspace(first, last, n_points) if last > first else np.array([first])
    # A run that ended before another began to be tested has its last value there.
    held = [values[np.maximum(np.searchsorted(at, x, side="right") - 1, 0)] for at, values in tracks]
    return Curves(x=x, values=np.stack(held))


def points(run: RunRecord, name: str, axis: str = "round") -> tuple[Vector, Vector]:
    """Return where a run has a figure, and what it is; rounds without it are left out."""
    x, values = column(run.rounds, axis), column(run.rounds, name)
    is_known = np.isfinite(x) & np.isfinite(values)
    order = np.argsort(x[is_known], kind="stable")
    return x[is_known][order], values[is_known][order]


def joined(tracks: Sequence[tuple[Vector, Vector]]) -> Curves | None:
    """Return curves at the places of any of them; None if there is no place.

    Examples
    --------
    >>> both = joined([(np.array([0.0, 5.0]), np.array([0.1, 0.2])), (np.array([5.0]), np.array([0.4]))])
    >>> both.x.tolist(), both.values.tolist()
    ([0.0, 5.0], [[0.1, 0.2], [nan, 0.4]])
    """
    known = [track for track in tracks if track[0].size]
    if not known:
        return None
    x = np.unique(np.concatenate([at for at, _ in known]))
    values = np.full((len(known), x.size), np.nan)
    for row, (at, mine) in zip(values, known, strict=True):
        row[np.searchsorted(x, at)] = mine
    return Curves(x=x, values=values)


def mean_and_half_width(values: Matrix) -> tuple[Vector, Vector]:
    """Return mean and half width of the 95 % t-interval over the runs that have a value; NaN where one has.

    Examples
    --------
    >>> mean, half_width = mean_and_half_width(np.array([[0.0, 1.0], [2.0, np.nan]]))
    >>> mean.tolist(), half_width.round(3).tolist()
    ([1.0, 1.0], [12.706, nan])
    """
    mean, half_width = np.full(values.shape[1], np.nan), np.full(values.shape[1], np.nan)
    patterns, which = np.unique(~np.isnan(values), axis=1, return_inverse=True)
    for at, has_value in enumerate(patterns.T):
        places = np.ravel(which) == at
        if has_value.any():
            mean[places], half_width[places] = t_interval(values[has_value][:, places])
    return mean, half_width


def mean_line(curves: Curves, name: str, *, style: int, most: int = MOST_POINTS, group: str | None = None) -> Line:
    """Return the mean over runs as a line, with a band if there are several runs."""
    mean, half_width = mean_and_half_width(curves.values)
    kept = thinned(np.arange(mean.size, dtype=np.float64), mean, most)[0].astype(np.int64)
    x, mean, half_width = curves.x[kept], mean[kept], half_width[kept]
    margin = np.nan_to_num(half_width, nan=0.0)  # where one run is left, the band ends in its line
    band = None if np.isnan(half_width).all() else (mean - margin, mean + margin)
    return Line(name=name, x=x, y=mean, style=style, is_main=style == 0, band=band, group=group)


def group_lines(gathered: Gathered, read: Reading, bounds: tuple[float, float]) -> list[Line]:
    """Return a line with a band for each group that has the quantity; bands end where no value can be."""
    most = max(_FEWEST_POINTS, min(MOST_POINTS, 10 * MOST_POINTS // max(1, len(gathered.groups))))
    found = [(group, read(counted(group))) for group in gathered.groups]
    styles = gathered.styles
    lines = [
        mean_line(curves, group.name, style=styles[group.name], most=most, group=group.name)
        for group, curves in found
        if curves is not None
    ]
    return legible([_bounded(line, *bounds) for line in lines])


def _bounded(line: Line, low: float, high: float) -> Line:
    if line.band is None:
        return line
    lower, upper = (np.clip(end, low, high) for end in line.band)
    return replace(line, band=(lower, upper))


def legible(lines: Sequence[Line]) -> list[Line]:
    """Return lines without their bands if there are many: bands upon bands are mud."""
    return [replace(line, band=None) for line in lines] if len(lines) > MANY_GROUPS else list(lines)


def curves_figure(
    lines: Sequence[Line], *, x_title: str, y_title: str, from_zero: bool = True, places: int = 3
) -> Figure:
    """Return lines over a common axis; with very many of them without a legend; hovering shows few digits."""
    figure = lines_figure(lines, x_title=x_title, y_title=y_title, from_zero=from_zero)
    bands = [trace for trace in figure["data"] if trace.get("fill")]
    for trace, line in zip(bands, [line for line in lines if line.band is not None], strict=True):
        if len(bands) > _SEVERAL_BANDS:
            trace["fillcolor"] = shade(line.color, 0.08)
    return quiet(with_layout(figure, yaxis={"hoverformat": f".{places}f"}), len(lines))


def quiet(figure: Figure, n_lines: int) -> Figure:
    """Return a figure without a legend, and with small boxes under the pointer, if it has many lines."""
    if n_lines <= MANY_GROUPS:
        return with_layout(figure, showlegend=n_lines > 1)
    return with_layout(figure, showlegend=False, hovermode="closest")


def level(figure: Figure, height: float, words: str = "") -> Figure:
    """Return a figure with a dotted horizontal line across it, with words at its left end."""
    line: dict[str, Any] = {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": height, "y1": height, "layer": "below",
        "line": {"color": "rgba(128,128,128,0.9)", "width": 1.5, "dash": "dot"},
    }  # fmt: skip
    drawn = with_shapes(figure, [line])
    if not words:
        return drawn
    note: Mapping[str, Any] = {
        "text": as_text(words), "xref": "paper", "x": 0.01, "xanchor": "left", "y": height, "yanchor": "bottom",
        "showarrow": False, "font": {"size": 12},
    }  # fmt: skip
    return with_layout(drawn, annotations=[*drawn["layout"].get("annotations", ()), note])


def seeds_words(gathered: Gathered) -> str:
    """Return what a line of a group is, for the text above a figure.

    Examples
    --------
    >>> seeds_words(Gathered(title="", groups=(), reference=None))
    'A line is one run.'
    """
    most = max((len(counted(group)) for group in gathered.groups), default=0)
    if most < 2:
        return "A line is one run."
    is_mixed = any(group.finished and len(group.finished) < len(group.runs) for group in gathered.groups)
    more = " Runs that are not finished count only in groups where none is." if is_mixed else ""
    if len(gathered.groups) > MANY_GROUPS:
        return f"Lines are means over seeds; their intervals are left out, since there are many groups.{more}"
    return f"Lines are means over seeds, bands 95 % t-intervals.{more}"


NOT_EVALUATED = "No run has been evaluated yet."
