"""Accuracy over rounds and over simulated time."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from fielding._typing import Vector
from fielding.reporting.charts.mean_curves import (
    NOT_EVALUATED,
    Curves,
    counted,
    curves_figure,
    final_accuracy,
    group_lines,
    level,
    mean_line,
    over_rounds,
    over_time,
    seeds_words,
)
from fielding.reporting.figures import ARRIVAL_COLOR, Figure, Line, marked, with_layout, zoomed
from fielding.reporting.gathering import Gathered
from fielding.reporting.page import Section
from fielding.reporting.run_record import RunRecord
from fielding.reporting.words import SECONDS, time_unit

QUANTITIES = (
    ("mean over clients", "accuracy"),
    ("worst tenth of the clients", "worst_decile"),
    ("on the interval to come", "prequential_accuracy"),
    ("mean, corrected", "corrected_accuracy"),
    ("mean, tuned", "tuned_accuracy"),
)
"""What a report on one group shows, with names of ``rounds.jsonl``."""
MOST_ARRIVALS = 60
"""Arrivals of data that are marked; more would be a gray wall."""
CUT_OFF = 0.1
"""Share of a curve, at the start, that the vertical axis need not show."""
CUT_WORDS = "The start is cut off; a double click shows it."
_MARGIN = 0.12
_LEAST_MARGIN = 0.01


def curves(gathered: Gathered) -> list[Section]:
    """Return accuracy over rounds and over time, then, of clients that correct their models, the corrected one."""
    if len(gathered.groups) == 1:
        return _alone(gathered)
    sections = _compared(gathered, "accuracy", "Accuracy")
    has_corrected = any(over_rounds(counted(group), "corrected_accuracy") for group in gathered.groups)
    return [*sections, *(_compared(gathered, "corrected_accuracy", "Corrected accuracy") if has_corrected else ())]


def target(gathered: Gathered) -> tuple[str, float] | None:
    """Return whose final accuracy is the one to reach, and how high it is as a mean over seeds.

    None where groups are to reach different ones, and where nobody's is known.
    """
    names = set(gathered.targets.values())
    group = gathered.group(names.pop()) if len(names) == 1 else None
    if group is None or len(gathered.groups) < 2:
        return None
    finals = [final for run in counted(group) if (final := final_accuracy(run)) is not None]
    return (group.name, sum(finals) / len(finals)) if finals else None


def with_arrivals(figure: Figure, runs: Sequence[RunRecord]) -> Figure:
    """Return a figure over rounds with faint marks where samples arrived in the longest run, unless they are many."""
    rounds = max((run.arrivals for run in runs), key=len, default=[])
    return marked(figure, rounds, color=ARRIVAL_COLOR) if len(rounds) <= MOST_ARRIVALS else figure


def reclusterings(run: RunRecord, axis: str = "round") -> list[float]:
    """Return the rounds, or with ``time_s`` the seconds, in which all clients were grouped anew."""
    return [float(str(row[axis])) for row in run.rounds if row.get("reclustered")]


def _compared(gathered: Gathered, name: str, title: str) -> list[Section]:
    rounds = group_lines(gathered, partial(over_rounds, name=name), (0.0, 1.0))
    runs = [run for _, run in gathered.runs]
    titles = f"{title} over rounds", f"{title} over {_time(runs)}"
    if not rounds:
        return [Section(title=one, missing=NOT_EVALUATED) for one in titles]
    over = curves_figure(rounds, x_title="round", y_title=title.lower(), from_zero=False)
    seconds = group_lines(gathered, partial(over_time, name=name), (0.0, 1.0))
    timed, unit = _timed(seconds, title.lower(), runs)
    goal = target(gathered) if name == "accuracy" else None
    words = f" Dotted: the target, the final accuracy of {goal[0]}." if goal else ""
    return [
        Section(
            title=titles[0],
            text=f"{_WHAT[name]} {seeds_words(gathered)}{_arrival_words(runs)}{words} {CUT_WORDS}",
            figure=with_arrivals(_with_target(over, rounds, goal), runs),
        ),
        Section(
            title=titles[1],
            text=f"The same over the {_clock_words(unit, runs)}, up to the end of the shortest run of each group."
            f"{words} {CUT_WORDS}",
            figure=_with_target(timed, seconds, goal),
        ),
    ]


_WHAT = {
    "accuracy": "How often models are right on clients' test samples, as the mean over clients.",
    "corrected_accuracy": "The same models, with scores shifted to the label mix of each client.",
}


def _alone(gathered: Gathered) -> list[Section]:
    """Return the curves of a single group: mean, worst tenth, and how clients fare that correct or tune."""
    runs = counted(gathered.groups[0])
    rounds, seconds = _quantity_lines(runs, over_rounds), _quantity_lines(runs, over_time)
    titles = "Accuracy over rounds", f"Accuracy over {_time(runs)}"
    if not rounds:
        return [Section(title=one, missing=NOT_EVALUATED) for one in titles]
    figure = with_arrivals(curves_figure(rounds, x_title="round", y_title="accuracy", from_zero=False), runs)
    timed, unit = _timed(seconds, "accuracy", runs)
    grouped = ""
    if len(runs) == 1 and (at := reclusterings(runs[0])):
        figure = marked(figure, at)
        timed = marked(timed, [one / SECONDS[unit] for one in reclusterings(runs[0], "time_s")])
        grouped = " Orange: all clients were grouped anew."
    many = f" {seeds_words(gathered)}" if len(runs) > 1 else ""
    return [
        Section(
            title=titles[0],
            text=f"How often models are right on clients' test samples.{many}{_arrival_words(runs)}{grouped}",
            figure=figure,
        ),
        Section(
            title=titles[1],
            text=f"The same over the {_clock_words(unit, runs)}.{grouped}",
            figure=timed,
        ),
    ]


def _quantity_lines(runs: Sequence[RunRecord], read: Callable[[Sequence[RunRecord], str], Curves | None]) -> list[Line]:
    found = [(words, style, read(runs, name)) for style, (words, name) in enumerate(QUANTITIES)]
    return [mean_line(one, words, style=style) for words, style, one in found if one is not None]


def _time(runs: Sequence[RunRecord]) -> str:
    """Return what the time of runs is called: measured on real devices, or simulated."""
    return "time" if runs and all(run.is_deployed for run in runs) else "simulated time"


def _clock_words(unit: str, runs: Sequence[RunRecord]) -> str:
    measured = f"{unit} it took, without those in which a run was stopped"
    return measured if _time(runs) == "time" else f"{unit} it would have taken on the clients' devices and networks"


def _timed(lines: Sequence[Line], y_title: str, runs: Sequence[RunRecord]) -> tuple[Figure, str]:
    """Return lines over seconds as a figure in a unit that suits them, and the unit."""
    unit = time_unit(max((float(np.max(_numbers(line.x))) for line in lines), default=0.0))
    x_title = _time(runs).replace("time", unit)
    figure = curves_figure(
        [_scaled(line, SECONDS[unit]) for line in lines], x_title=x_title, y_title=y_title, from_zero=False
    )
    return with_layout(figure, xaxis={"hoverformat": ".2f"}), unit


def _scaled(line: Line, length: float) -> Line:
    return Line(
        name=line.name, x=_numbers(line.x) / length, y=line.y, style=line.style, is_main=line.is_main, band=line.band,
        group=line.group,
    )  # fmt: skip


def _with_target(figure: Figure, lines: Sequence[Line], goal: tuple[str, float] | None) -> Figure:
    if goal is None:
        return fitted(figure, lines)
    return level(fitted(figure, lines, goal[1]), goal[1], f"target {goal[1]:.3f}")


def fitted(figure: Figure, lines: Sequence[Line], height: float = np.nan) -> Figure:
    """Return a figure whose axis shows a height and all lines after their start, where they rise or fall steeply."""
    late = [_numbers(line.y)[int(CUT_OFF * len(line.y)) :] for line in lines]
    bands = [line.band for line in lines if line.band is not None]
    # Of bands three quarters: with few seeds they may be very wide in places.
    lows = [np.quantile(low[int(CUT_OFF * low.size) :], 0.25) for low, _ in bands]
    highs = [np.quantile(high[int(CUT_OFF * high.size) :], 0.75) for _, high in bands]
    shown = np.concatenate([*late, lows, highs, [height]])
    low, high = float(np.nanmin(shown)), float(np.nanmax(shown))
    margin = max(_LEAST_MARGIN, _MARGIN * (high - low))
    return zoomed(figure, low - margin, high + margin)


def _arrival_words(runs: Sequence[RunRecord]) -> str:
    n_arrivals = max((len(run.arrivals) for run in runs), default=0)
    return " Gray: new samples arrive." if 0 < n_arrivals <= MOST_ARRIVALS else ""


def _numbers(values: object) -> Vector:
    return np.asarray(values, dtype=np.float64)
