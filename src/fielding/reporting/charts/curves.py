"""Quantities over rounds and over time, a line for each group: accuracy, differences, losses, clusters, agreement."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
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
from fielding.reporting.numbers.groups import BASELINE, Group, RunGroups
from fielding.reporting.numbers.paired import t_interval
from fielding.reporting.numbers.progress import progress
from fielding.reporting.numbers.run_record import RunRecord, column
from fielding.reporting.numbers.run_summary import final_mean
from fielding.reporting.page import Section, merge_views

MOST_POINTS = 240  # points of a curve with a band; a figure is hardly wider in pixels that can be told apart
MOST_HELD = 120  # points of a curve over time or bytes
MANY_GROUPS = 8  # with more groups a legend would be larger than the figure; the switches of the page tell colours too
MOST_ARRIVALS = 60  # arrivals of data that are marked; more would be a gray wall
MOST_TICKS = 200  # re-clusterings that are marked; more would hide the lines
CUT_OFF = 0.1  # share of a curve, at the start, that the vertical axis need not show
CUT_WORDS = "The start is cut off; a double click shows it."
NOT_EVALUATED = "No run has been evaluated yet."
SCORES = {"window": "", "next interval": "next_", "newest interval": "newest_"}
"""The three scores, and how their names in ``rounds.jsonl`` begin."""
_SERVED, _PLAIN = {"served": "served_"}, {"model as it is": ""}
_TREATED = {how: f"{how}_" for how in TREATMENTS}
_ACCURACY, _METRIC = "accuracy", "metric/"  # how figures end in rounds.jsonl, and how metrics of the user's own begin
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


def over_time(runs: Sequence[RunRecord], name: str, n_points: int = MOST_HELD) -> Curves | None:
    """Return a figure of ``rounds.jsonl`` over simulated seconds, None if no run has it.

    A value holds until the next one; moments go from when all runs have a value to the end of the shortest run.
    """
    return hold_curves([progress(run, name) for run in runs], n_points)


def over_bytes(runs: Sequence[RunRecord], name: str, n_points: int = MOST_HELD) -> Curves | None:
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


def readings(gathered: RunGroups) -> dict[str, str]:
    """Return what clients make of their models, and how the names of its figures begin.

    What they get at last comes first, unless there are groups whose clients get their models as they are: then what all
    groups have does.
    """
    name = f"{_SERVED['served']}{_ACCURACY}"
    have = [any(name in row for run in counted_runs(group) for row in run.rounds) for group in gathered.groups]
    first = {**_SERVED, **_PLAIN} if all(have) else {**_PLAIN, **_SERVED}
    return {**first, **_TREATED}


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
    for group in gathered.groups:
        curves = read(counted_runs(group))
        if curves is not None:
            style = gathered.styles[group.name]
            lines.append(clip_band(mean_line(curves, group.name, style=style, most=most, group=group.name), bounds))
    return drop_many_bands(lines)


def flat_words(lines: Sequence[Line]) -> str:
    """Return the height of each line where all lines are flat, over three points at least; nothing where any is not.

    Examples
    --------
    >>> flat_words([Line(name="ours", x=[0, 1, 2], y=[4, 4, 4]), Line(name="theirs", x=[0, 1, 2], y=[1, 1, 1])])
    'ours 4, theirs 1'
    >>> flat_words([Line(name="ours", x=[0, 1, 2], y=[4, 4, 5])])
    ''
    """
    values = [np.asarray(line.y, dtype=np.float64) for line in lines]
    if not lines or any(one.size < 3 or np.ptp(one) > 0 or np.isnan(one).any() for one in values):
        return ""
    return ", ".join(f"{line.name} {amount(float(one[0]))}" for line, one in zip(lines, values, strict=True))


def are_same_lines(lines: Sequence[Line], others: Sequence[Line]) -> bool:
    """Return whether lines of the same names go through the same points."""
    return [line.name for line in lines] == [line.name for line in others] and all(
        np.array_equal(np.asarray(one.y, dtype=np.float64), np.asarray(two.y, dtype=np.float64), equal_nan=True)
        for one, two in zip(lines, others, strict=True)
    )


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


def fit_axis(figure: Figure, lines: Sequence[Line], height: float = np.nan, *, least: float = _LEAST_MARGIN) -> Figure:
    """Return a figure whose axis shows a height and all lines after their start, where they rise or fall steeply.

    ``least``: the margin below and above them is at least so high.
    """
    late = [np.asarray(line.y, dtype=np.float64)[int(CUT_OFF * len(line.y)) :] for line in lines]
    bands = [line.band for line in lines if line.band is not None]
    # Of bands three quarters: with few seeds they may be very wide in places.
    lows = [np.quantile(low[int(CUT_OFF * low.size) :], 0.25) for low, _ in bands]
    highs = [np.quantile(high[int(CUT_OFF * high.size) :], 0.75) for _, high in bands]
    shown = np.concatenate([*late, lows, highs, [height]])
    low, high = float(np.nanmin(shown)), float(np.nanmax(shown))
    margin = max(least, _MARGIN * (high - low)) or _LEAST_MARGIN
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


def draw_accuracy(gathered: RunGroups) -> Section:
    """Return accuracy on each score, of models and of what clients make of them, over rounds, time and bytes.

    With a reference also the difference to it. Of a single group: the three scores and the worst tenth in one figure.
    Scores that are equal throughout are drawn once.
    """
    return _draw_scores(gathered, _ACCURACY, title="Accuracy")


def metric_names(gathered: RunGroups) -> list[str]:
    """Return the names of all metrics of the user's own in the logs of runs."""
    names = (name for _, run in gathered.runs for row in run.rounds for name in row if name.startswith(_METRIC))
    return [name.removeprefix(_METRIC) for name in dict.fromkeys(names)]


def draw_metric(gathered: RunGroups, name: str) -> Section:
    """Return a metric of the user's own as accuracy is drawn; which way is better is not known."""
    return _draw_scores(gathered, f"{_METRIC}{name}", title=name)


def _draw_scores(gathered: RunGroups, measure: str, *, title: str) -> Section:
    """Return accuracy or a metric, as its name in ``rounds.jsonl`` ends."""
    is_alone = len(gathered.groups) == 1
    # By the words of its buttons what a figure shows: a score of all groups, or all scores of the one.
    figures: dict[tuple[str, ...], dict[str, str]] = {}
    for (score, begin), (reading, prefix) in product(SCORES.items(), readings(gathered).items()):
        figures.setdefault((reading,) if is_alone else (score, reading), {})[score] = f"{prefix}{begin}{measure}"
    if is_alone and measure == _ACCURACY:
        for reading, prefix in readings(gathered).items():
            figures[reading,]["worst tenth of the clients"] = f"{prefix}worst_decile"
    views: list[Section] = []
    seen: dict[str, list[Line]] = {}
    same: dict[str, None] = {}
    for words, names in figures.items():
        tracks = [_read_lines(gathered, names, read) for read in (over_rounds, over_time, over_bytes)]
        if is_alone:
            doubled = {
                line.name: one.name
                for at, line in enumerate(tracks[0])
                for one in tracks[0][:at]
                if are_same_lines([line], [replace(one, name=line.name)])
            }
            tracks = [[line for line in lines if line.name not in doubled] for lines in tracks]
            same |= dict.fromkeys(f"{name}, the same as {other}" for name, other in doubled.items())
        called = words[0] if is_alone else f"{words[0]} ({words[1]})"
        twin = next((other for other, known in seen.items() if are_same_lines(tracks[0], known)), None)
        if tracks[0] and twin is None:
            seen[called] = tracks[0]
            views += _score_views(gathered, names, words, tracks, title)
        elif tracks[0]:
            same[f"{called}, the same as {twin}"] = None
    if not views:
        missing = NOT_EVALUATED if measure == _ACCURACY else "No client had a value of this metric so far."
        return Section(title=title, missing=missing)
    return Section(title=title, text=f"Left out: {'; '.join(same)}." if same else "", views=views)


def _read_lines(
    gathered: RunGroups, names: Mapping[str, str], read: Callable[[Sequence[RunRecord], str], Curves | None]
) -> list[Line]:
    """Return a line for each group that has the one quantity; of one group, a line for each quantity that it has."""
    bounds = (-inf, inf) if any(_METRIC in name for name in names.values()) else (0.0, 1.0)
    if len(gathered.groups) != 1:
        (name,) = names.values()
        return group_lines(gathered, lambda runs: read(runs, name), bounds)
    runs = counted_runs(gathered.groups[0])
    return [
        clip_band(mean_line(found, words, style=style), bounds)
        for style, (words, name) in enumerate(names.items())
        if (found := read(runs, name)) is not None
    ]


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


def _score_views(
    gathered: RunGroups, names: Mapping[str, str], words: tuple[str, ...], tracks: Sequence[Sequence[Line]], title: str
) -> Iterator[Section]:
    """Yield a figure over rounds, over time, over bytes, and against the reference; ``tracks`` are its lines."""
    runs, (name, *others), (rounds, time, sent) = [run for _, run in gathered.runs], names.values(), tracks
    is_metric = _METRIC in name
    called = title if is_metric else title.lower()
    y_title = called if others else f"{called}, {words[0]}"
    over = mark_arrivals(curves_figure(rounds, x_title="round", y_title=y_title, from_zero=False), runs)
    timed, unit = _time_figure(time, y_title, runs)
    traffic = curves_figure(sent, x_title="megabytes, down and up", y_title=y_title, from_zero=False)
    traffic = change_layout(traffic, xaxis={"hoverformat": ",.4~g"})
    marks = ""
    if len(runs) == 1 and (fired := reclusterings(runs[0])):
        over = mark_places(over, fired)
        timed = mark_places(timed, [one / SECONDS[unit] for one in reclusterings(runs[0], "time_s")])
        marks = " Orange: all clients were grouped anew."
    goal = common_target(gathered) if name == "accuracy" else None
    if goal is not None:
        marks = f" Dotted: the target, the final accuracy of {goal[0]}."
    what = " ".join(_SCORE_WORDS[score] for score in names if score in _SCORE_WORDS)
    for axis, figure, lines, text in (
        ("rounds", over, rounds, f"Mean over clients. {what} {seeds_words(gathered)}{_arrival_words(runs)}"),
        (time_word(runs), timed, time, f"Over the {_clock_words(unit, runs)}, up to the end of the shortest run."),
        ("bytes", traffic, sent, "After so much was sent, up to the end of the run that sent least."),
    ):
        if is_metric:  # whatever its unit is
            figure = change_layout(fit_axis(figure, lines, least=0.0), yaxis={"hoverformat": ".4~g"})
        else:
            figure = fit_axis(figure, lines, goal[1] if goal else np.nan)
        if goal is not None:
            figure = add_level(figure, goal[1], f"target {goal[1]:.3f}")
        text = f"{text}{marks if axis != 'bytes' or goal else ''} {CUT_WORDS}"
        yield Section(title=title, text=text, figure=figure, words=(*words, f"over {axis}"))
    difference = _compare_to_reference(gathered, name, called)
    if difference is not None:
        yield replace(difference, title=title, words=(*words, "minus the reference"))


_SCORE_WORDS = {
    "window": "Window: on the test samples of their windows.",
    "next interval": "Next interval: on samples of the interval to come that no client has trained on, which is what "
    "they are really served.",
    "newest interval": "Newest interval: on the test samples of what came last of the window.",
}


def time_word(runs: Sequence[RunRecord]) -> str:
    """Return what the time of runs is called: measured on real devices, or simulated."""
    return "measured time" if runs and all(run.is_deployed for run in runs) else "simulated time"


def _clock_words(unit: str, runs: Sequence[RunRecord]) -> str:
    measured = f"{unit} it took, without those in which a run was stopped"
    return measured if time_word(runs) == "time" else f"{unit} it would have taken on the clients' devices and networks"


def _time_figure(lines: Sequence[Line], y_title: str, runs: Sequence[RunRecord]) -> tuple[Figure, str]:
    """Return lines over seconds as a figure in a unit that suits them, and the unit."""
    x = [np.asarray(line.x, dtype=np.float64) for line in lines]
    unit = time_unit(max((float(np.max(one)) for one in x), default=0.0))
    scaled = [replace(line, x=one / SECONDS[unit]) for line, one in zip(lines, x, strict=True)]
    x_title = time_word(runs).replace("time", unit)
    figure = curves_figure(scaled, x_title=x_title, y_title=y_title, from_zero=False)
    return change_layout(figure, xaxis={"hoverformat": ".2f"}), unit


def _arrival_words(runs: Sequence[RunRecord]) -> str:
    n_arrivals = max((len(run.arrivals) for run in runs), default=0)
    return " Gray: new samples arrive." if 0 < n_arrivals <= MOST_ARRIVALS else ""


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


def _compare_to_reference(gathered: RunGroups, figure: str, called: str) -> Section | None:
    """Return each group minus the one that it is compared with; None where no two have a seed and a round in common."""
    references = gathered.references
    lines = []
    for group in gathered.groups:
        other = gathered.group(references[group.name])
        found = None if other is None or other is group else paired_curves(group, other, figure)
        if found is not None:
            lines.append(mean_line(found, group.name, style=gathered.styles[group.name], group=group.name))
    if not lines:
        return None
    whose = counterpart_words(list(dict.fromkeys(name for name in references.values() if name is not None)))
    most = max(len(counted_runs(group)) for group in gathered.groups)
    words = seeds_words(gathered) if most > 1 else "There is one seed: how another would come out is not known."
    lines = drop_many_bands(lines)
    if any(line.band is not None for line in lines):
        words += " Where a band holds zero, seeds do not tell who is better."
    drawn = curves_figure(lines, x_title="round", y_title=f"difference in {called}", from_zero=False)
    is_metric = _METRIC in figure
    drawn = fit_axis(drawn, lines, least=0.0 if is_metric else _LEAST_MARGIN)
    drawn = change_layout(drawn, yaxis={"zeroline": False, "hoverformat": "+.4~g" if is_metric else "+.3f"})
    above = "" if is_metric else " Above zero: better."
    return Section(
        title="Difference",
        text=f"Minus the {called} of {whose} on the same seed and round.{above} {words} {CUT_WORDS}",
        figure=mark_arrivals(add_level(drawn, 0.0), [run for _, run in gathered.runs]),
    )


# ---------------------------------------------------------------- losses


def draw_losses(gathered: RunGroups) -> Section:
    """Return the loss in training and in testing over rounds."""
    views = {}
    for word, name, text in (
        ("in testing", "test_loss", "mean over clients, on samples that models were not trained with."),
        ("in training", "train_loss", "mean over the clients that trained in a round, on their own samples."),
    ):
        lines = group_lines(gathered, partial(over_rounds, name=name), (0.0, inf))
        views[word] = Section(title="Loss", missing="No client has trained or been tested yet.")
        if lines:
            views[word] = Section(
                title="Loss",
                text=f"Cross-entropy per sample, {text} Lower is better. {seeds_words(gathered)}",
                figure=curves_figure(lines, x_title="round", y_title=f"loss {word}"),
            )
    return merge_views("Loss", views)


# ---------------------------------------------------------------- clusters


def draw_clusters(gathered: RunGroups) -> Section:
    """Return over rounds how many clusters there are, how alike their clients are, and how they fit the truth."""
    return merge_views(
        "Clusters over rounds",
        {
            "how many": draw_cluster_counts(gathered),
            "how different their clients are": draw_heterogeneity(gathered),
            "agreement with the truth": draw_agreement(gathered),
        },
    )


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
    if not any(group.is_clustered for group in gathered.groups):
        return Section(title=title, missing="No run put clients into clusters.")
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
    flat = flat_words(lines)
    figure = None if flat else curves_figure(lines, x_title="round", y_title="clusters with members", places=1)
    ticks = [one for line in lines if (one := _recluster_ticks(line, counted_runs(clustered[line.name])))]
    marks = " Triangles: all clients were grouped anew, in one run at least." if ticks else ""
    if figure is None:
        marks = f" Their number never changed: {flat}."
    elif sum(len(one["text"]) for one in ticks) <= MOST_TICKS:
        figure["data"] += ticks
    else:
        marks = " Rounds in which all clients were grouped anew are too many to be marked."
    heads = ["", "re-clusterings per run", "moves per run", "clusters, mean", "clusters, last round"]
    return Section(
        title=title,
        text=f"Clusters that have members at the end of a round. {seeds_words(gathered)}{marks}",
        figure=None if figure is None else mark_arrivals(figure, [run for _, run in gathered.runs]),
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
    if flat := flat_words(lines):
        return Section(title=title, missing=f"The adjusted Rand index never changed: {flat}.")
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
