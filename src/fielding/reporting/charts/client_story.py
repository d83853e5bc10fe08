"""One client: what it reported over time, the clusters it was in, and how accurate its model was."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fielding._typing import ClientId, Matrix
from fielding.reporting.charts.clusters import COLORS, NONE, assign_colors
from fielding.reporting.charts.experts import draw_client_experts
from fielding.reporting.charts.figures import (
    GRAY,
    Figure,
    Line,
    as_text,
    blank_figure,
    change_layout,
    lines_figure,
    shade,
)
from fielding.reporting.charts.histories import label_names, last_round, pick_evenly, why_no_reports
from fielding.reporting.charts.truth import true_colors
from fielding.reporting.client_reasons import cluster_changes, find_client, spans
from fielding.reporting.numbers.run_record import RunRecord
from fielding.reporting.page import Section
from fielding.traces.reports import ReportStream

MOST_REPORTS = 200  # reports of a client that are drawn
MOST_FEATURES = 40  # labels that are drawn; the others are summed up
_LONGEST_ID = 40
_FIRST, _LAST = "#0072B2", "#E69F00"


def draw_client_story(run: RunRecord, client: ClientId) -> list[Section]:
    """Return what one client reported, the clusters it was in, and how accurate its model was.

    The text of a whole number will do as an id where ids are whole numbers; InputError if there is no such client, with
    the nearest id.
    """
    known, text = find_client(run, client), str(client)
    name = text if len(text) <= _LONGEST_ID else f"{text[:_LONGEST_ID]}..."
    name = name if name.lower().startswith("client") else f"client {name}"
    return [
        _draw_reports(run, known, name),
        _draw_stays(run, known, name),
        _draw_accuracy(run, known, name),
        *_draw_reasons(run, known, name),
        *draw_client_experts(run, known, name),
    ]


def _draw_reports(run: RunRecord, client: ClientId, name: str) -> Section:
    """Return what a client reported, as a heat map of features and time."""
    title, reports = f"What {name} reported", run.reports()
    if reports is None:
        return Section(title=title, missing=why_no_reports(run), key="client-reports")
    code = reports.client_ids.index(client) if client in reports.client_ids else -1
    rows = np.flatnonzero(reports.client == code)
    if not rows.size:
        return Section(title=title, missing="This client has not reported anything.", key="client-reports")
    rows = np.array(pick_evenly(rows[np.argsort(reports.step[rows], kind="stable")].tolist(), MOST_REPORTS))
    names = label_names(run, reports)
    kind = run.setting("coordinator", "representation")
    text = (
        "A column is a report, as wide as it was the newest one; the stronger its color, the more of the "
        "client's samples have the label. Empty columns: no samples any more."
        if names
        else f"A column is a report, as wide as it was the newest one: numbers of its representation ({kind}), "
        f"at most the {MOST_FEATURES} largest."
    )
    figure = _heat(_features(reports, rows, names), reports.step[rows].tolist(), last_round(run), is_shares=bool(names))
    return Section(title=title, text=text, figure=figure, key="client-reports")


def _features(reports: ReportStream, rows: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the features to draw by name, shape ``(n_rows,)`` each: the largest, and the sum of the others."""
    found: Matrix = reports.representations[rows].astype(np.float64)
    called = names or [f"number {at}" for at in range(found.shape[1])]
    size = np.abs(found).mean(axis=0)
    top = np.sort(np.argsort(-size, kind="stable")[:MOST_FEATURES])
    drawn = {f"{called[at][:30]}": found[:, at] for at in top.tolist()}
    if len(drawn) < top.size:  # names that are cut, or given twice
        drawn = {f"{called[at][:24]} ({at})": found[:, at] for at in top.tolist()}
    if top.size < found.shape[1] and names:
        drawn[f"{found.shape[1] - top.size} other labels"] = np.delete(found, top, axis=1).sum(axis=1)
    return drawn


def _heat(features: Mapping[str, Any], steps: Sequence[int], last: int, *, is_shares: bool) -> Figure:
    values = np.stack(list(features.values()))
    lowest, highest = float(values.min()), float(values.max())
    signed = lowest < 0
    limit = max(abs(lowest), abs(highest)) or 1.0
    scale = [[0, shade(_FIRST, 0.04)], [1, _FIRST]]
    if signed:
        scale = [[0, _LAST], [0.5, shade(_FIRST, 0.04)], [1, _FIRST]]
    trace = {
        "type": "heatmap", "x": [*steps, max(last, steps[-1]) + 1], "y": [as_text(name) for name in features],
        "z": values.round(4).tolist(), "colorscale": scale, "zmin": -limit if signed else 0.0, "zmax": limit,
        "hovertemplate": "%{y}: %{z:.3f}<br>reported in round %{customdata}<extra></extra>",
        "customdata": [list(steps)] * len(features), "ygap": 1, "name": "",
        "colorbar": {"thickness": 10, "title": {"text": "share" if is_shares else ""}, "outlinewidth": 0},
    }  # fmt: skip
    figure = blank_figure([trace], x_title="round", y_title="")
    axis = {"showgrid": False, "zeroline": False}
    height = 130 + (22 if is_shares else 10) * max(len(features), 4)
    return change_layout(
        figure,
        xaxis=axis,
        yaxis={**axis, "type": "category", "autorange": "reversed"},
        hovermode="closest",
        margin={"t": 10},
        height=height,
    )


def _draw_stays(run: RunRecord, client: ClientId, name: str) -> Section:
    """Return the clusters that a client was in as bars over time, and its true concepts below."""
    title, changes = f"The clusters of {name}", run.memberships()
    clusters = spans(changes, client)
    if not clusters:
        return Section(title=title, missing="This client was never in a cluster.", key="client-clusters")
    end = max(last_round(run), clusters[-1][0]) + 1
    colors = assign_colors(changes)
    traces = [_strip("cluster", clusters, end, {at: colors.color(at) for _, at in clusters})]
    real = spans(run.concepts(), client)
    if real:
        traces.append(_strip("true concept", real, end, true_colors(run)))
    figure = change_layout(
        blank_figure(traces, x_title="round", y_title=""),
        barmode="overlay",
        hovermode="closest",
        showlegend=False,
        height=120 + 70 * len(traces),
        xaxis={"range": [0, end], "showgrid": False},
        yaxis={"type": "category", "autorange": "reversed", "showgrid": False},
        bargap=0.25,
        margin={"t": 10},
    )
    n_moves = max(0, len(clusters) - 1)
    below = (
        " Below it, its true concept, in the colour of the cluster that has most of it; their numbers are unrelated."
        if real
        else ""
    )
    text = f"It changed its cluster {n_moves} time{'' if n_moves == 1 else 's'}.{below}"
    return Section(title=title, text=text, figure=figure, key="client-clusters")


def _strip(what: str, spans: Sequence[tuple[int, int]], end: int, colors: Mapping[int, str]) -> dict[str, Any]:
    edges = [*(start for start, _ in spans), end]
    words = [f"{what} {place}" if place >= 0 else "none" for _, place in spans]
    until = [
        f"{word}<br>rounds {start} to {stop - 1}" for word, (start, stop) in zip(words, pairwise(edges), strict=True)
    ]
    return {
        "type": "bar", "orientation": "h", "y": [what] * len(spans), "base": edges[:-1],
        "x": [stop - start for start, stop in pairwise(edges)], "name": what,
        "text": [str(place) if place >= 0 else "" for _, place in spans], "textposition": "inside",
        "insidetextanchor": "middle", "textangle": 0, "customdata": until,
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {"color": [colors.get(place, COLORS[NONE]) for _, place in spans], "line": {"width": 0}},
    }  # fmt: skip


def _draw_accuracy(run: RunRecord, client: ClientId, name: str) -> Section:
    """Return the accuracy of a client in each evaluation, against the means of its cluster and of all."""
    title = f"The accuracy of {name}"
    rounds, own, of_cluster, of_all = [], [], [], []
    for test in run.tests():
        accuracy = test.accuracy()
        if client not in test.client_ids or np.isnan(accuracy).all():
            continue
        at = test.client_ids.index(client)
        peers = accuracy[test.cluster == test.cluster[at]]
        rounds.append(float(test.round_index))
        own.append(float(accuracy[at]))
        of_cluster.append(float(np.nanmean(peers)) if not np.isnan(peers).all() else np.nan)
        of_all.append(float(np.nanmean(accuracy)))
    if not rounds:
        return Section(title=title, missing="This client was not tested yet.", key="client-accuracy")
    lines = [
        Line(name="all clients", x=rounds, y=of_all, style=GRAY),
        Line(name="its cluster", x=rounds, y=of_cluster, style=4),
        Line(name="this client", x=rounds, y=own, style=0, is_main=True),
    ]
    moves = [float(at) for at, _ in spans(run.memberships(), client)[1:]]
    figure = lines_figure(lines, x_title="round", y_title="accuracy", events=moves)
    figure = change_layout(
        figure, yaxis={"hoverformat": ".3f"}, xaxis={"hoverformat": "d"}, hoverlabel={"namelength": -1}
    )
    text = "On the client's own test samples, against the means over the clients of its cluster and over all."
    text += " Dashed vertical lines: it moved to another cluster." if moves else ""
    return Section(title=title, text=text, figure=figure, key="client-accuracy")


def _draw_reasons(run: RunRecord, client: ClientId, name: str) -> list[Section]:
    """Return why a client changed its cluster, a row for each change; nothing if it never did."""
    changes = cluster_changes(run, client)
    if len(changes) < 2:  # the first is how it joined
        return []
    rows = [[str(one["round"]), str(one["why"])] for one in changes]
    text = f"All distances that decided: fielding show {run.folder.name} --client {client} --round ROUND."
    return [Section(title=f"Why {name} changed its cluster", text=text, table=[["round", ""], *rows], key="client-why")]
