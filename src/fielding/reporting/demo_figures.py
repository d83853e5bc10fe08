"""The figures of the demo: curves that are means over seeds, with their intervals."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fielding._typing import Matrix, Vector
from fielding.records.logs import read_lines
from fielding.records.run_folder import ROUNDS
from fielding.reporting.figures import ARRIVAL_COLOR, Line, lines_figure, marked, zoomed
from fielding.reporting.paired import t_interval
from fielding.reporting.run_record import column
from fielding.reporting.run_summary import evaluations
from fielding.reporting.words import SECONDS, time_unit

N_TIMES = 120
"""Moments at which runs of different speed are compared."""
CUT_OFF = 0.1
"""Share of the evaluations, at the start, that the vertical axis need not show."""
MARGIN = 0.01


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curves:
    """What the evaluations of one method gave on all seeds.

    Parameters
    ----------
    rounds
        When they were made, shape ``(n_evaluations,)``.
    seconds, accuracy, ari
        Simulated time, mean accuracy over clients and agreement with the truth; shape ``(n_seeds, n_evaluations)``.
    """

    rounds: Vector
    seconds: Matrix
    accuracy: Matrix
    ari: Matrix


def read_curves(folders: Sequence[Path]) -> Curves:
    """Return the curves of the runs of one method, all of the same config but for the seed."""
    tested = [evaluations(list(read_lines(folder / ROUNDS))) for folder in folders]
    seconds, accuracy, ari = (
        np.stack([column(rows, name) for rows in tested]) for name in ("time_s", "accuracy", "ari")
    )
    return Curves(rounds=column(tested[0], "round"), seconds=seconds, accuracy=accuracy, ari=ari)


def accuracy_over_rounds(curves: Mapping[str, Curves], events: Sequence[float]) -> Any:
    """Return the mean accuracy of each method with its interval; marks where clients move."""
    lines = _mean_lines({name: (one.rounds, one.accuracy) for name, one in curves.items()})
    figure = lines_figure(lines, x_title="round", y_title="accuracy", from_zero=False)
    return marked(_without_start(figure, lines), events, color=ARRIVAL_COLOR)


def accuracy_over_time(curves: Mapping[str, Curves]) -> Any:
    """Return the same over simulated time, at moments that all runs have in common."""
    first = max(float(one.seconds[:, 0].max()) for one in curves.values())
    last = min(float(one.seconds[:, -1].min()) for one in curves.values())
    times = np.linspace(first, max(first, last), N_TIMES)
    unit = time_unit(last)
    there = {
        name: np.stack([np.interp(times, *run) for run in zip(one.seconds, one.accuracy, strict=True)])
        for name, one in curves.items()
    }
    lines = _mean_lines({name: (times / SECONDS[unit], values) for name, values in there.items()})
    figure = lines_figure(lines, x_title=f"simulated {unit}", y_title="accuracy", from_zero=False)
    return _without_start(figure, lines)


def agreement(curves: Mapping[str, Curves], clustered: Collection[str]) -> Any:
    """Return how well the clusters of those that have some agree with the truth; colors are those of all methods."""
    lines = _mean_lines({name: (one.rounds, one.ari) for name, one in curves.items()})
    shown = [line for line in lines if line.name in clustered]
    return lines_figure(shown, x_title="round", y_title="adjusted Rand index")


def same_curves(curves: Mapping[str, Curves]) -> list[list[str]]:
    """Return the methods that gave the same accuracy in every evaluation on every seed, in groups of two or more.

    Examples
    --------
    >>> def curve(accuracy):
    ...     row = np.array([accuracy])
    ...     return Curves(rounds=np.arange(2.0), seconds=row, accuracy=row, ari=row)
    >>> same_curves({"a": curve([0.5, 0.7]), "b": curve([0.5, 0.6]), "c": curve([0.5, 0.7])})
    [['a', 'c']]
    """
    groups: dict[bytes, list[str]] = {}
    for name, one in curves.items():
        groups.setdefault(one.accuracy.tobytes(), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def _mean_lines(points: Mapping[str, tuple[Vector, Matrix]]) -> list[Line]:
    """Return a curve for each method; one that lies upon another has no band, whose colors would only mix."""
    lines: list[Line] = []
    drawn: set[bytes] = set()
    for at, (name, (x, values)) in enumerate(points.items()):
        mean, half_width = t_interval(values)
        is_bare = values.tobytes() in drawn or np.isnan(half_width).any()
        band = None if is_bare else (mean - half_width, mean + half_width)
        lines.append(Line(name=name, x=x, y=mean, style=at, is_main=at == 0, band=band))
        drawn.add(values.tobytes())
    return lines


def _without_start(figure: Any, lines: Sequence[Line]) -> Any:
    """Return a figure whose axis fits what comes after the start, where all curves rise from nothing."""
    parts = [np.asarray(line.y, dtype=np.float64) for line in lines]
    late = np.concatenate([part[int(CUT_OFF * part.size) :] for part in parts])
    whole = np.concatenate(parts)
    return zoomed(figure, float(np.nanmin(late)) - 2 * MARGIN, min(1.0, float(np.nanmax(whole)) + MARGIN))
