"""How clients fare one by one: the spread of their accuracy, and the worst tenth."""

from collections.abc import Mapping

import numpy as np

from fielding._typing import Vector
from fielding.reporting.charts.curves import counted_runs, hide_long_legend, readings
from fielding.reporting.charts.figures import Figure, Line, add_shapes, change_layout, lines_figure, thin
from fielding.reporting.formatting import digits
from fielding.reporting.numbers.groups import Group, RunGroups
from fielding.reporting.numbers.run_metrics import final_fairness
from fielding.reporting.numbers.run_summary import final_evaluations
from fielding.reporting.page import Section, merge_views

MOST_POINTS = 400  # points of the curve of a group
_HEADS = ["", "worst tenth", "10 %", "25 %", "median", "75 %", "90 %", "best tenth", "clients"]
TITLE = "How single clients fare"


def draw_fairness(gathered: RunGroups) -> Section:
    """Return the accuracies of all clients at the last evaluation as a distribution, by what they make of models."""
    several = " of all seeds" if any(len(counted_runs(group)) > 1 for group in gathered.groups) else ""
    texts = {
        "": f"For each accuracy, the share of the clients{several} that have no more at the last evaluation. Further "
        "right is better; a steeper curve is more even. The shaded part is the worst tenth of these clients. The table "
        "tells the accuracy that 10 %, 25 %, ... of them stay below; its worst and best tenth are the final figures, "
        "as in all tables: of each run, as means over the final evaluations and over seeds.",
        "corrected": "The same clients and models, with scores shifted to the label mix of each client.",
        "tuned": "The same clients, each after a few training steps of its own.",
        "served": "The same clients, each served by its experts as it weighs them.",
    }
    views = {}
    for word, prefix in readings(gathered).items():
        how = prefix.removesuffix("_")
        pooled = {group.name: _pool_accuracies(group, how) for group in gathered.groups}
        accuracies = {name: accuracy for name, accuracy in pooled.items() if accuracy.size}
        views[word] = Section(title=TITLE, missing="No run has tests of single clients (clients.jsonl) yet.")
        if accuracies:
            groups = [group for group in gathered.groups if group.name in accuracies]
            rows = [[group.name, *_cells(accuracies[group.name], _final_tenths(group, how))] for group in groups]
            figure = _figure(accuracies, gathered.styles)
            views[word] = Section(
                title=TITLE, text=texts[how], figure=figure, table=[_HEADS, *rows], row_groups=list(accuracies)
            )
    return merge_views(TITLE, views)


def _pool_accuracies(group: Group, how: str) -> Vector:
    """Return the accuracy of each client that was tested, all seeds together, rising."""
    tests = [test for run in counted_runs(group) if (test := run.last_test()) is not None]
    parts = [test.accuracy(how) for test in tests if not how or how in test.otherwise]
    pooled = np.concatenate([np.zeros(0), *parts])
    return np.sort(pooled[~np.isnan(pooled)])


def _figure(accuracies: Mapping[str, Vector], styles: Mapping[str, int]) -> Figure:
    lines = []
    for name, accuracy in accuracies.items():
        x, y = cumulative_shares(accuracy)
        lines.append(Line(name=name, x=x, y=y, style=styles[name], is_main=styles[name] == 0, is_step=True, group=name))
    figure = lines_figure(lines, x_title="accuracy of a client", y_title="% of the clients")
    worst = {
        "type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": 0, "y1": 10, "layer": "below",
        "fillcolor": "rgba(213,94,0,0.13)", "line": {"width": 0},
    }  # fmt: skip
    note = {
        "text": "worst tenth", "xref": "paper", "x": 0.01, "xanchor": "left", "y": 10, "yanchor": "bottom",
        "showarrow": False, "font": {"size": 12},
    }  # fmt: skip
    lowest = min(float(accuracy[0]) for accuracy in accuracies.values())
    return change_layout(
        add_shapes(hide_long_legend(figure, len(lines)), [worst]),
        annotations=[note],
        hovermode="closest",
        xaxis={"hoverformat": ".3f", "range": [max(-0.01, lowest - 0.03 * (1.01 - lowest)), 1.01]},
        yaxis={"hoverformat": ".1f", "range": [0, 101]},
    )


def cumulative_shares(accuracy: Vector) -> tuple[Vector, Vector]:
    """Return accuracies and the percentage of clients that have no more, from the worst client to an accuracy of 1.

    Examples
    --------
    >>> x, y = cumulative_shares(np.array([0.5, 0.5, 0.75]))
    >>> x.tolist(), y.round(1).tolist()
    ([0.5, 0.5, 0.75, 1.0], [0.0, 66.7, 100.0, 100.0])
    """
    values, counts = np.unique(accuracy, return_counts=True)
    percent = np.asarray(100.0 * np.cumsum(counts) / max(1, counts.sum()))
    start, end = values[:1], np.ones(int(values.size > 0))
    x, y = np.concatenate([start, values, end]), np.concatenate([0 * start, percent, 100 * end])
    return thin(x, y, MOST_POINTS)


def _final_tenths(group: Group, how: str) -> tuple[float | None, float | None]:
    """Return the final accuracy of the worst and of the best tenth of the clients, as means over runs."""
    found = []
    for run in counted_runs(group):
        final = [int(str(row["round"])) for row in final_evaluations(run.rounds)]
        figures = final_fairness(run.tests(), final)
        names = [f"{name}_{how}" if how else name for name in ("worst_decile", "best_decile")]
        pair = [value for name in names if isinstance(value := figures.get(name), float)]
        found += [pair] if len(pair) == 2 else []
    if not found:
        return None, None
    worst, best = (sum(column) / len(found) for column in zip(*found, strict=True))
    return worst, best


def _cells(accuracy: Vector, tenths: tuple[float | None, float | None]) -> list[str]:
    quantiles = [float(np.quantile(accuracy, share)) for share in (0.1, 0.25, 0.5, 0.75, 0.9)]
    return [*map(digits, (tenths[0], *quantiles, tenths[1])), f"{accuracy.size:,}"]
