"""The figures of the demo: curves that are means over seeds, with their intervals."""

from collections.abc import Mapping, Sequence
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
    lines = [_mean_line(name, one.rounds, one.accuracy, at) for at, (name, one) in enumerate(curves.items())]
    figure = lines_figure(lines, x_title="round", y_title="accuracy", from_zero=False)
    return marked(_without_start(figure, lines), events, color=ARRIVAL_COLOR)


def accuracy_over_time(curves: Mapping[str, Curves]) -> Any:
    """Return the same over simulated time, at moments that all runs have in common."""
    first = max(float(one.seconds[:, 0].max()) for one in curves.values())
    last = min(float(one.seconds[:, -1].min()) for one in curves.values())
    times = np.linspace(first, max(first, last), N_TIMES)
    unit = time_unit(last)
    lines = []
    for at, (name, one) in enumerate(curves.items()):
        pairs = zip(one.seconds, one.accuracy, strict=True)
        there = np.stack([np.interp(times, seconds, accuracy) for seconds, accuracy in pairs])
        lines.append(_mean_line(name, np.asarray(times / SECONDS[unit]), there, at))
    figure = lines_figure(lines, x_title=f"simulated {unit}", y_title="accuracy", from_zero=False)
    return _without_start(figure, lines)


def agreement(curves: Mapping[str, Curves]) -> Any:
    """Return how well clusters agree with the truth, mean over seeds."""
    lines = [_mean_line(name, one.rounds, one.ari, at) for at, (name, one) in enumerate(curves.items())]
    return lines_figure(lines, x_title="round", y_title="adjusted Rand index")


def _mean_line(name: str, x: Vector, values: Matrix, style: int) -> Line:
    mean, half_width = t_interval(values)
    band = None if np.isnan(half_width).any() else (mean - half_width, mean + half_width)
    return Line(name=name, x=x, y=mean, style=style, is_main=style == 0, band=band)


def _without_start(figure: Any, lines: Sequence[Line]) -> Any:
    """Return a figure whose axis fits what comes after the start, where all curves rise from nothing."""
    parts = [np.asarray(line.y, dtype=np.float64) for line in lines]
    late = np.concatenate([part[int(CUT_OFF * part.size) :] for part in parts])
    whole = np.concatenate(parts)
    return zoomed(figure, float(np.nanmin(late)) - 2 * MARGIN, min(1.0, float(np.nanmax(whole)) + MARGIN))
