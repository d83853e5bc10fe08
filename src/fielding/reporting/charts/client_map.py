"""The map of clients: what they reported, drawn on a plane, coloured by cluster, at moments that a slider picks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fielding._typing import Codes, Counts, Matrix, Vector
from fielding.reporting.charts.clusters import COLORS, NONE, ClusterColors, assign_colors
from fielding.reporting.charts.figures import Figure, as_text, blank_figure, change_layout, pack
from fielding.reporting.charts.histories import (
    has_data,
    label_names,
    newest_rows,
    pick_evenly,
    places_at,
    why_no_reports,
)
from fielding.reporting.numbers.run_record import RunRecord
from fielding.reporting.page import Frame, Section
from fielding.rng import stream
from fielding.traces.reports import ReportStream

MOST_MOMENTS = 40
MOST_CLIENTS = 1500
MOST_DOTS = 30_000  # clients times moments: what a page can hold
FEWEST_CLIENTS = 300
MOST_FITTED = 4000  # reports that the plane is laid through
_TOP = 2
_LONGEST_NAME = 18


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plane:
    """The plane through reports that shows most of how they differ.

    ``middle`` is the mean report, shape ``(n_features,)``; ``axes`` are two directions, shape ``(2, n_features)``, the
    largest part of each positive, which show these ``shares`` of the variance. Of histograms the roots are drawn.
    """

    middle: Vector
    axes: Matrix
    shares: tuple[float, float]
    is_rooted: bool

    def project(self, reports: Matrix) -> Matrix:
        """Return where reports are on the plane, shape ``(n_rows, 2)``."""
        return np.asarray((root_shares(reports) if self.is_rooted else reports) - self.middle) @ self.axes.T


def draw_client_map(run: RunRecord, group: str | None) -> Section:
    """Return the map of a run's clients."""
    title, reports = "Map of clients", run.reports()
    if reports is None or not has_data(reports).any():
        return Section(title=title, missing=why_no_reports(run), group=group)
    moments = map_moments(run, reports)
    # The same ones for the same numbers.
    n_clients = len(reports.client_ids)
    n_shown = min(n_clients, MOST_CLIENTS, max(FEWEST_CLIENTS, MOST_DOTS // len(moments)))
    shown = np.sort(stream(0, "clients on the map", n_clients).permutation(n_clients)[:n_shown])
    rows = newest_rows(reports, moments)
    changes = run.memberships()
    clusters = places_at(changes, moments, reports.client_ids)
    spots = _Spots(reports=reports, rows=rows, clusters=clusters, shown=shown, names=label_names(run, reports))
    plane = fit_plane(reports, rows[:, shown])
    colors = assign_colors(changes)
    scenes = [_scene(spots, plane, colors, at) for at in range(len(moments))]
    frames = [Frame(label=f"round {at}", traces=scene) for at, scene in zip(moments, scenes, strict=True)]
    what = "their mixes of labels are alike" if spots.names else "what they reported is alike"
    kind = run.setting("coordinator", "representation")
    named = "" if spots.names else f" (representation: {kind or 'not known'})"
    slider = " Move the slider to see another round." if len(rows) > 1 else ""
    sample = f" {n_shown:,} of {n_clients:,} clients are shown, picked at random." if n_shown < n_clients else ""
    return Section(
        title=title,
        text=f"A dot is a client by its newest report{named}; dots are close where {what}. Colours are clusters, "
        f"diamonds their middles.{slider}{sample}",
        figure=_figure(spots, plane, colors, scenes[-1]),
        frames=frames,
        group=group,
    )


def map_moments(run: RunRecord, reports: ReportStream, most: int = MOST_MOMENTS) -> list[int]:
    """Return the rounds to show: re-clusterings first, then other reports evenly, the last one always; rising."""
    steps = reports.steps().tolist()
    known = set(steps)
    fired = [at for row in run.events if row["fired"] or row.get("started") if (at := row["round"]) in known]
    chosen = {*pick_evenly([int(str(at)) for at in fired], most - 1), steps[-1]}
    others = [at for at in steps if at not in chosen]
    return sorted({*chosen, *(pick_evenly(others, most - len(chosen)) if len(chosen) < most else ())})


def fit_plane(reports: ReportStream, rows: Counts) -> Plane:
    """Return the plane through some reports (-1 stands for none): the two main axes of what they differ in."""
    used = np.unique(rows[rows >= 0])
    used = used[has_data(reports)[used]] if used.size else used
    used = used[np.linspace(0, used.size - 1, min(used.size, MOST_FITTED)).round().astype(np.int64)]
    found = reports.representations[used].astype(np.float64)
    is_rooted = reports.kind == "histogram"
    found = root_shares(found) if is_rooted else found
    middle = np.asarray(found.mean(axis=0)) if used.size else np.zeros(reports.representations.shape[1])
    axes = np.zeros((2, middle.size))
    _, lengths, directions = np.linalg.svd(found - middle, full_matrices=False)
    kept = directions[:2]
    axes[: len(kept)] = kept * np.where(kept[np.arange(len(kept)), np.abs(kept).argmax(axis=1)] < 0, -1, 1)[:, None]
    power = np.append(lengths**2, [0.0, 0.0])
    whole = float(power.sum()) or 1.0
    return Plane(
        middle=middle, axes=axes, shares=(float(power[0]) / whole, float(power[1]) / whole), is_rooted=is_rooted
    )


def root_shares(histograms: Matrix) -> Matrix:
    """Return the roots of shares: straight distances between these are Hellinger distances, but for a factor.

    Examples
    --------
    >>> root_shares(np.array([[1.0, 3.0], [0.0, 0.0]])).round(3).tolist()
    [[0.5, 0.866], [0.0, 0.0]]
    """
    sums = histograms.sum(axis=1, keepdims=True)
    return np.sqrt(np.clip(histograms, 0.0, None) / np.where(sums > 0, sums, 1.0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Spots:
    """Reports, the newest row and the cluster of each client at each moment, clients shown, and names of labels."""

    reports: ReportStream
    rows: Counts
    clusters: Codes
    shown: Counts
    names: Sequence[str]


def _scene(spots: _Spots, plane: Plane, colors: ClusterColors, at: int) -> list[dict[str, Any]]:
    """Return what the dots and the centers are at one moment."""
    rows, clusters = spots.rows[at], spots.clusters[at]
    found = spots.reports.representations[rows].astype(np.float64)
    is_there = (rows >= 0) & (found != 0).any(axis=1)
    where = np.where(is_there[:, None], plane.project(found), np.nan)
    shown = spots.shown
    slots = np.array([colors.slot(cluster) for cluster in clusters[shown].tolist()])
    dots = zip(clusters[shown].tolist(), rows[shown].tolist(), is_there[shown].tolist(), strict=True)
    words = [f"{colors.name(cluster)}{_top_labels(spots, row)}" if there else "" for cluster, row, there in dots]
    # Dots by the number of their colour, which is shorter than its name.
    n_colors = len(COLORS)
    marker = {
        "color": pack(slots),
        "colorscale": [[(one + side) / n_colors, color] for one, color in enumerate(COLORS) for side in (0, 1)],
        "cmin": -0.5, "cmax": n_colors - 0.5, "opacity": 0.75,
        "size": 9 if slots.size <= 150 else 7 if slots.size <= 600 else 5, "showscale": False,
    }  # fmt: skip
    clients = {"x": pack(where[shown, 0]), "y": pack(where[shown, 1]), "text": words, "marker": marker}
    ids = [one for one in np.unique(clusters[is_there]).tolist() if one >= 0]
    # The middle of the dots, not the dot of the mean mix, which roots would push out of their midst.
    middles = np.array([where[is_there & (clusters == one)].mean(axis=0) for one in ids]).reshape(-1, 2)
    centers = {
        "x": middles[:, 0].round(4).tolist(), "y": middles[:, 1].round(4).tolist(),
        "text": [f"middle of cluster {one}: {int((clusters[is_there] == one).sum()):,} clients" for one in ids],
        "marker": {
            "symbol": "diamond", "size": 15, "color": [colors.color(one) for one in ids],
            "line": {"width": 2, "color": "#FFFFFF"},
        },
    }  # fmt: skip
    return [clients, centers]


def _top_labels(spots: _Spots, row: int) -> str:
    """Return the labels that a client has most of."""
    if not spots.names:
        return ""
    shares = spots.reports.representations[row]
    top = np.argsort(-shares, kind="stable")[:_TOP].tolist()
    whole = float(shares.sum())
    parts = [
        f"{as_text(spots.names[one][:_LONGEST_NAME])} ({shares[one] / whole:.0%})" for one in top if shares[one] > 0
    ]
    return f"<br>{', '.join(parts)}"


def _figure(spots: _Spots, plane: Plane, colors: ClusterColors, scene: Sequence[dict[str, Any]]) -> Figure:
    ids = [as_text(str(spots.reports.client_ids[at])) for at in spots.shown.tolist()]
    base = {"type": "scatter", "mode": "markers", "showlegend": False, "name": ""}
    traces = [
        {**base, "hovertemplate": "client %{customdata}<br>%{text}<extra></extra>", "customdata": ids, **scene[0]},
        {**base, "hovertemplate": "%{text}<extra></extra>", **scene[1]},
    ]
    drawn = {colors.slot(one) for one in np.unique(spots.clusters).tolist()}
    traces += [
        {
            **base, "showlegend": True, "name": name, "x": [None], "y": [None],
            "marker": {"color": COLORS[slot], "size": 9}, "hoverinfo": "skip",
        }
        for slot, name in {**colors.legend, NONE: "no cluster"}.items()
        if slot in drawn
    ]  # fmt: skip
    # Axes show all that is ever drawn, so that nothing jumps when the slider moves.
    ranges = [[-1.0, 1.0], [-1.0, 1.0]]
    used = np.unique(spots.rows[:, spots.shown])
    used = used[used >= 0]
    used = used[has_data(spots.reports)[used]]
    if used.size:
        where = plane.project(spots.reports.representations[used].astype(np.float64))
        low, high = where.min(axis=0), where.max(axis=0)
        margin = np.maximum(0.06 * (high - low), 0.02)
        ranges = [[float(one), float(other)] for one, other in zip(low - margin, high + margin, strict=True)]
    first, second = (f"{share:.0%} of the variance" for share in plane.shares)
    figure = blank_figure(traces, x_title=f"first axis, {first}", y_title=f"second axis, {second}")
    axis = {
        "zeroline": False, "showticklabels": False, "showgrid": False, "showline": True, "mirror": True,
        "linecolor": "rgba(128,128,128,0.4)",
    }  # fmt: skip
    return change_layout(
        figure,
        xaxis={**axis, "range": ranges[0]},
        yaxis={**axis, "range": ranges[1], "rangemode": "normal"},
        hovermode="closest",
        margin={"b": 60},
        height=490,
    )
