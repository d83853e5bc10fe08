"""Who is in which cluster over time, beside the concept that everybody really has, where that is known."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Codes
from fielding.reporting.charts.clusters import COLORS, NONE, OWN, ClusterColors, cluster_colors
from fielding.reporting.charts.curves import (
    counted,
    curves_figure,
    group_lines,
    over_rounds,
    reclusterings,
    seeds_words,
    with_arrivals,
)
from fielding.reporting.charts.figures import Figure, as_text, blank_figure, marked, packed, with_layout
from fielding.reporting.charts.histories import evenly, ids_in_order, last_round, places_at
from fielding.reporting.numbers.groups import Gathered
from fielding.reporting.numbers.run_record import RunRecord
from fielding.reporting.page import Section
from fielding.rng import stream

_TITLE_agreement = "Agreement of clusters with the truth"


def agreement(gathered: Gathered) -> Section:
    """Return the adjusted Rand index over rounds."""
    clustered = {group.name for group in gathered.groups if group.is_clustered}
    found = group_lines(gathered, partial(over_rounds, name="ari"), (-1.0, 1.0))
    lines = [line for line in found if line.name in clustered]
    if not lines:
        return Section(
            title=_TITLE_agreement,
            missing="No run with clusters was evaluated on data whose true groups are known; natural traces have none.",
        )
    figure = with_arrivals(
        curves_figure(lines, x_title="round", y_title="adjusted Rand index"), [run for _, run in gathered.runs]
    )
    runs = counted(gathered.groups[0])
    grouped = ""
    if len(gathered.groups) == 1 and len(runs) == 1 and (at := reclusterings(runs[0])):
        figure, grouped = marked(figure, at), " Orange: all clients were grouped anew."
    return Section(
        title=_TITLE_agreement,
        text="Adjusted Rand index of the clusters and the groups that the data were made with: 1 is perfect, 0 is what "
        f"chance gives. No method but the oracle sees the truth. {seeds_words(gathered)}{grouped}",
        figure=figure,
    )


MOST_CLIENTS = 300
MOST_SPANS = 240
"""Spans of time; no screen shows more columns."""
MOST_MATCHED = 60
"""Moments at which concepts are matched with clusters."""
_LARGEST_SHOWN = 500
_TITLE = "Clusters beside the truth"


def truth(run: RunRecord, group: str | None) -> Section:
    """Return a raster of clients and time by cluster, and below it the same by true concept."""
    concepts, changes = run.concepts(), run.memberships()
    client_ids = ids_in_order(concepts)
    if not client_ids or not changes:
        why = "Nobody knows the true concept of a client in this run: its trace is natural, or it tells none."
        return Section(title=_TITLE, missing=why, group=group)
    shown = _sample(client_ids)
    rounds = evenly(sorted({at for at, _ in (*concepts, *changes)}), MOST_SPANS)
    clusters, real = places_at(changes, rounds, shown), places_at(concepts, rounds, shown)
    order = np.lexsort(real[::-1])
    colors = cluster_colors(changes)
    end = max(last_round(run), rounds[-1]) + 1
    rasters = [
        _raster("cluster", clusters[:, order], {one: colors.color(one) for one in np.unique(clusters).tolist()}),
        _raster("true concept", real[:, order], true_colors(run)),
    ]
    figure = _figure(rasters, [*rounds, end], [shown[at] for at in order.tolist()])
    sample = f" {len(shown)} of {len(client_ids):,} clients are shown, picked at random." if shown != client_ids else ""
    none = " -1 stands for no cluster." if (clusters < 0).any() else ""
    text = (
        "A row is a client, the same one above and below. Above, its cluster; below, its true concept, in the colour "
        f"of the cluster that has most of it: the more alike, the better. Their numbers are unrelated.{none}{sample}"
    )
    return Section(title=_TITLE, text=text, figure=figure, group=group)


def true_colors(run: RunRecord) -> dict[int, str]:
    """Return a colour for each true concept of a run, the same in all figures."""
    concepts, changes = run.concepts(), run.memberships()
    rounds = evenly(sorted({at for at, _ in (*concepts, *changes)}), MOST_MATCHED)
    client_ids = ids_in_order(concepts)
    clusters, real = places_at(changes, rounds, client_ids), places_at(concepts, rounds, client_ids)
    return concept_colors(clusters, real, cluster_colors(changes))


def concept_colors(clusters: Codes, concepts: Codes, colors: ClusterColors) -> dict[int, str]:
    """Return a colour for each concept: that of the cluster it shares most with, or one that no cluster has.

    Parameters
    ----------
    clusters, concepts
        Of the same clients at the same moments, in arrays of one shape; negative for none.
    colors
        Of the clusters.

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
    free = [color for color in OWN if color not in {colors.color(one) for one in colors.slots}] or [COLORS[-2]]
    left = [one for one in real.tolist() if one not in found]
    return found | {concept: free[at % len(free)] for at, concept in enumerate(left)}


def _sample(client_ids: Sequence[ClientId]) -> list[ClientId]:
    """Return the clients that are shown, the same ones for the same number."""
    if len(client_ids) <= MOST_CLIENTS:
        return list(client_ids)
    chosen = stream(0, "clients beside the truth", len(client_ids)).permutation(len(client_ids))[:MOST_CLIENTS]
    return [client_ids[at] for at in np.sort(chosen).tolist()]


def _raster(what: str, places: Codes, colors: Mapping[int, str]) -> dict[str, Any]:
    """Return the trace of one raster; places hold a row per moment."""
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
    return {
        "type": "heatmap", "z": _grid(places.T), "colorscale": scale, "zmin": lowest - 0.5, "zmax": highest + 0.5,
        "showscale": False, "name": what, "xgap": 0, "ygap": 0,
        "hovertemplate": hover,
    }  # fmt: skip


def _grid(values: npt.NDArray[Any]) -> dict[str, Any]:
    """Return a matrix as the browser library reads it, as bytes."""
    flat = packed(values.ravel().astype(np.float64))
    if isinstance(flat, list):
        return values.tolist()  # type: ignore[no-any-return]
    return {**flat, "shape": f"{values.shape[0]}, {values.shape[1]}"}


def _figure(rasters: Sequence[dict[str, Any]], edges: Sequence[int], client_ids: Sequence[ClientId]) -> Figure:
    names = [as_text(str(one)) for one in client_ids]
    places = {"x": list(edges), "y": names}
    traces = [{**rasters[0], **places}, {**rasters[1], **places, "yaxis": "y2"}]
    figure = blank_figure(traces, x_title="round", y_title="")
    axis = {
        **figure["layout"]["yaxis"], "type": "category", "showticklabels": False, "ticks": "", "showgrid": False,
        "zeroline": False, "autorange": "reversed",
    }  # fmt: skip
    return with_layout(
        figure,
        yaxis={**axis, "domain": [0.52, 1.0], "title": {"text": "clients by cluster"}},
        yaxis2={**axis, "domain": [0.0, 0.48], "title": {"text": "by true concept"}, "matches": "y"},
        xaxis={"showgrid": False, "zeroline": False, "anchor": "y2"},
        hovermode="closest",
        height=560,
        margin={"t": 10},
    )
