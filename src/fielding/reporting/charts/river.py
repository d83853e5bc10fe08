"""The membership river: how many clients each cluster has over time, and how many go from which to which."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fielding._typing import Counts, Vector
from fielding.reporting.charts.clusters import COLORS, NONE, SHARED, ClusterColors, assign_colors
from fielding.reporting.charts.figures import EVENT_COLOR, MOST_MARKS, Figure, blank_figure, change_layout, pack, shade
from fielding.reporting.charts.histories import ids_in_order, last_round, places_at
from fielding.reporting.numbers.run_record import Changes, RunRecord
from fielding.reporting.page import Section

MOST_MOMENTS = 14  # moments at which clients are seen to move; more would leave no room for the bands between
OTHERS, NOBODY = -2, -1  # keys of the clusters that share a colour, and of clients without a cluster
_CLOSEST = 1 / 25
_BEND = 0.045
_GAP = 0.015


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flows:
    """Clients in clusters, and those that go from one to another."""

    moments: Sequence[int]  # rounds from which on a state holds, rising
    keys: Sequence[int]  # the clusters, from the lowest band to the highest: an id, or one of OTHERS and NOBODY
    sizes: Counts  # clients of each cluster from each moment on, shape (n_moments, n_keys)
    # Clients that were in a row's cluster from one moment on and in a column's from the next on, shape (n_moments - 1,
    # n_keys, n_keys).
    flows: Counts


def draw_river(run: RunRecord, group: str | None) -> Section:
    """Return the river of a run's clients."""
    title, changes = "Who is in which cluster", run.memberships()
    if not any(changed for _, changed in changes):
        why = "Who is in which cluster is not written down yet." if not run.rounds else "No cluster is known."
        return Section(title=title, missing=why, group=group)
    colors = assign_colors(changes)
    if len(colors.slots) < 2:
        return Section(title=title, missing="All clients share one model: nobody can move.", group=group)
    found = count_flows(changes, colors)
    end = max(last_round(run) + 1, found.moments[-1] + 1)
    fired = [float(str(row["round"])) for row in run.events if row.get("fired")]
    moves = int(sum(found.flows.sum(axis=(1, 2))) - np.trace(found.flows, axis1=1, axis2=2).sum())
    lumped = sum(1 for _, changed in changes if changed) > len(found.moments)
    return Section(
        title=title,
        text=(
            "A band is a cluster, as thick as it has clients; strands are clients that go from one to another, "
            f"from the round in which they do{', gathered over the rounds since the strand before' if lumped else ''}. "
            f"{moves:,} changes are drawn{'; triangles: all were grouped anew' if fired else ''}."
        ),
        figure=_figure(found, colors, float(end), fired),
        group=group,
    )


def count_flows(changes: Sequence[Changes], colors: ClusterColors) -> Flows:
    """Return sizes and flows at a few moments: those in which most clients change, not too close to each other."""
    moments = river_moments([(at, len(changed)) for at, changed in changes if changed])
    places = places_at(changes, moments, ids_in_order(changes))
    key_of_slot = {NONE: NOBODY, SHARED: OTHERS}
    drawn = [key_of_slot.get(colors.slot(cluster), cluster) for cluster in np.unique(places).tolist()]
    codes = np.searchsorted(np.unique(places), places)
    keys = sorted(set(drawn), key=lambda key: (_slot(key, colors), key))
    bands, n_keys = np.array([keys.index(key) for key in drawn])[codes], len(keys)
    flows = np.zeros((len(moments) - 1, n_keys, n_keys), dtype=np.int64)
    for at, (before, after) in enumerate(pairwise(bands)):
        pairs = before.astype(np.int64) * n_keys + after
        flows[at] = np.bincount(pairs, minlength=n_keys * n_keys).reshape(n_keys, n_keys)
    sizes = np.stack([np.bincount(row, minlength=n_keys) for row in bands])
    return Flows(moments=moments, keys=keys, sizes=sizes, flows=flows)


def river_moments(changed: Sequence[tuple[int, int]], most: int = MOST_MOMENTS) -> list[int]:
    """Return the rounds to show: the first, the last, and between them those with the most changes.

    ``changed``: rounds, rising, with how many clients changed in each.

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


def _slot(key: int, colors: ClusterColors) -> int:
    return {NOBODY: NONE, OTHERS: SHARED}.get(key) or colors.slot(key)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Shape:
    """A band or a strand: its colour, whether clients move in it, its outline as x and y, and its words and where."""

    slot: int
    is_move: bool
    outline: tuple[Vector, Vector]
    points: Sequence[tuple[float, float]]
    words: str


def _figure(found: Flows, colors: ClusterColors, end: float, fired: Sequence[float]) -> Figure:
    """Return the figure: per colour one trace of strands and one of bands, and points that tell what they are."""
    shapes = _shapes(found, colors, end)
    drawn = {_slot(key, colors) for key in found.keys}
    traces: list[dict[str, Any]] = []
    for is_move, opacity in ((False, 0.9), (True, 0.6)):
        for slot, name in {**colors.legend, NONE: "no cluster"}.items():
            outlines = [one.outline for one in shapes if one.slot == slot and one.is_move == is_move]
            if slot in drawn and outlines:
                # Many closed shapes of one colour as one trace: hundreds of traces would be slow.
                x, y = (np.concatenate([np.append(one[axis], np.nan) for one in outlines]) for axis in (0, 1))
                traces.append(
                    {
                        "type": "scatter", "x": pack(x), "y": pack(y), "mode": "lines", "line": {"width": 0},
                        "fill": "toself", "fillcolor": shade(COLORS[slot], opacity), "hoverinfo": "skip",
                        "name": name, "legendgroup": name, "showlegend": not is_move,
                    }
                )  # fmt: skip
    # Points that cannot be seen, whose words show up under the pointer.
    spots = [(*point, shape.words) for shape in shapes for point in shape.points]
    traces.append(
        {
            "type": "scatter", "x": pack([one[0] for one in spots]), "y": pack([one[1] for one in spots]),
            "text": [one[2] for one in spots], "hovertemplate": "%{text}<extra></extra>", "mode": "markers",
            "marker": {"size": 8, "opacity": 0}, "showlegend": False, "name": "",
        }
    )  # fmt: skip
    if 0 < len(fired) <= MOST_MARKS:
        height = 1.03 * max(float(one.outline[1].max()) for one in shapes)
        traces.append(
            {
                "type": "scatter", "mode": "markers", "x": pack(fired), "y": pack([height] * len(fired)),
                "marker": {"symbol": "triangle-down", "size": 9, "color": EVENT_COLOR}, "name": "grouped anew",
                "hovertemplate": "all were grouped anew in round %{x}<extra></extra>", "cliponaxis": False,
            }
        )  # fmt: skip
    return change_layout(
        blank_figure(traces, x_title="round", y_title="clients, by cluster"),
        yaxis={"showticklabels": False, "showgrid": False, "zeroline": False, "ticks": ""},
        xaxis={"showgrid": False, "zeroline": False, "range": [found.moments[0], end]},
        hovermode="closest",
        hoverdistance=-1,
        height=410 + 12 * min(len(found.keys), len(COLORS)),
        legend={"tracegroupgap": 0},
    )


def _shapes(found: Flows, colors: ClusterColors, end: float) -> list[_Shape]:
    # Where each band begins, from below; bands without clients take no room.
    rooms = [sizes + _GAP * float(found.sizes[0].sum()) * (sizes > 0) for sizes in found.sizes]
    floors = [np.cumsum(room) - room for room in rooms]
    ends = [*found.moments[1:], end]
    shapes: list[_Shape] = []
    for at, (moment, until) in enumerate(zip(found.moments, ends, strict=True)):
        # Clients go in the round that a state begins with: strands begin there, and the bands where they end.
        start = float(moment)
        if at:
            start += min(_BEND * (end - found.moments[0]), 0.6 * (until - moment))
            shapes += _strands(found, at - 1, (float(moment), start), (floors[at - 1], floors[at]), colors)
        for key_at, size in enumerate(found.sizes[at].tolist()):
            if not size:
                continue
            key, low, right = found.keys[key_at], float(floors[at][key_at]), float(until)
            high = low + size
            shapes.append(
                _Shape(
                    slot=_slot(key, colors),
                    is_move=False,
                    outline=(np.array([start, right, right, start, start]), np.array([low, low, high, high, low])),
                    points=[
                        (start + (right - start) * across, low + (high - low) * up)
                        for across in (0.05, 0.3, 0.7)
                        for up in (0.25, 0.75)
                    ],
                    words=f"{_called(key)}: {_clients(size)}, rounds {moment} to {until - 1:g}",
                )
            )
    return shapes


def _strands(
    found: Flows, at: int, x: tuple[float, float], floors: tuple[Vector, Vector], colors: ClusterColors
) -> list[_Shape]:
    """Return the clients that go on from one moment to the next, those that stay with them, as curved strands."""
    leaving, arriving = floors[0].astype(float), floors[1].astype(float)
    part = np.linspace(0.0, 1.0, 11)
    across = x[0] + (x[1] - x[0]) * part
    where = f"rounds {found.moments[at] + 1} to {found.moments[at + 1]}"
    shapes: list[_Shape] = []
    for source, target in zip(*(axis.tolist() for axis in np.nonzero(found.flows[at])), strict=True):
        size, before, after = int(found.flows[at][source, target]), found.keys[source], found.keys[target]
        along = leaving[source] + (arriving[target] - leaving[source]) * part**2 * (3 - 2 * part)
        leaving[source] += size
        arriving[target] += size
        words = f"{_clients(size)}: {_called(before)} \u2192 {_called(after)}, {where}"
        if source == target:
            words = f"{_clients(size)}: {'stayed in ' if before >= 0 else ''}{_called(before)}, {where}"
        shapes.append(
            _Shape(
                slot=_slot(before if before != NOBODY else after, colors),
                is_move=source != target,
                outline=(np.concatenate([across, across[::-1]]), np.concatenate([along, along[::-1] + size])),
                points=[(float(across[5]), float(along[5]) + size / 2)],
                words=words,
            )
        )
    return shapes


def _called(key: int) -> str:
    return {NOBODY: "no cluster", OTHERS: "small clusters"}.get(key, f"cluster {key}")


def _clients(size: int) -> str:
    return f"{size:,} client{'' if size == 1 else 's'}"
