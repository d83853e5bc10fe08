"""Bars that lie below each other, one row a group, with its name above, so that a phone has room for both."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fielding.federation.ledger import CATEGORIES
from fielding.reporting.charts.curves import (
    NOT_EVALUATED,
    counted,
    curves_figure,
    final_accuracy,
    group_lines,
    over_rounds,
    quiet,
    reclusterings,
    seeds_words,
    with_arrivals,
)
from fielding.reporting.charts.figures import (
    DASHES,
    GRAY,
    PALETTE,
    Figure,
    Line,
    as_text,
    blank_figure,
    packed,
    shade,
    with_layout,
)
from fielding.reporting.numbers.groups import Gathered, Group
from fielding.reporting.numbers.paired import estimate
from fielding.reporting.numbers.run_record import RunRecord, column
from fielding.reporting.numbers.run_summary import evaluations
from fielding.reporting.numbers.targets import times_to_target
from fielding.reporting.page import Section
from fielding.reporting.words import SECONDS, counterpart_words, time_unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar, or a part of one.

    Parameters
    ----------
    group
        Whose it is; the page switches it by that.
    length
        How long it is.
    margin
        Half of the interval around its end, if it has one; nothing is drawn below zero.
    part
        Which part of the row it is, if rows have parts.
    style
        Its colour by number.
    """

    group: str
    length: float
    margin: float | None = None
    part: str = ""
    style: int = 0


def group_bars(bars: Sequence[Bar], words: Mapping[str, str], *, x_title: str) -> Figure:
    """Return a row for each group, the first one on top; parts of a row stand one after the other.

    Parameters
    ----------
    bars
        The bars, those of a group one after the other.
    words
        What stands behind the name of each group.
    x_title
        What is measured, with its unit.
    """
    rows = list(dict.fromkeys(bar.group for bar in bars))
    parts = {bar.part: bar.style for bar in bars if bar.part}
    traces = [*map(_trace, bars), *[_name(group, words.get(group, "")) for group in rows], *map(_entry, parts.items())]
    return with_layout(
        blank_figure(traces, x_title=x_title, y_title=""),
        barmode="stack",
        hovermode="closest",
        showlegend=bool(parts),
        height=(125 if parts else 90) + 46 * len(rows),
        margin={"l": 15, "t": 25},
        # Without a bar there is nothing to take the length of the axis from.
        xaxis={"rangemode": "tozero"} if any(bar.length for bar in bars) else {"range": [0, 1]},
        yaxis={
            "autorange": "reversed", "type": "category", "rangemode": "normal", "showgrid": False,
            "showticklabels": False,
        },
        bargap=0.68,
    )  # fmt: skip


def _trace(bar: Bar) -> Mapping[str, Any]:
    trace: dict[str, Any] = {
        "type": "bar", "orientation": "h", "name": as_text(bar.part or bar.group), "showlegend": False,
        "x": [bar.length], "y": [as_text(bar.group)], "marker": {"color": PALETTE[bar.style % len(PALETTE)]},
        "meta": {"group": bar.group}, "hovertemplate": f"%{{x:,.3~g}}<extra>{as_text(bar.part or bar.group)}</extra>",
    }  # fmt: skip
    if bar.part:
        trace["legendgroup"] = as_text(bar.part)
    if bar.margin is not None:
        trace["error_x"] = {
            "type": "data", "array": [bar.margin], "arrayminus": [min(bar.margin, bar.length)], "symmetric": False,
            "thickness": 1.5, "width": 4, "color": "#808080",
        }  # fmt: skip
    return trace


def _entry(part: tuple[str, int]) -> Mapping[str, Any]:
    """Return a place in the legend for a part, which stays when groups are switched off."""
    name, style = part
    return {
        "type": "bar", "orientation": "h", "name": as_text(name), "legendgroup": as_text(name), "x": [None],
        "y": [None], "marker": {"color": PALETTE[style % len(PALETTE)]}, "showlegend": True,
    }  # fmt: skip


def _name(group: str, words: str) -> Mapping[str, Any]:
    """Return the name of a row and the words behind it; an empty second line lifts them above the bar."""
    label = f"{shortened(group)}: {words}" if words else shortened(group)
    return {
        "type": "scatter", "mode": "text", "x": [0], "y": [as_text(group)], "text": [f"{as_text(label)}<br>\u200b"],
        "textposition": "top right", "cliponaxis": False, "hoverinfo": "skip", "showlegend": False,
        "name": as_text(group), "meta": {"group": group},
    }  # fmt: skip


def shortened(name: str, most: int = 28) -> str:
    """Return a name that fits a narrow screen; the page's switches tell it in full.

    Examples
    --------
    >>> shortened("fielding"), shortened("fielding coordinator.representation=label", 20)
    ('fielding', 'fielding coordinato…')
    """
    return name if len(name) <= most else f"{name[: most - 1]}…"


def amount(value: float) -> str:
    """Return an amount with three digits that count.

    Examples
    --------
    >>> amount(1234.5), amount(12.345), amount(0.01234), amount(0.0), amount(1e-5)
    ('1,234', '12.3', '0.0123', '0', '< 0.001')
    """
    if 0 < value < 0.001:
        return "< 0.001"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


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


UNKNOWN = "all purposes"
"""The part of a run whose costs are known in sum only."""
Parts = dict[str, float]
"""Amounts by purpose."""
_KINDS = (
    ("bytes_down", "What clients receive", "megabytes", 1e6),
    ("bytes_up", "What clients send", "megabytes", 1e6),
    ("client_seconds", "How long clients are busy", "client hours", 3600.0),
)
_PURPOSES = {"model": "models in training", "report": "reports of data", "probe": "questions of the method"}
_STYLES = {"model": 8, "report": 7, "probe": 9, UNKNOWN: GRAY}
"""Colours that no group has, unless there are very many of them."""


def costs(gathered: Gathered) -> list[Section]:
    """Return bytes and client hours by purpose; of several groups also final accuracy against all bytes."""
    found = {group.name: [parts for run in counted(group) if (parts := _parts(run))] for group in gathered.groups}
    sections = [_section(found, *kind) for kind in _KINDS]
    return sections if len(gathered.groups) == 1 else [*sections, _against_accuracy(gathered)]


def _parts(run: RunRecord) -> dict[str, Parts]:
    """Return each quantity of a run by purpose; in sum if purposes are not known, nothing if no round is done."""
    if not run.rounds:
        return {}
    charged = run.costs() or {}
    return {quantity: _split(run, quantity, charged.get(quantity)) for quantity, *_ in _KINDS}


def _split(run: RunRecord, quantity: str, charged: object) -> Parts:
    if isinstance(charged, dict):
        return {one: float(charged[one]) for one in CATEGORIES if isinstance(charged.get(one), (int, float))}
    return {UNKNOWN: _total(run, quantity)}


def _total(run: RunRecord, *names: str) -> float:
    values = [row.get(name) for row in run.rounds for name in names]
    return float(sum(value for value in values if isinstance(value, (int, float))))


def _section(
    found: Mapping[str, Sequence[Mapping[str, Parts]]], quantity: str, title: str, unit: str, size: float
) -> Section:
    means = {name: _mean([run[quantity] for run in runs], size) for name, runs in found.items() if runs}
    purposes = [one for one in _STYLES if any(parts.get(one) for parts in means.values())]
    if not purposes:
        return Section(title=title, missing="No round has been done, or none cost anything.")
    bars = [
        Bar(group=name, length=parts.get(one, 0.0), part=_PURPOSES.get(one, one), style=_STYLES[one])
        for name, parts in means.items()
        for one in purposes
    ]
    told = " Where no checkpoint can be read, purposes are not known." if UNKNOWN in purposes else ""
    return Section(
        title=title,
        text=f"Over a whole run, by what it is for, as a mean over seeds.{told}",
        figure=group_bars(bars, {name: amount(sum(parts.values())) for name, parts in means.items()}, x_title=unit),
        table=[
            [f"in {unit}", *[_PURPOSES.get(one, one) for one in purposes], "sum"],
            *[[name, *_cells(parts, purposes)] for name, parts in means.items()],
        ],
        row_groups=list(means),
    )


def _mean(runs: Sequence[Parts], size: float) -> Parts:
    purposes = dict.fromkeys(one for parts in runs for one in parts)
    return {one: sum(parts.get(one, 0.0) for parts in runs) / len(runs) / size for one in purposes}


def _cells(parts: Parts, purposes: Sequence[str]) -> list[str]:
    return [amount(parts.get(one, 0.0)) for one in purposes] + [amount(sum(parts.values()))]


def _against_accuracy(gathered: Gathered) -> Section:
    title = "Accuracy against bytes"
    traces = [trace for group in gathered.groups for trace in _points(group, gathered.styles[group.name])]
    if not traces:
        return Section(title=title, missing=NOT_EVALUATED)
    figure = blank_figure(traces, x_title="megabytes, down and up", y_title="final accuracy")
    figure = quiet(with_layout(figure, hovermode="closest", yaxis={"rangemode": "normal"}), len(gathered.groups))
    return Section(
        title=title,
        text="Final accuracy and all traffic of a run: large dots are means over seeds, small ones single runs. Best "
        "is the upper left corner; whoever has another one above and to the left costs more and gives less.",
        figure=_with_wide_axis(figure, traces),
    )


def _points(group: Group, style: int) -> list[dict[str, Any]]:
    found = [(_total(run, "bytes_down", "bytes_up") / 1e6, final_accuracy(run)) for run in counted(group)]
    known = [(traffic, final) for traffic, final in found if final is not None]
    if not known:
        return []
    color, name = PALETTE[style % len(PALETTE)], as_text(group.name)
    common = {
        "type": "scatter", "mode": "markers", "name": name, "legendgroup": name, "meta": {"group": group.name},
        "hovertemplate": "%{x:,.4~g} MB, accuracy %{y:.3f}",
    }  # fmt: skip
    mean = [sum(column) / len(known) for column in zip(*known, strict=True)]
    symbol = _SYMBOLS[style % len(DASHES)]
    single = {
        **common, "x": [one for one, _ in known], "y": [final for _, final in known], "showlegend": False,
        "marker": {"color": shade(color, 0.45), "size": 6, "symbol": symbol},
    }  # fmt: skip
    large = {**common, "x": mean[:1], "y": mean[1:], "marker": {"color": color, "size": 14, "symbol": symbol}}
    return [single, large] if len(known) > 1 else [large]


_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")


def _with_wide_axis(figure: Figure, traces: Sequence[Mapping[str, Any]]) -> Figure:
    """Return the figure from zero, or, if some groups send ten times as much as others, with a logarithmic axis."""
    places = [one for trace in traces for one in trace["x"]]
    is_wide = min(places) > 0 and max(places) > 10 * min(places)
    return with_layout(figure, xaxis={"type": "log"} if is_wide else {"rangemode": "tozero"})


_TITLES = {"time_to_target_s": "Simulated time to the target", "rounds_to_target": "Rounds to the target"}


def targets(gathered: Gathered) -> list[Section]:
    """Return the simulated time and the rounds to the target, with intervals; nothing for one group only."""
    if gathered.reference is None or len(gathered.groups) < 2:
        return []
    goals = gathered.targets
    whose = counterpart_words(list(dict.fromkeys(name for name in goals.values() if name is not None)))
    finals = {name: _finals(gathered.group(name)) for name in goals.values()}
    found = {group.name: _times(group, finals[goals[group.name]]) for group in gathered.groups}
    if not any(found.values()):
        why = f"No seed has both an evaluation of {whose}, whose final accuracy is the target, and of another group."
        return [Section(title=title, missing=why) for title in _TITLES.values()]
    return [_section_targets(gathered, whose, found, name) for name in _TITLES]


def _finals(group: Group | None) -> dict[int | None, float]:
    """Return the final accuracy of each seed of a group; nothing if there is no such group."""
    runs = () if group is None else counted(group)
    return {run.seed: final for run in runs if (final := final_accuracy(run)) is not None}


Times = Mapping[str, float | None]
"""How long a run took, by sense; None: it never got there."""


def _times(group: Group, finals: Mapping[int | None, float]) -> list[Times]:
    """Return how long each run took to the target of its seed; runs without a target or an evaluation are left out."""
    return [
        times_to_target(run.rounds, finals[run.seed])
        for run in counted(group)
        if run.seed in finals and evaluations(run.rounds)
    ]


def _section_targets(gathered: Gathered, goal: str, found: Mapping[str, Sequence[Times]], name: str) -> Section:
    longest = max((value for times in found.values() for one in times if (value := one[name]) is not None), default=0.0)
    unit = time_unit(longest) if name == "time_to_target_s" else "rounds"
    lengths = {
        group: [None if (value := one[name]) is None else value / SECONDS.get(unit, 1.0) for one in times]
        for group, times in found.items()
    }
    return Section(
        title=_TITLES[name],
        text=f"Until the accuracy came to stay at the final accuracy of {goal} on the same seed, or above. Bars are "
        "means over the seeds that got there, with 95 % t-intervals; shorter is better.",
        figure=group_bars(
            [_bar(group, values, gathered.styles[group]) for group, values in lengths.items()],
            {group: _words(values, unit) for group, values in lengths.items()},
            x_title=unit if unit == "rounds" else f"simulated {unit}",
        ),
    )


def _bar(group: str, values: Sequence[float | None], style: int) -> Bar:
    known = [value for value in values if value is not None]
    if not known:
        return Bar(group=group, length=0.0, style=style)
    mean = estimate(known)
    return Bar(group=group, length=mean.mean, margin=mean.half_width, style=style)


def _words(values: Sequence[float | None], unit: str) -> str:
    """Return how long it took, and on how many seeds.

    Examples
    --------
    >>> _words([2.0, 4.0], "hours"), _words([2.0, None], "hours"), _words([None], "hours"), _words([], "hours")
    ('3 hours', '2 hours (1 of 2 seeds)', 'never on 1 seed', 'not known yet')
    """
    known = [value for value in values if value is not None]
    if not known:
        return f"never on {len(values)} {'seed' if len(values) == 1 else 'seeds'}" if values else "not known yet"
    some = f" ({len(known)} of {len(values)} seeds)" if len(known) < len(values) else ""
    return f"{amount(sum(known) / len(known))} {unit}{some}"
