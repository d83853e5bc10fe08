"""Accuracy over rounds and over simulated time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

import numpy as np

from fielding._typing import Matrix, Vector
from fielding.reporting.charts.figures import (
    ARRIVAL_COLOR,
    GRAY,
    Figure,
    Line,
    as_text,
    lines_figure,
    marked,
    shade,
    with_layout,
    with_shapes,
    zoomed,
)
from fielding.reporting.charts.thinning import thinned
from fielding.reporting.numbers.groups import Gathered, Group, are_alike
from fielding.reporting.numbers.paired import t_interval
from fielding.reporting.numbers.run_record import RunRecord, column
from fielding.reporting.numbers.run_summary import final_mean
from fielding.reporting.numbers.targets import BASELINE
from fielding.reporting.page import Section
from fielding.reporting.words import SECONDS, counterpart_words, time_unit

MOST_POINTS = 240
"""Points of a curve with a band; a figure is hardly wider in pixels that can be told apart."""
MANY_GROUPS = 8
"""With more groups a legend would be larger than the figure; the switches of the page tell colours too."""
_FEWEST_POINTS = 100
_SEVERAL_BANDS = 3
"""With more bands each is fainter, lest they hide the lines."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curves:
    """A quantity of several runs at common places.

    Parameters
    ----------
    x
        Rounds or seconds, rising, shape ``(n_points,)``.
    values
        Of each run, NaN where it has none, shape ``(n_runs, n_points)``; each point has one at least.
    """

    x: Vector
    values: Matrix


Reading = Callable[[Sequence[RunRecord]], Curves | None]
"""Reads a quantity of some runs; None if none of them has it."""


def counted(group: Group) -> tuple[RunRecord, ...]:
    """Return the runs of a group that means are over: the finished ones; all of them as long as none is."""
    return group.finished or group.runs


def final_accuracy(run: RunRecord) -> float | None:
    """Return the final accuracy of a run; None if there is none, or none that is a number."""
    final = final_mean(run.rounds)
    return final if final is not None and np.isfinite(final) else None


def over_rounds(runs: Sequence[RunRecord], name: str) -> Curves | None:
    """Return a figure of ``rounds.jsonl`` over the rounds in which any of the runs has it; None if none has."""
    return joined([points(run, name) for run in runs])


def over_time(runs: Sequence[RunRecord], name: str, n_points: int = MOST_POINTS) -> Curves | None:
    """Return a figure of ``rounds.jsonl`` over simulated seconds, None if no run has it.

    A value holds until the next one; moments go from when all runs have a value to the end of the shortest run.
    """
    tracks = [track for track in (points(run, name, "time_s") for run in runs) if track[0].size]
    if not tracks:
        return None
    first, last = max(float(x[0]) for x, _ in tracks), min(float(x[-1]) for x, _ in tracks)
    x = np.linspace(first, last, n_points) if last > first else np.array([first])
    # A run that ended before another began to be tested has its last value there.
    held = [values[np.maximum(np.searchsorted(at, x, side="right") - 1, 0)] for at, values in tracks]
    return Curves(x=x, values=np.stack(held))


def points(run: RunRecord, name: str, axis: str = "round") -> tuple[Vector, Vector]:
    """Return where a run has a figure, and what it is; rounds without it are left out."""
    x, values = column(run.rounds, axis), column(run.rounds, name)
    is_known = np.isfinite(x) & np.isfinite(values)
    order = np.argsort(x[is_known], kind="stable")
    return x[is_known][order], values[is_known][order]


def joined(tracks: Sequence[tuple[Vector, Vector]]) -> Curves | None:
    """Return curves at the places of any of them; None if there is no place.

    Examples
    --------
    >>> both = joined([(np.array([0.0, 5.0]), np.array([0.1, 0.2])), (np.array([5.0]), np.array([0.4]))])
    >>> both.x.tolist(), both.values.tolist()
    ([0.0, 5.0], [[0.1, 0.2], [nan, 0.4]])
    """
    known = [track for track in tracks if track[0].size]
    if not known:
        return None
    x = np.unique(np.concatenate([at for at, _ in known]))
    values = np.full((len(known), x.size), np.nan)
    for row, (at, mine) in zip(values, known, strict=True):
        row[np.searchsorted(x, at)] = mine
    return Curves(x=x, values=values)


def mean_and_half_width(values: Matrix) -> tuple[Vector, Vector]:
    """Return mean and half width of the 95 % t-interval over the runs that have a value; NaN where one has.

    Examples
    --------
    >>> mean, half_width = mean_and_half_width(np.array([[0.0, 1.0], [2.0, np.nan]]))
    >>> mean.tolist(), half_width.round(3).tolist()
    ([1.0, 1.0], [12.706, nan])
    """
    mean, half_width = np.full(values.shape[1], np.nan), np.full(values.shape[1], np.nan)
    patterns, which = np.unique(~np.isnan(values), axis=1, return_inverse=True)
    for at, has_value in enumerate(patterns.T):
        places = np.ravel(which) == at
        if has_value.any():
            mean[places], half_width[places] = t_interval(values[has_value][:, places])
    return mean, half_width


def mean_line(curves: Curves, name: str, *, style: int, most: int = MOST_POINTS, group: str | None = None) -> Line:
    """Return the mean over runs as a line, with a band if there are several runs."""
    mean, half_width = mean_and_half_width(curves.values)
    kept = thinned(np.arange(mean.size, dtype=np.float64), mean, most)[0].astype(np.int64)
    x, mean, half_width = curves.x[kept], mean[kept], half_width[kept]
    margin = np.nan_to_num(half_width, nan=0.0)  # where one run is left, the band ends in its line
    band = None if np.isnan(half_width).all() else (mean - margin, mean + margin)
    return Line(name=name, x=x, y=mean, style=style, is_main=style == 0, band=band, group=group)


def group_lines(gathered: Gathered, read: Reading, bounds: tuple[float, float]) -> list[Line]:
    """Return a line with a band for each group that has the quantity; bands end where no value can be."""
    most = max(_FEWEST_POINTS, min(MOST_POINTS, 10 * MOST_POINTS // max(1, len(gathered.groups))))
    found = [(group, read(counted(group))) for group in gathered.groups]
    styles = gathered.styles
    lines = [
        mean_line(curves, group.name, style=styles[group.name], most=most, group=group.name)
        for group, curves in found
        if curves is not None
    ]
    return legible([_bounded(line, *bounds) for line in lines])


def _bounded(line: Line, low: float, high: float) -> Line:
    if line.band is None:
        return line
    lower, upper = (np.clip(end, low, high) for end in line.band)
    return replace(line, band=(lower, upper))


def legible(lines: Sequence[Line]) -> list[Line]:
    """Return lines without their bands if there are many: bands upon bands are mud."""
    return [replace(line, band=None) for line in lines] if len(lines) > MANY_GROUPS else list(lines)


def curves_figure(
    lines: Sequence[Line], *, x_title: str, y_title: str, from_zero: bool = True, places: int = 3
) -> Figure:
    """Return lines over a common axis; with very many of them without a legend; hovering shows few digits."""
    figure = lines_figure(lines, x_title=x_title, y_title=y_title, from_zero=from_zero)
    bands = [trace for trace in figure["data"] if trace.get("fill")]
    for trace, line in zip(bands, [line for line in lines if line.band is not None], strict=True):
        if len(bands) > _SEVERAL_BANDS:
            trace["fillcolor"] = shade(line.color, 0.08)
    return quiet(with_layout(figure, yaxis={"hoverformat": f".{places}f"}), len(lines))


def quiet(figure: Figure, n_lines: int) -> Figure:
    """Return a figure without a legend, and with small boxes under the pointer, if it has many lines."""
    if n_lines <= MANY_GROUPS:
        return with_layout(figure, showlegend=n_lines > 1)
    return with_layout(figure, showlegend=False, hovermode="closest")


def level(figure: Figure, height: float, words: str = "") -> Figure:
    """Return a figure with a dotted horizontal line across it, with words at its left end."""
    line: dict[str, Any] = {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": height, "y1": height, "layer": "below",
        "line": {"color": "rgba(128,128,128,0.9)", "width": 1.5, "dash": "dot"},
    }  # fmt: skip
    drawn = with_shapes(figure, [line])
    if not words:
        return drawn
    note: Mapping[str, Any] = {
        "text": as_text(words), "xref": "paper", "x": 0.01, "xanchor": "left", "y": height, "yanchor": "bottom",
        "showarrow": False, "font": {"size": 12},
    }  # fmt: skip
    return with_layout(drawn, annotations=[*drawn["layout"].get("annotations", ()), note])


def seeds_words(gathered: Gathered) -> str:
    """Return what a line of a group is, for the text above a figure.

    Examples
    --------
    >>> seeds_words(Gathered(title="", groups=(), reference=None))
    'A line is one run.'
    """
    most = max((len(counted(group)) for group in gathered.groups), default=0)
    if most < 2:
        return "A line is one run."
    is_mixed = any(group.finished and len(group.finished) < len(group.runs) for group in gathered.groups)
    more = " Runs that are not finished count only in groups where none is." if is_mixed else ""
    if len(gathered.groups) > MANY_GROUPS:
        return f"Lines are means over seeds; their intervals are left out, since there are many groups.{more}"
    return f"Lines are means over seeds, bands 95 % t-intervals.{more}"


NOT_EVALUATED = "No run has been evaluated yet."


PAPER_PAIRS = (
    ("fielding", "always", "what it is worth to group everyone anew only when needed, not at every report"),
    ("always", "selected", "what it is worth to hear of drift from all clients, not only from those that train"),
)
"""Groups whose difference the paper draws, and what it tells."""


def differences(gathered: Gathered) -> list[Section]:
    """Return the difference of each group to the reference, then the paper's two; nothing for one group only."""
    if gathered.reference is None or len(gathered.groups) < 2:
        return []
    return [_to_reference(gathered), *_of_paper(gathered, gathered.reference)]


def paired_curves(group: Group, other: Group, name: str = "accuracy") -> Curves | None:
    """Return group minus other over the rounds that both have, a row for each seed of both; None without any."""
    theirs = {run.seed: points(run, name) for run in counted(other)}
    tracks = []
    for run in counted(group):
        if run.seed not in theirs:
            continue
        at, mine = points(run, name)
        before = dict(zip(*(part.tolist() for part in theirs[run.seed]), strict=True))
        both = [place for place, x in enumerate(at.tolist()) if x in before]
        tracks.append((at[both], mine[both] - [before[x] for x in at[both].tolist()]))
    return joined(tracks)


def _to_reference(gathered: Gathered) -> Section:
    held_against = {group.name: gathered.references[group.name] for group in gathered.groups}
    names = list(dict.fromkeys(name for name in held_against.values() if name is not None))
    title, whose = f"Accuracy against {names[0] if len(names) == 1 else 'the reference'}", counterpart_words(names)
    if not any(gathered.group(name) for name in names):
        return Section(title=title, missing=f"There is no run of {whose}, which others are held against.")
    lines = []
    for group in gathered.groups:
        other = gathered.group(held_against[group.name])
        found = None if other is None or other is group else paired_curves(group, other)
        if found is not None:
            lines.append(mean_line(found, group.name, style=gathered.styles[group.name], group=group.name))
    if not lines:
        why = f"No other group was evaluated on the data, on a seed and in a round that {whose} was."
        return Section(title=title, missing=why)
    lines = legible(lines)
    return _section(gathered, title, lines, f"Accuracy minus that of {whose} on the same seed and round")


def _of_paper(gathered: Gathered, reference: str) -> list[Section]:
    sections = []
    for name, other, meaning in PAPER_PAIRS:
        ours, theirs = gathered.group(name), gathered.group(other)
        # With two groups the figure above shows the same.
        if (
            ours is None
            or theirs is None
            or not are_alike(gathered.terms, name, other)
            or (other == reference and len(gathered.groups) == 2)
        ):
            continue
        found = paired_curves(ours, theirs)
        if found is not None:
            line = mean_line(found, f"{name} - {other}", style=gathered.styles[name], group=name)
            title = f"Accuracy of {name} minus {other}"
            sections.append(_section(gathered, title, [line], f"Difference on the same seed and round: {meaning}"))
    return sections


def _section(gathered: Gathered, title: str, lines: list[Line], what: str) -> Section:
    most = max(len(counted(group)) for group in gathered.groups)
    words = seeds_words(gathered) if most > 1 else "There is one seed: nobody knows how another would come out."
    if any(line.band is not None for line in lines):
        words += " Where a band holds zero, seeds do not tell who is better."
    figure = curves_figure(lines, x_title="round", y_title="difference in accuracy", from_zero=False)
    figure = with_layout(fitted(figure, lines), yaxis={"zeroline": False, "hoverformat": "+.3f"})
    return Section(
        title=title,
        text=f"{what}. Above zero: better. {words} {CUT_WORDS}",
        figure=with_arrivals(level(figure, 0.0), [run for _, run in gathered.runs]),
    )


_KINDS = (
    ("Loss in training", "train_loss", "Mean over the clients that trained in a round, on their own samples."),
    ("Loss in testing", "test_loss", "Mean over clients, on samples that models were not trained with."),
)


def losses(gathered: Gathered) -> list[Section]:
    """Return both losses over rounds: one figure for a single group, else one each."""
    if len(gathered.groups) == 1:
        return [_alone_losses(gathered)]
    return [_compared_losses(gathered, title, name, text) for title, name, text in _KINDS]


def _alone_losses(gathered: Gathered) -> Section:
    runs = counted(gathered.groups[0])
    found = [("training", over_rounds(runs, "train_loss"), GRAY), ("test", over_rounds(runs, "test_loss"), 0)]
    lines = [mean_line(one, words, style=style) for words, one, style in found if one is not None]
    if not lines:
        return Section(title="Loss", missing="No client has trained or been tested yet.")
    return Section(
        title="Loss in training and in testing",
        text="Cross-entropy per sample: in training a mean over the clients that trained in a round, in testing over "
        "all clients, on samples that models were not trained with. Lower is better.",
        figure=curves_figure(lines, x_title="round", y_title="loss per sample"),
    )


def _compared_losses(gathered: Gathered, title: str, name: str, text: str) -> Section:
    lines = group_lines(gathered, partial(over_rounds, name=name), (0.0, inf))
    if not lines:
        why = "No client has trained yet." if name == "train_loss" else NOT_EVALUATED
        return Section(title=title, missing=why)
    return Section(
        title=title,
        text=f"{text} Lower is better. {seeds_words(gathered)}",
        figure=curves_figure(lines, x_title="round", y_title="loss per sample"),
    )


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


_TITLE = "How different clients of the same cluster are"


def heterogeneity(gathered: Gathered) -> Section:
    """Return the mean distance within clusters over rounds, and what it would be with all clients in one."""
    lines = group_lines(gathered, partial(over_rounds, name="measured_heterogeneity"), (0.0, 2.0))
    if not lines:
        return Section(
            title=_TITLE,
            missing="No evaluation measured it: runs of older versions of Fielding did not, nor has a run that was not "
            "evaluated yet.",
        )
    unclustered = _unclustered(gathered)
    if unclustered is not None:
        lines.append(mean_line(unclustered, "no clustering", style=GRAY))
        against = "Gray: the same if all clients were in one cluster, which clustering has to beat."
    elif any(line.name == BASELINE for line in lines):
        against = f"{BASELINE} has all clients in one cluster: that is what clustering has to beat."
    else:
        against = "What it would be without clusters was not measured in these runs."
    figure = curves_figure(lines, x_title="round", y_title="mean L1 distance (0 to 2)")
    return Section(
        title=_TITLE,
        text="Mean L1 distance between the true label shares of two clients of the same cluster: 0 if all have the "
        f"same mix of labels, 2 if they share no label. Lower is better. {against} {seeds_words(gathered)}",
        figure=with_arrivals(figure, [run for _, run in gathered.runs]),
    )


def _unclustered(gathered: Gathered) -> Curves | None:
    """Return what heterogeneity would be without clusters, of the group that knows it for the most runs."""
    found = [over_rounds(counted(group), "unclustered_heterogeneity") for group in gathered.groups]
    known = [one for one in found if one is not None]
    return max(known, key=lambda one: (one.values.shape[0], one.x.size), default=None)
