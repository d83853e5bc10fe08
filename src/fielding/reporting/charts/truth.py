"""Clusters over time beside the concept that each client really has, where that is known."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fielding._typing import Codes
from fielding.reporting.charts.clusters import COLORS, NONE, OWN, ClusterColors, assign_colors
from fielding.reporting.charts.figures import as_text, blank_figure, change_layout, pack
from fielding.reporting.charts.histories import ids_in_order, last_round, pick_evenly, places_at
from fielding.reporting.charts.river import draw_river
from fielding.reporting.numbers.run_record import RunRecord
from fielding.reporting.page import Section, merge_views
from fielding.rng import stream

MOST_CLIENTS = 300
MOST_SPANS = 240  # spans of time; no screen shows more columns
MOST_MATCHED = 60  # moments at which concepts are matched with clusters
_LARGEST_SHOWN = 500


def draw_memberships(run: RunRecord, group: str | None) -> Section:
    """Return who is in which cluster: as a river, and client by client beside the truth."""
    return merge_views(
        "Who is in which cluster", {"river": draw_river(run, group), "beside the truth": draw_truth(run, group)}
    )


def draw_truth(run: RunRecord, group: str | None) -> Section:
    """Return a raster of clients and time by cluster, and below it the same by true concept."""
    title, concepts, changes = "Clusters beside the truth", run.concepts(), run.memberships()
    client_ids = ids_in_order(concepts)
    if not client_ids or not changes:
        why = "Nobody knows the true concept of a client in this run: its trace is natural, or it tells none."
        return Section(title=title, missing=why, group=group)
    shown = client_ids
    if len(client_ids) > MOST_CLIENTS:  # the same ones for the same number
        drawn = stream(0, "clients beside the truth", len(client_ids)).permutation(len(client_ids))[:MOST_CLIENTS]
        shown = [client_ids[at] for at in np.sort(drawn).tolist()]
    rounds = pick_evenly(sorted({at for at, _ in (*concepts, *changes)}), MOST_SPANS)
    clusters, real = places_at(changes, rounds, shown), places_at(concepts, rounds, shown)
    order = np.lexsort(real[::-1])
    colors = assign_colors(changes)
    places = {
        "x": [*rounds, max(last_round(run), rounds[-1]) + 1],
        "y": [as_text(str(shown[at])) for at in order.tolist()],
    }
    above = _raster("cluster", clusters[:, order], {one: colors.color(one) for one in np.unique(clusters).tolist()})
    below = _raster("true concept", real[:, order], true_colors(run))
    figure = blank_figure([{**above, **places}, {**below, **places, "yaxis": "y2"}], x_title="round", y_title="")
    axis = {
        **figure["layout"]["yaxis"], "type": "category", "showticklabels": False, "ticks": "", "showgrid": False,
        "zeroline": False, "autorange": "reversed",
    }  # fmt: skip
    figure = change_layout(
        figure,
        yaxis={**axis, "domain": [0.52, 1.0], "title": {"text": "clients by cluster"}},
        yaxis2={**axis, "domain": [0.0, 0.48], "title": {"text": "by true concept"}, "matches": "y"},
        xaxis={"showgrid": False, "zeroline": False, "anchor": "y2"},
        hovermode="closest",
        height=560,
        margin={"t": 10},
    )
    sample = f" {len(shown)} of {len(client_ids):,} clients are shown, picked at random." if shown != client_ids else ""
    none = " -1 stands for no cluster." if (clusters < 0).any() else ""
    text = (
        "A row is a client, the same one above and below. Above, its cluster; below, its true concept, in the colour "
        f"of the cluster that has most of it: the more alike, the better. Their numbers are unrelated.{none}{sample}"
    )
    return Section(title=title, text=text, figure=figure, group=group)


def true_colors(run: RunRecord) -> dict[int, str]:
    """Return a colour for each true concept of a run, the same in all figures."""
    concepts, changes = run.concepts(), run.memberships()
    rounds = pick_evenly(sorted({at for at, _ in (*concepts, *changes)}), MOST_MATCHED)
    client_ids = ids_in_order(concepts)
    clusters, real = places_at(changes, rounds, client_ids), places_at(concepts, rounds, client_ids)
    return concept_colors(clusters, real, assign_colors(changes))


def concept_colors(clusters: Codes, concepts: Codes, colors: ClusterColors) -> dict[int, str]:
    """Return a colour for each concept: that of the cluster it shares most with, or one that no cluster has.

    ``clusters``, ``concepts``: of the same clients at the same moments, in arrays of one shape; negative for none.

    Examples
    --------
    >>> colors = ClusterColors(slots={7: 0, 5: 1})
    >>> found = concept_colors(np.array([[7, 7, 5, 7]]), np.array([[1, 1, 0, 2]]), colors)
    >>> {concept: COLORS.index(color) for concept, color in sorted(found.items())}
    {-1: 10, 0: 1, 1: 0, 2: 2}
    """
    ids, codes = np.unique(clusters, return_inverse=True)
    real, real_codes = np.unique(concepts, return_inverse=True)
    shared = np.bincount(codes.ravel() * real.size + real_codes.ravel(), minlength=ids.size * real.size)
    found: dict[int, str] = {-1: COLORS[NONE]}
    for at in np.argsort(-shared, kind="stable")[: np.count_nonzero(shared)].tolist():
        cluster, concept = int(ids[at // real.size]), int(real[at % real.size])
        if cluster >= 0 and concept not in found and colors.color(cluster) not in found.values():
            found[concept] = colors.color(cluster)
    used = {colors.color(one) for one in colors.slots}
    free = [color for color in OWN if color not in used] or [COLORS[-2]]
    left = [one for one in real.tolist() if one not in found]
    return found | {concept: free[at % len(free)] for at, concept in enumerate(left)}


def _raster(what: str, places: Codes, colors: Mapping[int, str]) -> dict[str, Any]:
    hover = f"client %{{y}}<br>{what} %{{z}}<br>round %{{x:.0f}}<extra></extra>"
    if places.max() > _LARGEST_SHOWN:  # numbers as large would need as many colours
        known, codes = np.unique(np.append(places.ravel(), -1), return_inverse=True)
        places = (codes[:-1] - 1).reshape(places.shape).astype(np.int32)
        colors = {at - 1: colors.get(one, COLORS[NONE]) for at, one in enumerate(known.tolist())}
        hover = "client %{y}<br>round %{x:.0f}<extra></extra>"
    lowest, highest = -1, max(0, int(places.max()))
    n_values = highest - lowest + 1
    scale = [
        [(at + side) / n_values, colors.get(lowest + at, COLORS[NONE])] for at in range(n_values) for side in (0, 1)
    ]
    rows = places.T
    flat = pack(rows.ravel().astype(np.float64))  # few numbers stay a list
    cells = rows.tolist() if isinstance(flat, list) else {**flat, "shape": f"{rows.shape[0]}, {rows.shape[1]}"}
    return {
        "type": "heatmap", "z": cells, "colorscale": scale, "zmin": lowest - 0.5, "zmax": highest + 0.5,
        "showscale": False, "name": what, "xgap": 0, "ygap": 0, "hovertemplate": hover,
    }  # fmt: skip
