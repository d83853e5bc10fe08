"""The membership river: how many clients each cluster has over time, and who goes from which to which."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fielding._typing import Codes, Counts, Vector
from fielding.reporting.charts.clusters import COLORS, NONE, SHARED, ClusterColors, cluster_colors
from fielding.reporting.charts.figures import EVENT_COLOR, MOST_MARKS, Figure, blank_figure, packed, shade, with_layout
from fielding.reporting.charts.histories import ids_in_order, last_round, places_at
from fielding.reporting.numbers.run_record import Changes, RunRecord
from fielding.reporting.page import Section

MOST_MOMENTS = 14
"""Moments at which clients are seen to move; more would leave no room for the bands between."""
_CLOSEST = 1 / 25
_BEND = 0.045
_GAP = 0.015
_TITLE = "Who moves where: the river of clients"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flows:
    """Clients in clusters, and those who go from one to another.

    Parameters
    ----------
    moments
        Rounds from which on a state holds, rising.
    keys
        The clusters, from the lowest band to the highest: an id, or one of ``OTHERS`` and ``NOBODY``.
    sizes
        Clients of each cluster from each moment on, shape ``(n_moments, n_keys)``.
    flows
        Clients that were in a row's cluster from one moment on and in a column's from the next on, shape
        ``(n_moments - 1, n_keys, n_keys)``.
    """

    moments: Sequence[int]
    keys: Sequence[int]
    sizes: Counts
    flows: Counts


OTHERS, NOBODY = -2, -1
"""Keys of the clusters that share a colour, and of clients without a cluster."""


def river(run: RunRecord, group: str | None) -> Section:
    """Return the river of a run's clients."""
    changes = run.memberships()
    if not any(changed for _, changed in changes):
        why = "Who is in which cluster is not written down yet." if not run.rounds else "No cluster is known."
        return Section(title=_TITLE, missing=why, group=group)
    colors = cluster_colors(changes)
    if len(colors.slots) < 2:
        return Section(title=_TITLE, missing="All clients share one model: nobody can move.", group=group)
    found = flows(changes, colors)
    end = max(last_round(run) + 1, found.moments[-1] + 1)
    fired = [float(str(row["round"])) for row in run.events if row.get("fired")]
    moves = int(sum(found.flows.sum(axis=(1, 2))) - np.trace(found.flows, axis1=1, axis2=2).sum())
    lumped = sum(1 for _, changed in changes if changed) > len(found.moments)
    return Section(
        title=_TITLE,
        text=(
            "A band is a cluster, as thick as it has clients; strands are clients that go from one to another, "
            f"from the round in which they do{', gathered over the rounds since the strand before' if lumped else ''}. "
            f"{moves:,} changes are drawn{'; triangles: all were grouped anew' if fired else ''}."
        ),
        figure=_drawn(found, colors, float(end), fired),
        group=group,
    )


def flows(changes: Sequence[Changes], colors: ClusterColors) -> Flows:
    """Return sizes and flows at a few moments: those in which most clients change, not too close to each other."""
    moments = river_moments([(at, len(changed)) for at, changed in changes if changed])
    client_ids = ids_in_order(changes)
    places = places_at(changes, moments, client_ids)
    drawn = np.array([_key(cluster, colors) for cluster in np.unique(places).tolist()])
    codes = np.searchsorted(np.unique(places), places)
    keys = sorted(set(drawn.tolist()), key=lambda key: (_slot(key, colors), key))
    position = {key: at for at, key in enumerate(keys)}
    bands = np.array([position[key] for key in drawn.tolist()])[codes]
    n_keys = len(keys)
    sizes = np.stack([np.bincount(row, minlength=n_keys) for row in bands])
    between = [_counted(before, after, n_keys) for before, after in pairwise(bands)]
    shape = (0, n_keys, n_keys)
    return Flows(moments=moments, keys=keys, sizes=sizes, flows=np.stack(between) if between else np.zeros(shape, int))


def river_moments(changed: Sequence[tuple[int, int]], most: int = MOST_MOMENTS) -> list[int]:
    """Return the rounds to show: the first, the last, and between them those with the most changes.

    Parameters
    ----------
    changed
        Rounds, rising, with how many clients changed in each.
    most
        How many rounds to return at most.

    Examples
    --------
    >>> river_moments([(0, 9), (10, 1), (20, 5), (30, 2), (40, 4)], most=3)
    [0, 20, 40]
    """
    first, last = changed[0][0], changed[-1][0]
    chosen, closest = [first, last], (last - first) * _CLOSEST
    if len(changed) <= most:
        closest = 0.0
    for at, _ in sorted(changed[1:-1], key=lambda pair: (-pair[1], pair[0])):
        if len(chosen) >= most:
            break
        if all(abs(at - other) >= closest for other in chosen):
            chosen.append(at)
    return sorted(set(chosen))


def _counted(before: Codes, after: Codes, n_keys: int) -> Counts:
    pairs = before.astype(np.int64) * n_keys + after
    return np.bincount(pairs, minlength=n_keys * n_keys).reshape(n_keys, n_keys)


def _key(cluster: int, colors: ClusterColors) -> int:
    slot = colors.slot(cluster)
    return NOBODY if slot == NONE else OTHERS if slot == SHARED else cluster


def _slot(key: int, colors: ClusterColors) -> int:
    return {NOBODY: NONE, OTHERS: SHARED}.get(key) or colors.slot(key)


def _drawn(found: Flows, colors: ClusterColors, end: float, fired: Sequence[float]) -> Figure:
    """Return the figure: per colour one trace of strands and one of bands, and points that tell what they are."""
    shapes = _shapes(found, colors, end)
    traces: list[dict[str, Any]] = []
    for is_move, opacity in ((False, 0.9), (True, 0.6)):
        for slot, name in _legend(found, colors).items():
            outlines = [one.outline for one in shapes if one.slot == slot and one.is_move == is_move]
            if outlines:
                traces.append(_filled(outlines, shade(COLORS[slot], opacity), name, in_legend=not is_move))
    traces.append(_told(shapes))
    if 0 < len(fired) <= MOST_MARKS:
        traces.append(_fired(fired, 1.03 * max(float(one.outline[1].max()) for one in shapes)))
    figure = blank_figure(traces, x_title="round", y_title="clients, by cluster")
    return with_layout(
        figure,
        yaxis={"showticklabels": False, "showgrid": False, "zeroline": False, "ticks": ""},
        xaxis={"showgrid": False, "zeroline": False, "range": [found.moments[0], end]},
        hovermode="closest",
        hoverdistance=-1,
        height=410 + 12 * min(len(found.keys), len(COLORS)),
        legend={"tracegroupgap": 0},
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Shape:
    """A band or a strand: its colour, whether clients move in it, its outline as x and y, and what it tells where."""

    slot: int
    is_move: bool
    outline: tuple[Vector, Vector]
    points: Sequence[tuple[float, float]]
    words: str


def _shapes(found: Flows, colors: ClusterColors, end: float) -> list[_Shape]:
    gap = _GAP * float(found.sizes[0].sum())
    floors = [_floors(sizes, gap) for sizes in found.sizes]
    ends = [*found.moments[1:], end]
    # Clients go in the round that a state begins with: strands begin there, and the bands where they end.
    widths = [
        min(_BEND * (end - found.moments[0]), 0.6 * (until - at)) for at, until in zip(found.moments, ends, strict=True)
    ]
    shapes: list[_Shape] = []
    for at, (moment, until) in enumerate(zip(found.moments, ends, strict=True)):
        start = float(moment) + (widths[at] if at else 0.0)
        if at:
            shapes += _strands(found, at - 1, (float(moment), start), (floors[at - 1], floors[at]), colors)
        for key_at, size in enumerate(found.sizes[at].tolist()):
            if size:
                words = f"{_called(found.keys[key_at])}: {_clients(size)}, rounds {moment} to {until - 1:g}"
                slot, low = _slot(found.keys[key_at], colors), float(floors[at][key_at])
                shapes.append(_band(slot, (start, float(until)), (low, low + size), words))
    return shapes


def _floors(sizes: Counts, gap: float) -> Any:
    """Return where each band begins, from below; bands without clients take no room."""
    room = sizes + gap * (sizes > 0)
    return np.cumsum(room) - room


def _band(slot: int, x: tuple[float, float], y: tuple[float, float], words: str) -> _Shape:
    (left, right), (low, high) = x, y
    outline = np.array([left, right, right, left, left]), np.array([low, low, high, high, low])
    points = [
        (left + (right - left) * across, low + (high - low) * up) for across in (0.05, 0.3, 0.7) for up in (0.25, 0.75)
    ]
    return _Shape(slot=slot, is_move=False, outline=outline, points=points, words=words)


def _strands(
    found: Flows, at: int, x: tuple[float, float], floors: tuple[Any, Any], colors: ClusterColors
) -> list[_Shape]:
    """Return the clients that go on from one moment to the next, those that stay with them, as curved strands."""
    leaving, arriving = floors[0].astype(float), floors[1].astype(float)
    shapes: list[_Shape] = []
    for source, target in zip(*(part.tolist() for part in np.nonzero(found.flows[at])), strict=True):
        size = int(found.flows[at][source, target])
        outline, middle = _curved(x, (leaving[source], arriving[target]), size)
        leaving[source] += size
        arriving[target] += size
        where = f"rounds {found.moments[at] + 1} to {found.moments[at + 1]}"
        both = found.keys[source], found.keys[target]
        words = f"{_clients(size)}: {_called(both[0])} \u2192 {_called(both[1])}, {where}"
        if source == target:
            words = f"{_clients(size)}: {'stayed in ' if both[0] >= 0 else ''}{_called(both[0])}, {where}"
        slot = _slot(both[0] if both[0] != NOBODY else both[1], colors)
        shapes.append(_Shape(slot=slot, is_move=source != target, outline=outline, points=[middle], words=words))
    return shapes


def _curved(x: tuple[float, float], low: tuple[float, float], size: int) -> tuple[Any, tuple[float, float]]:
    """Return the outline of a strand that leaves and arrives level, and its middle."""
    part = np.linspace(0.0, 1.0, 11)
    across, along = x[0] + (x[1] - x[0]) * part, low[0] + (low[1] - low[0]) * part**2 * (3 - 2 * part)
    outline = np.concatenate([across, across[::-1]]), np.concatenate([along, along[::-1] + size])
    return outline, (float(across[5]), float(along[5]) + size / 2)


def _filled(outlines: Sequence[tuple[Any, Any]], color: str, name: str, *, in_legend: bool) -> dict[str, Any]:
    """Return many closed shapes of one colour as one trace: hundreds of traces would be slow."""
    x = np.concatenate([np.append(one[0], np.nan) for one in outlines])
    y = np.concatenate([np.append(one[1], np.nan) for one in outlines])
    return {
        "type": "scatter", "x": packed(x), "y": packed(y), "mode": "lines", "line": {"width": 0}, "fill": "toself",
        "fillcolor": color, "hoverinfo": "skip", "name": name, "legendgroup": name, "showlegend": in_legend,
    }  # fmt: skip


def _told(shapes: Sequence[_Shape]) -> dict[str, Any]:
    """Return points that cannot be seen, whose words show up under the pointer."""
    spots = [(*point, shape.words) for shape in shapes for point in shape.points]
    return {
        "type": "scatter", "x": packed([one[0] for one in spots]), "y": packed([one[1] for one in spots]),
        "text": [one[2] for one in spots], "hovertemplate": "%{text}<extra></extra>", "mode": "markers",
        "marker": {"size": 8, "opacity": 0}, "showlegend": False, "name": "",
    }  # fmt: skip


def _fired(rounds: Sequence[float], height: float) -> dict[str, Any]:
    """Return marks above the bands where all clients were grouped anew."""
    return {
        "type": "scatter", "mode": "markers", "x": packed(rounds), "y": packed([height] * len(rounds)),
        "marker": {"symbol": "triangle-down", "size": 9, "color": EVENT_COLOR}, "name": "grouped anew",
        "hovertemplate": "all were grouped anew in round %{x}<extra></extra>", "cliponaxis": False,
    }  # fmt: skip


def _legend(found: Flows, colors: ClusterColors) -> dict[int, str]:
    """Return what each colour that is drawn stands for."""
    drawn = {_slot(key, colors) for key in found.keys}
    return {slot: name for slot, name in {**colors.legend, NONE: "no cluster"}.items() if slot in drawn}


def _called(key: int) -> str:
    return {NOBODY: "no cluster", OTHERS: "small clusters"}.get(key, f"cluster {key}")


def _clients(size: int) -> str:
    return f"{size:,} client{'' if size == 1 else 's'}"
