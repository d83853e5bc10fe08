"""Quantities over rounds and over time, a line for each group: accuracy, differences, losses, clusters, agreement."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

import numpy as np

from fielding._typing import Matrix, Vector
from fielding.federation.evaluation import TREATMENTS
from fielding.reporting.charts.figures import (
    ARRIVAL_COLOR,
    GRAY,
    Figure,
    Line,
    add_shapes,
    as_text,
    change_layout,
    lines_figure,
    mark_places,
    pack,
    shade,
    thin,
    zoom,
)
from fielding.reporting.formatting import SECONDS, amount, counterpart_words, time_unit
from fielding.reporting.numbers.groups import BASELINE, Group, RunGroups, are_alike
from fielding.reporting.numbers.paired import t_interval
from fielding.reporting.numbers.progress import progress
from fielding.reporting.numbers.run_record import RunRecord, column
from fielding.reporting.numbers.run_summary import final_mean
from fielding.reporting.page import Section

MOST_POINTS = 240  # points of a curve with a band; a figure is hardly wider in pixels that can be told apart
MANY_GROUPS = 8  # with more groups a legend would be larger than the figure; the switches of the page tell colours too
MOST_ARRIVALS = 60  # arrivals of data that are marked; more would be a gray wall
MOST_TICKS = 200  # re-clusterings that are marked; more would hide the lines
CUT_OFF = 0.1  # share of a curve, at the start, that the vertical axis need not show
CUT_WORDS = "The start is cut off; a double click shows it."
NOT_EVALUATED = "No run has been evaluated yet."
QUANTITIES = (
    ("window", "accuracy"),
    ("newest interval", "newest_accuracy"),
    ("next interval", "next_accuracy"),
    ("worst tenth of the clients", "worst_decile"),
    *(pair for how in TREATMENTS for pair in ((how, f"{how}_accuracy"), (f"{how}, next", f"{how}_next_accuracy"))),
)
"""What a report on one group shows, with names of ``rounds.jsonl``."""
PAPER_PAIRS = (
    ("fielding", "always", "what it is worth to group everyone anew only when needed, not at every report"),
    ("always", "selected", "what it is worth to hear of drift from all clients, not only from those that train"),
)
"""Groups whose difference the paper draws, and what it tells."""
_FEWEST_POINTS = 100
_SEVERAL_BANDS = 3  # with more bands each is fainter, lest they hide the lines
_MARGIN = 0.12
_LEAST_MARGIN = 0.01


# ---------------------------------------------------------------- quantities of several runs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curves:
    """A quantity of several runs at common places: rounds or seconds, rising.

    ``values`` has shape ``(n_runs, n_points)``, NaN where a run has none; each point has one at least.
    """

    x: Vector
    values: Matrix


def counted_runs(group: Group) -> tuple[RunRecord, ...]:
    """Return the runs of a group that means are over: the finished ones; all of them as long as none is."""
    return group.finished or group.runs


def final_accuracy(run: RunRecord) -> float | None:
    """Return the final accuracy of a run; None if there is none, or none that is a number."""
    final = final_mean(run.rounds)
    return final if final is not None and np.isfinite(final) else None


def reclusterings(run: RunRecord, axis: str = "round") -> list[float]:
    """Return the rounds, or with ``time_s`` the seconds, in which all clients were grouped anew."""
    return [float(str(row[axis])) for row in run.rounds if row.get("reclustered")]


def points(run: RunRecord, name: str) -> tuple[Vector, Vector]:
    """Return the rounds in which a run has a figure, and what it is; rounds without it are left out."""
    x, values = column(run.rounds, "round"), column(run.rounds, name)
    is_known = np.isfinite(x) & np.isfinite(values)
    order = np.argsort(x[is_known], kind="stable")
    return x[is_known][order], values[is_known][order]


def over_rounds(runs: Sequence[RunRecord], name: str) -> Curves | None:
    """Return a figure of ``rounds.jsonl`` over the rounds in which any of the runs has it; None if none has."""
    return join_curves([points(run, name) for run in runs])


def over_time(runs: Sequence[RunRecord], name: str, n_points: int = MOST_POINTS) -> Curves | None:
    """Return a figure of ``rounds.jsonl`` over simulated seconds, None if no run has it.

    A value holds until the next one; moments go from when all runs have a value to the end of the shortest run.
    """
    return hold_curves([progress(run, name) for run in runs], n_points)


def over_bytes(runs: Sequence[RunRecord], name: str, n_points: int = MOST_POINTS) -> Curves | None:
    """Return a figure of ``rounds.jsonl`` over the megabytes that were sent down and up; otherwise as over time."""
    tracks = []
    for run in runs:
        sent = np.nan_to_num(column(run.rounds, "bytes_down") + column(run.rounds, "bytes_up")).cumsum() / 1e6
        values = column(run.rounds, name)
        tracks.append((sent[np.isfinite(values)], values[np.isfinite(values)]))
    return hold_curves(tracks, n_points)


def hold_curves(tracks: Sequence[tuple[Vector, Vector]], n_points: int) -> Curves | None:
    """Return curves whose values hold until the next one, at common places; None if all are empty."""
    tracks = [track for track in tracks if track[0].size]
    if not tracks:
        return None
    first, last = max(float(x[0]) for x, _ in tracks), min(float(x[-1]) for x, _ in tracks)
    x = np.linspace(first, last, n_points) if last > first else np.array([first])
    # A run that ended before another began to be tested has its last value there.
    held = [values[np.maximum(np.searchsorted(at, x, side="right") - 1, 0)] for at, values in tracks]
    return Curves(x=x, values=np.stack(held))


def join_curves(tracks: Sequence[tuple[Vector, Vector]]) -> Curves | None:
    """Return curves at the places of any of them; None if there is no place.

    Examples
    --------
    >>> both = join_curves([(np.array([0.0, 5.0]), np.array([0.1, 0.2])), (np.array([5.0]), np.array([0.4]))])
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


# ---------------------------------------------------------------- lines and figures


def mean_line(curves: Curves, name: str, *, style: int, most: int = MOST_POINTS, group: str | None = None) -> Line:
    """Return the mean over runs as a line, with a band if there are several runs."""
    mean, half_width = mean_and_half_width(curves.values)
    kept = thin(np.arange(mean.size, dtype=np.float64), mean, most)[0].astype(np.int64)
    x, mean, half_width = curves.x[kept], mean[kept], half_width[kept]
    margin = np.nan_to_num(half_width, nan=0.0)  # where one run is left, the band ends in its line
    band = None if np.isnan(half_width).all() else (mean - margin, mean + margin)
    return Line(name=name, x=x, y=mean, style=style, is_main=style == 0, band=band, group=group)


def group_lines(
    gathered: RunGroups, read: Callable[[Sequence[RunRecord]], Curves | None], bounds: tuple[float, float]
) -> list[Line]:
    """Return a line with a band for each group that has the quantity; bands end where no value can be."""
    most = max(_FEWEST_POINTS, min(MOST_POINTS, 10 * MOST_POINTS // max(1, len(gathered.groups))))
    lines = []
    for style, group in enumerate(gathered.groups):
        curves = read(counted_runs(group))
        if curves is None:
            continue
        lines.append(clip_band(mean_line(curves, group.name, style=style, most=most, group=group.name), bounds))
    return drop_many_bands(lines)


def clip_band(line: Line, bounds: tuple[float, float]) -> Line:
    """Return a line whose band ends where no value can be."""
    if line.band is None:
        return line
    lower, upper = (np.clip(end, *bounds) for end in line.band)
    return replace(line, band=(lower, upper))


def drop_many_bands(lines: Sequence[Line]) -> list[Line]:
    """Return lines without their bands if there are many: bands upon bands are mud."""
    return [replace(line, band=None) for line in lines] if len(lines) > MANY_GROUPS else list(lines)


def curves_figure(
    lines: Sequence[Line], *, x_title: str, y_title: str, from_zero: bool = True, places: int = 3
) -> Figure:
    """Return lines over a common axis; with very many of them without a legend; hovering shows few digits."""
    figure = lines_figure(lines, x_title=x_title, y_title=y_title, from_zero=from_zero)
    bands = [trace for trace in figure["data"] if trace.get("fill")]
    if len(bands) > _SEVERAL_BANDS:
        for trace, line in zip(bands, [line for line in lines if line.band is not None], strict=True):
            trace["fillcolor"] = shade(line.color, 0.08)
    return hide_long_legend(change_layout(figure, yaxis={"hoverformat": f".{places}f"}), len(lines))


def hide_long_legend(figure: Figure, n_lines: int) -> Figure:
    """Return a figure without a legend, and with small boxes under the pointer, if it has many lines."""
    if n_lines <= MANY_GROUPS:
        return change_layout(figure, showlegend=n_lines > 1)
    return change_layout(figure, showlegend=False, hovermode="closest")


def add_level(figure: Figure, height: float, words: str = "") -> Figure:
    """Return a figure with a dotted horizontal line across it, with words at its left end."""
    line: dict[str, Any] = {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": height, "y1": height, "layer": "below",
        "line": {"color": "rgba(128,128,128,0.9)", "width": 1.5, "dash": "dot"},
    }  # fmt: skip
    drawn = add_shapes(figure, [line])
    if not words:
        return drawn
    note: dict[str, Any] = {
        "text": as_text(words), "xref": "paper", "x": 0.01, "xanchor": "left", "y": height, "yanchor": "bottom",
        "showarrow": False, "font": {"size": 12},
    }  # fmt: skip
    return change_layout(drawn, annotations=[*drawn["layout"].get("annotations", ()), note])


def fit_axis(figure: Figure, lines: Sequence[Line], height: float = np.nan) -> Figure:
    """Return a figure whose axis shows a height and all lines after their start, where they rise or fall steeply."""
    late = [np.asarray(line.y, dtype=np.float64)[int(CUT_OFF * len(line.y)) :] for line in lines]
    bands = [line.band for line in lines if line.band is not None]
    # Of bands three quarters: with few seeds they may be very wide in places.
    lows = [np.quantile(low[int(CUT_OFF * low.size) :], 0.25) for low, _ in bands]
    highs = [np.quantile(high[int(CUT_OFF * high.size) :], 0.75) for _, high in bands]
    shown = np.concatenate([*late, lows, highs, [height]])
    low, high = float(np.nanmin(shown)), float(np.nanmax(shown))
    margin = max(_LEAST_MARGIN, _MARGIN * (high - low))
    return zoom(figure, low - margin, high + margin)


def mark_arrivals(figure: Figure, runs: Sequence[RunRecord]) -> Figure:
    """Return a figure over rounds with faint marks where samples arrived in the longest run, unless they are many."""
    rounds = max((run.arrivals for run in runs), key=len, default=[])
    return mark_places(figure, rounds, color=ARRIVAL_COLOR) if len(rounds) <= MOST_ARRIVALS else figure


def seeds_words(gathered: RunGroups) -> str:
    """Return what a line of a group is, for the text above a figure."""
    most = max((len(counted_runs(group)) for group in gathered.groups), default=0)
    if most < 2:
        return "A line is one run."
    is_mixed = any(group.finished and len(group.finished) < len(group.runs) for group in gathered.groups)
    more = " Runs that are not finished count only in groups where none is." if is_mixed else ""
    if len(gathered.groups) > MANY_GROUPS:
        return f"Lines are means over seeds; their intervals are left out, since there are many groups.{more}"
    return f"Lines are means over seeds, bands 95 % t-intervals.{more}"


# ---------------------------------------------------------------- accuracy


def draw_accuracy(gathered: RunGroups) -> list[Section]:
    """Return accuracy over rounds and over time, that on the next and newest interval, and that of corrected models.

    Of a single group: the three scores, the worst tenth, and how clients fare that correct or tune.
    """
    if len(gathered.groups) == 1:
        return _draw_quantities(gathered)
    what = "How often models are right on the test samples of clients' windows, as the mean over clients."
    sections = _compare_accuracy(gathered, "accuracy", "Accuracy", what)
    others = {
        "next_accuracy": (
            "Accuracy on the next interval",
            "The same models on samples of the interval to come that no client has trained on: what clients are "
            "really served.",
        ),
        "newest_accuracy": ("Accuracy on the newest interval", "The same models on what came last of the window."),
        "corrected_accuracy": (
            "Corrected accuracy",
            "The same models on the window, with scores shifted to the label mix of each client.",
        ),
        "corrected_next_accuracy": ("Corrected accuracy on the next interval", "The same on the interval to come."),
        "served_accuracy": ("Served accuracy", "The same models on the window, read by the experts of each client."),
        "served_next_accuracy": ("Served accuracy on the next interval", "The same on the interval to come."),
    }
    for name, (title, what) in others.items():
        if any(over_rounds(counted_runs(group), name) for group in gathered.groups):
            drawn = _compare_accuracy(gathered, name, title, what)
            sections += drawn if name in ("corrected_accuracy", "served_accuracy") else drawn[:1]
    return sections


def common_target(gathered: RunGroups) -> tuple[str, float] | None:
    """Return whose final accuracy is the one to reach, and how high it is as a mean over seeds.

    None where groups are to reach different ones, and where none is known.
    """
    names = set(gathered.targets.values())
    group = gathered.group(names.pop()) if len(names) == 1 else None
    if group is None or len(gathered.groups) < 2:
        return None
    finals = [final for run in counted_runs(group) if (final := final_accuracy(run)) is not None]
    return (group.name, sum(finals) / len(finals)) if finals else None


def _compare_accuracy(gathered: RunGroups, name: str, title: str, what: str) -> list[Section]:
    rounds = group_lines(gathered, partial(over_rounds, name=name), (0.0, 1.0))
    runs = [run for _, run in gathered.runs]
    titles = f"{title} over rounds", f"{title} over {_time_word(runs)}"
    if not rounds:
        return [Section(title=one, missing=NOT_EVALUATED) for one in titles]
    over = curves_figure(rounds, x_title="round", y_title=title.lower(), from_zero=False)
    seconds = group_lines(gathered, partial(over_time, name=name), (0.0, 1.0))
    timed, unit = _time_figure(seconds, title.lower(), runs)
    goal, words = common_target(gathered) if name == "accuracy" else None, ""
    if goal is None:
        over, timed = fit_axis(over, rounds), fit_axis(timed, seconds)
    else:
        words = f" Dotted: the target, the final accuracy of {goal[0]}."
        over, timed = (
            add_level(fit_axis(figure, lines, goal[1]), goal[1], f"target {goal[1]:.3f}")
            for figure, lines in ((over, rounds), (timed, seconds))
        )
    return [
        Section(
            title=titles[0],
            text=f"{what} {seeds_words(gathered)}{_arrival_words(runs)}{words} {CUT_WORDS}",
            figure=mark_arrivals(over, runs),
        ),
        Section(
            title=titles[1],
            text=f"The same over the {_clock_words(unit, runs)}, up to the end of the shortest run of each group."
            f"{words} {CUT_WORDS}",
            figure=timed,
        ),
    ]


def _draw_quantities(gathered: RunGroups) -> list[Section]:
    runs = counted_runs(gathered.groups[0])
    rounds, seconds = (
        [
            clip_band(mean_line(one, words, style=style), (0.0, 1.0))
            for style, (words, name) in enumerate(QUANTITIES)
            if (one := read(runs, name)) is not None
        ]
        for read in (over_rounds, over_time)
    )
    titles = "Accuracy over rounds", f"Accuracy over {_time_word(runs)}"
    if not rounds:
        return [Section(title=one, missing=NOT_EVALUATED) for one in titles]
    figure = mark_arrivals(curves_figure(rounds, x_title="round", y_title="accuracy", from_zero=False), runs)
    timed, unit = _time_figure(seconds, "accuracy", runs)
    grouped = ""
    if len(runs) == 1 and (at := reclusterings(runs[0])):
        figure = mark_places(figure, at)
        timed = mark_places(timed, [one / SECONDS[unit] for one in reclusterings(runs[0], "time_s")])
        grouped = " Orange: all clients were grouped anew."
    many = f" {seeds_words(gathered)}" if len(runs) > 1 else ""
    return [
        Section(
            title=titles[0],
            text="How often models are right, as the mean over clients: on the test samples of the window, of the "
            "newest interval, and on samples of the next interval that no client has trained on."
            f"{many}{_arrival_words(runs)}{grouped}",
            figure=figure,
        ),
        Section(title=titles[1], text=f"The same over the {_clock_words(unit, runs)}.{grouped}", figure=timed),
    ]


def _time_word(runs: Sequence[RunRecord]) -> str:
    """Return what the time of runs is called: measured on real devices, or simulated."""
    return "time" if runs and all(run.is_deployed for run in runs) else "simulated time"


def _clock_words(unit: str, runs: Sequence[RunRecord]) -> str:
    measured = f"{unit} it took, without those in which a run was stopped"
    return (
        measured if _time_word(runs) == "time" else f"{unit} it would have taken on the clients' devices and networks"
    )


def _time_figure(lines: Sequence[Line], y_title: str, runs: Sequence[RunRecord]) -> tuple[Figure, str]:
    """Return lines over seconds as a figure in a unit that suits them, and the unit."""
    x = [np.asarray(line.x, dtype=np.float64) for line in lines]
    unit = time_unit(max((float(np.max(one)) for one in x), default=0.0))
    scaled = [replace(line, x=one / SECONDS[unit]) for line, one in zip(lines, x, strict=True)]
    x_title = _time_word(runs).replace("time", unit)
    figure = curves_figure(scaled, x_title=x_title, y_title=y_title, from_zero=False)
    return change_layout(figure, xaxis={"hoverformat": ".2f"}), unit


def _arrival_words(runs: Sequence[RunRecord]) -> str:
    n_arrivals = max((len(run.arrivals) for run in runs), default=0)
    return " Gray: new samples arrive." if 0 < n_arrivals <= MOST_ARRIVALS else ""


# ---------------------------------------------------------------- differences


def draw_differences(gathered: RunGroups) -> list[Section]:
    """Return the difference of each group to the reference, then the paper's two; nothing for one group only."""
    if gathered.reference is None or len(gathered.groups) < 2:
        return []
    sections = [_compare_to_reference(gathered, "accuracy")]
    if any(over_rounds(counted_runs(group), "next_accuracy") for group in gathered.groups):
        sections.append(_compare_to_reference(gathered, "next_accuracy"))
    for name, other, meaning in PAPER_PAIRS:
        ours, theirs = gathered.group(name), gathered.group(other)
        # With two groups the figure above shows the same.
        is_shown = other == gathered.reference and len(gathered.groups) == 2
        if ours is None or theirs is None or is_shown or not are_alike(gathered.terms, name, other):
            continue
        found = paired_curves(ours, theirs)
        if found is not None:
            line = mean_line(found, f"{name} - {other}", style=gathered.styles[name], group=name)
            what = f"Difference on the same seed and round: {meaning}"
            sections.append(_difference_section(gathered, f"Accuracy of {name} minus {other}", [line], what))
    return sections


def paired_curves(group: Group, other: Group, name: str = "accuracy") -> Curves | None:
    """Return group minus other over the rounds that both have, a row for each seed of both; None without any."""
    theirs = {run.seed: points(run, name) for run in counted_runs(other)}
    tracks = []
    for run in counted_runs(group):
        if run.seed not in theirs:
            continue
        at, mine = points(run, name)
        before = dict(zip(*(part.tolist() for part in theirs[run.seed]), strict=True))
        both = [place for place, x in enumerate(at.tolist()) if x in before]
        tracks.append((at[both], mine[both] - [before[x] for x in at[both].tolist()]))
    return join_curves(tracks)


def _compare_to_reference(gathered: RunGroups, figure: str) -> Section:
    held_against = {group.name: gathered.references[group.name] for group in gathered.groups}
    names = list(dict.fromkeys(name for name in held_against.values() if name is not None))
    what = "Accuracy on the next interval" if figure == "next_accuracy" else "Accuracy"
    title, whose = f"{what} against {names[0] if len(names) == 1 else 'the reference'}", counterpart_words(names)
    if not any(gathered.group(name) for name in names):
        return Section(title=title, missing=f"There is no run of {whose}, which others are held against.")
    lines = []
    for style, group in enumerate(gathered.groups):
        other = gathered.group(held_against[group.name])
        found = None if other is None or other is group else paired_curves(group, other, figure)
        if found is not None:
            lines.append(mean_line(found, group.name, style=style, group=group.name))
    if not lines:
        why = f"No other group was evaluated on the data, on a seed and in a round that {whose} was."
        return Section(title=title, missing=why)
    text = f"{what} minus that of {whose} on the same seed and round"
    return _difference_section(gathered, title, drop_many_bands(lines), text)


def _difference_section(gathered: RunGroups, title: str, lines: list[Line], what: str) -> Section:
    most = max(len(counted_runs(group)) for group in gathered.groups)
    words = seeds_words(gathered) if most > 1 else "There is one seed: nobody knows how another would come out."
    if any(line.band is not None for line in lines):
        words += " Where a band holds zero, seeds do not tell who is better."
    figure = curves_figure(lines, x_title="round", y_title="difference in accuracy", from_zero=False)
    figure = change_layout(fit_axis(figure, lines), yaxis={"zeroline": False, "hoverformat": "+.3f"})
    return Section(
        title=title,
        text=f"{what}. Above zero: better. {words} {CUT_WORDS}",
        figure=mark_arrivals(add_level(figure, 0.0), [run for _, run in gathered.runs]),
    )


# ---------------------------------------------------------------- losses


def draw_losses(gathered: RunGroups) -> list[Section]:
    """Return both losses over rounds: one figure for a single group, else one each."""
    if len(gathered.groups) == 1:
        runs = counted_runs(gathered.groups[0])
        found = [("training", over_rounds(runs, "train_loss"), GRAY), ("test", over_rounds(runs, "test_loss"), 0)]
        lines = [mean_line(one, words, style=style) for words, one, style in found if one is not None]
        if not lines:
            return [Section(title="Loss", missing="No client has trained or been tested yet.")]
        return [
            Section(
                title="Loss in training and in testing",
                text="Cross-entropy per sample: in training a mean over the clients that trained in a round, in "
                "testing over all clients, on samples that models were not trained with. Lower is better.",
                figure=curves_figure(lines, x_title="round", y_title="loss per sample"),
            )
        ]
    return [
        _compare_losses(
            gathered,
            "Loss in training",
            "train_loss",
            "Mean over the clients that trained in a round, on their own samples.",
            "No client has trained yet.",
        ),
        _compare_losses(
            gathered,
            "Loss in testing",
            "test_loss",
            "Mean over clients, on samples that models were not trained with.",
            NOT_EVALUATED,
        ),
    ]


def _compare_losses(gathered: RunGroups, title: str, name: str, text: str, missing: str) -> Section:
    lines = group_lines(gathered, partial(over_rounds, name=name), (0.0, inf))
    if not lines:
        return Section(title=title, missing=missing)
    return Section(
        title=title,
        text=f"{text} Lower is better. {seeds_words(gathered)}",
        figure=curves_figure(lines, x_title="round", y_title="loss per sample"),
    )


# ---------------------------------------------------------------- clusters


def draw_heterogeneity(gathered: RunGroups) -> Section:
    """Return the mean distance within clusters over rounds, and what it would be with all clients in one."""
    title = "How different clients of the same cluster are"
    lines = group_lines(gathered, partial(over_rounds, name="measured_heterogeneity"), (0.0, 2.0))
    if not lines:
        return Section(
            title=title,
            missing="No evaluation measured it: runs of older versions of Fielding did not, nor has a run that was not "
            "evaluated yet.",
        )
    # Without clusters: that of the group that knows it for the most runs.
    found = [over_rounds(counted_runs(group), "unclustered_heterogeneity") for group in gathered.groups]
    known = [one for one in found if one is not None]
    if known:
        unclustered = max(known, key=lambda one: (one.values.shape[0], one.x.size))
        lines.append(mean_line(unclustered, "no clustering", style=GRAY))
        against = "Gray: the same if all clients were in one cluster, which clustering has to beat."
    elif any(line.name == BASELINE for line in lines):
        against = f"{BASELINE} has all clients in one cluster: that is what clustering has to beat."
    else:
        against = "What it would be without clusters was not measured in these runs."
    figure = curves_figure(lines, x_title="round", y_title="mean L1 distance (0 to 2)")
    return Section(
        title=title,
        text="Mean L1 distance between the true label shares of two clients of the same cluster: 0 if all have the "
        f"same mix of labels, 2 if they share no label. Lower is better. {against} {seeds_words(gathered)}",
        figure=mark_arrivals(figure, [run for _, run in gathered.runs]),
    )


def draw_cluster_counts(gathered: RunGroups) -> Section:
    """Return the number of clusters over rounds, with a mark where a run grouped all clients anew."""
    title = "Number of clusters and re-clusterings"
    clustered = {group.name: group for group in gathered.groups if group.is_clustered}
    found = group_lines(gathered, partial(over_rounds, name="n_clusters"), (0.0, np.inf))
    lines = [line for line in found if line.name in clustered]
    if not lines:
        return Section(title=title, missing="No run put clients into clusters so far.")
    figure = curves_figure(lines, x_title="round", y_title="clusters with members", places=1)
    ticks = [one for line in lines if (one := _recluster_ticks(line, counted_runs(clustered[line.name])))]
    marks = " Triangles: all clients were grouped anew, in one run at least." if ticks else ""
    if sum(len(one["text"]) for one in ticks) <= MOST_TICKS:
        figure["data"] += ticks
    else:
        marks = " Rounds in which all clients were grouped anew are too many to be marked."
    heads = ["", "re-clusterings per run", "moves per run", "clusters, mean", "clusters, last round"]
    return Section(
        title=title,
        text=f"Clusters that have members at the end of a round. {seeds_words(gathered)}{marks}",
        figure=mark_arrivals(figure, [run for _, run in gathered.runs]),
        table=[heads, *[_cluster_count_row(group) for group in clustered.values()]],
        row_groups=list(clustered),
    )


def _recluster_ticks(line: Line, runs: Sequence[RunRecord]) -> dict[str, Any]:
    """Return marks on a line in the rounds with a re-clustering; nothing without any."""
    times = Counter(at for run in runs for at in reclusterings(run))
    rounds = sorted(times)
    if not rounds:
        return {}
    heights = np.interp(rounds, np.asarray(line.x, dtype=np.float64), np.asarray(line.y, dtype=np.float64))
    return {
        "type": "scatter", "mode": "markers", "name": as_text(line.name), "legendgroup": as_text(line.name),
        "showlegend": False, "x": pack(rounds), "y": pack(heights), "meta": {"group": line.group},
        "marker": {"symbol": "triangle-down", "size": 12, "color": line.color},
        "text": [f"grouped anew in {times[at]} of {len(runs)} runs" for at in rounds], "hovertemplate": "%{text}",
    }  # fmt: skip


def _cluster_count_row(group: Group) -> list[str]:
    runs = [run for run in counted_runs(group) if run.rounds]
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


def draw_agreement(gathered: RunGroups) -> Section:
    """Return the adjusted Rand index over rounds."""
    title = "Agreement of clusters with the truth"
    clustered = {group.name for group in gathered.groups if group.is_clustered}
    found = group_lines(gathered, partial(over_rounds, name="ari"), (-1.0, 1.0))
    lines = [line for line in found if line.name in clustered]
    if not lines:
        return Section(
            title=title,
            missing="No run with clusters was evaluated on data whose true groups are known; natural traces have none.",
        )
    figure = curves_figure(lines, x_title="round", y_title="adjusted Rand index")
    figure = mark_arrivals(figure, [run for _, run in gathered.runs])
    runs = counted_runs(gathered.groups[0])
    grouped = ""
    if len(gathered.groups) == 1 and len(runs) == 1 and (at := reclusterings(runs[0])):
        figure, grouped = mark_places(figure, at), " Orange: all clients were grouped anew."
    return Section(
        title=title,
        text="Adjusted Rand index of the clusters and the groups that the data were made with: 1 is perfect, 0 is what "
        f"chance gives. No method but the oracle sees the truth. {seeds_words(gathered)}{grouped}",
        figure=figure,
    )
