"""The figures of a run, from its record; however long it was, they stay small enough to open."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fielding._typing import Vector
from fielding.reporting.figures import ARRIVAL_COLOR, Line, bars_figure, lines_figure, marked, stack_figure
from fielding.reporting.run_record import Row, RunRecord, Sizes, column
from fielding.reporting.run_summary import evaluations
from fielding.reporting.thinning import MOST_POINTS, binned, thinned
from fielding.reporting.words import SECONDS, time_unit

MOST_CLUSTERS = 9
"""Clusters with a colour of their own; the smaller ones share one."""
MOST_ARRIVALS = 60
"""Arrivals of data that are marked; more would be a gray wall."""
_CURVES = (
    ("mean over clients", "accuracy", 0),
    ("worst tenth of the clients", "worst_decile", 1),
    ("on the interval to come", "prequential_accuracy", 2),
    ("mean, corrected", "corrected_accuracy", 3),
    ("mean, tuned", "tuned_accuracy", 4),
)


def accuracy_figure(record: RunRecord) -> Any:
    """Return accuracy over rounds; arrivals of data and re-clusterings are marked."""
    rounds = column(evaluations(record.rounds), "round")
    figure = lines_figure(
        _curves(record, rounds), x_title="round", y_title="accuracy", events=reclusterings(record), from_zero=False
    )
    return with_arrivals(figure, record.arrivals)


def timed_figure(record: RunRecord) -> Any:
    """Return accuracy over simulated time."""
    seconds = column(evaluations(record.rounds), "time_s")
    unit = time_unit(float(seconds[-1]))
    lines = _curves(record, np.asarray(seconds / SECONDS[unit]))
    return lines_figure(lines, x_title=f"simulated {unit}", y_title="accuracy", from_zero=False)


def losses_figure(record: RunRecord) -> Any:
    """Return the loss in training and in testing over rounds."""
    tested = evaluations(record.rounds)
    lines = [
        _line("training", (column(record.rounds, "round"), column(record.rounds, "train_loss")), style=6),
        _line("test", (column(tested, "round"), column(tested, "test_loss")), is_main=True),
    ]
    return lines_figure(lines, x_title="round", y_title="loss")


def sizes_figure(record: RunRecord) -> Any:
    """Return the clients of each cluster up to the end of the last round, as a stack; the smallest share a layer."""
    n_rounds = len(record.rounds)
    steps: list[Sizes] = list(record.sizes)
    if len(steps) > MOST_POINTS:
        steps = [steps[at] for at in np.linspace(0, len(steps) - 1, MOST_POINTS).astype(np.int64).tolist()]
    steps += [(n_rounds, sizes) for _, sizes in steps[-1:]]
    rounds = [at for at, _ in steps]
    shown = largest_clusters(record.sizes, n_rounds - 1)
    layers = [
        Line(name=f"cluster {cluster}", x=rounds, y=[sizes.get(cluster, 0) for _, sizes in steps], style=at)
        for at, cluster in enumerate(shown)
    ]
    rest = [sum(size for cluster, size in sizes.items() if cluster not in shown) for _, sizes in steps]
    if any(rest):
        layers.append(Line(name="all others", x=rounds, y=rest, style=MOST_CLUSTERS))
    return stack_figure(layers, x_title="round", y_title="clients", events=reclusterings(record))


def largest_clusters(steps: Sequence[Sizes], last: int) -> list[int]:
    """Return the ids of the clusters that held the most clients over the rounds up to the last, in order of their ids.

    Examples
    --------
    >>> largest_clusters([(0, {0: 5, 1: 1}), (8, {0: 2, 1: 1, 2: 3})], last=9)
    [0, 1, 2]
    """
    weight: dict[int, int] = {}
    ends = [at for at, _ in steps[1:]] + [last + 1]
    for (start, sizes), end in zip(steps, ends, strict=False):
        for cluster, size in sizes.items():
            weight[cluster] = weight.get(cluster, 0) + size * (end - start)
    return sorted(sorted(weight, key=lambda cluster: (-weight[cluster], cluster))[:MOST_CLUSTERS])


def traffic_figure(record: RunRecord) -> Any:
    """Return how many clients reported and moved per round, or per some rounds where there are many."""
    bars, width = [], 1
    for name, key, style in (("reported", "n_reports", 4), ("moved", "n_moved", 1)):
        starts, sums, width = binned(column(record.rounds, key))
        bars.append(Line(name=name, x=starts, y=sums, style=style))
    return bars_figure(bars, x_title="round", y_title="clients" if width == 1 else f"clients in {width} rounds")


def agreement_figure(record: RunRecord) -> Any:
    """Return how well clusters agree with the true groups over rounds."""
    tested = evaluations(record.rounds)
    line = _line("adjusted Rand index", (column(tested, "round"), column(tested, "ari")), is_main=True)
    figure = lines_figure([line], x_title="round", y_title="adjusted Rand index", events=reclusterings(record))
    return with_arrivals(figure, record.arrivals)


def clients_figure(groups: Sequence[tuple[str, Vector]]) -> Any:
    """Return the share of clients whose accuracy is at most so high, a curve for each group of clients."""
    lines = []
    for at, (name, accuracy) in enumerate(groups):
        values, counts = np.unique(accuracy[~np.isnan(accuracy)], return_counts=True)
        shares = np.asarray(100.0 * np.cumsum(counts) / max(1, counts.sum()))
        start = values[:1]  # the curve rises from zero where the worst client is
        x, y = thinned(np.concatenate([start, values]), np.concatenate([np.zeros(start.size), shares]))
        lines.append(Line(name=name, x=x, y=y, style=at, is_main=at == 0, is_step=True))
    return lines_figure(lines, x_title="accuracy of a client", y_title="% of the clients")


def reclusterings(record: RunRecord) -> list[float]:
    """Return the rounds in which all clients were grouped anew."""
    return [float(str(row["round"])) for row in record.rounds if row.get("reclustered")]


def shown_events(events: Sequence[Row]) -> list[Row]:
    """Return the events to draw: all, or of very many the re-clusterings and some of the others, evenly spread."""
    if len(events) <= MOST_POINTS:
        return list(events)
    every = -(-len(events) // (MOST_POINTS // 2))
    every_fired = max(1, -(-sum(bool(event["fired"]) for event in events) // (MOST_POINTS // 2)))
    n_fired, shown = 0, []
    for at, event in enumerate(events):
        n_fired += bool(event["fired"])
        if at % every == 0 or (event["fired"] and n_fired % every_fired == 0):
            shown.append(event)
    return shown


def with_arrivals(figure: Any, rounds: Sequence[float]) -> Any:
    """Return a figure with faint marks where data arrived, unless there are too many."""
    return marked(figure, rounds, color=ARRIVAL_COLOR) if len(rounds) <= MOST_ARRIVALS else figure


def _curves(record: RunRecord, x: Vector) -> list[Line]:
    """Return the curves of accuracy that the run has."""
    tested = evaluations(record.rounds)
    found = [(name, column(tested, key), style) for name, key, style in _CURVES]
    return [_line(name, (x, y), style=style, is_main=style == 0) for name, y, style in found if not np.isnan(y).all()]


def _line(name: str, points: tuple[Vector, Vector], *, style: int = 0, is_main: bool = False) -> Line:
    x, y = thinned(*points)
    return Line(name=name, x=x, y=y, style=style, is_main=is_main)
