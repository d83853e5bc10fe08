"""How many clusters there are, and when all clients were grouped anew."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from fielding.reporting.charts.curves import reclusterings, with_arrivals
from fielding.reporting.charts.group_bars import amount
from fielding.reporting.charts.mean_curves import counted, curves_figure, group_lines, over_rounds, seeds_words
from fielding.reporting.figures import Line, as_text, packed
from fielding.reporting.gathering import Gathered, Group
from fielding.reporting.page import Section
from fielding.reporting.run_lines import column
from fielding.reporting.run_record import RunRecord

MOST_TICKS = 200
"""Marks of a figure; more would hide the lines."""
_HEADS = ["", "re-clusterings per run", "moves per run", "clusters, mean", "clusters, last round"]
_TITLE = "Number of clusters and re-clusterings"


def clusters(gathered: Gathered) -> Section:
    """Return the number of clusters over rounds, with a mark where a run grouped all clients anew."""
    clustered = {group.name: group for group in gathered.groups if group.is_clustered}
    found = group_lines(gathered, partial(over_rounds, name="n_clusters"), (0.0, np.inf))
    lines = [line for line in found if line.name in clustered]
    if not lines:
        return Section(title=_TITLE, missing="No run put clients into clusters so far.")
    figure = curves_figure(lines, x_title="round", y_title="clusters with members", places=1)
    ticks = [one for line in lines if (one := _ticks(line, counted(clustered[line.name])))]
    marks = " Triangles: all clients were grouped anew, in one run at least." if ticks else ""
    if sum(len(one["text"]) for one in ticks) <= MOST_TICKS:
        figure["data"] += ticks
    else:
        marks = " Rounds in which all clients were grouped anew are too many to be marked."
    return Section(
        title=_TITLE,
        text=f"Clusters that have members at the end of a round. {seeds_words(gathered)}{marks}",
        figure=with_arrivals(figure, [run for _, run in gathered.runs]),
        table=[_HEADS, *[_row(group) for group in clustered.values()]],
        row_groups=list(clustered),
    )


def _ticks(line: Line, runs: Sequence[RunRecord]) -> dict[str, Any]:
    """Return marks on a line in the rounds with a re-clustering; nothing without any."""
    times = Counter(at for run in runs for at in reclusterings(run))
    rounds = sorted(times)
    if not rounds:
        return {}
    heights = np.interp(rounds, np.asarray(line.x, dtype=np.float64), np.asarray(line.y, dtype=np.float64))
    return {
        "type": "scatter", "mode": "markers", "name": as_text(line.name), "legendgroup": as_text(line.name),
        "showlegend": False, "x": packed(rounds), "y": packed(heights), "meta": {"group": line.group},
        "marker": {"symbol": "triangle-down", "size": 12, "color": line.color},
        "text": [f"grouped anew in {times[at]} of {len(runs)} runs" for at in rounds], "hovertemplate": "%{text}",
    }  # fmt: skip


def _row(group: Group) -> list[str]:
    """Return figures of a group: re-clusterings and moves per run, clusters over all rounds and in the last."""
    runs = [run for run in counted(group) if run.rounds]
    if not runs:
        return [group.name, "-", "-", "-", "-"]
    numbers = [column(run.rounds, "n_clusters") for run in runs]
    known = np.concatenate(numbers)
    means = (
        sum(len(reclusterings(run)) for run in runs) / len(runs),
        sum(float(np.nansum(column(run.rounds, "n_moved"))) for run in runs) / len(runs),
        float(known[np.isfinite(known)].mean()) if np.isfinite(known).any() else np.nan,
        sum(float(one[-1]) for one in numbers) / len(runs),
    )
    return [group.name, *["-" if np.isnan(mean) else amount(mean) for mean in means]]
