"""Bars that lie below each other, one row a group, with its name above: costs, and the time to the target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import Any

from fielding._typing import Json
from fielding.federation.ledger import CATEGORIES
from fielding.reporting.charts.curves import NOT_EVALUATED, counted_runs, final_accuracy, hide_long_legend, time_word
from fielding.reporting.charts.figures import GRAY, PALETTE, Figure, as_text, blank_figure, change_layout, shade
from fielding.reporting.formatting import SECONDS, amount, counterpart_words, time_unit
from fielding.reporting.numbers.groups import Group, RunGroups
from fielding.reporting.numbers.paired import SHARE, estimate
from fielding.reporting.numbers.progress import progress
from fielding.reporting.numbers.run_record import RunRecord
from fielding.reporting.numbers.run_summary import evaluations, final_mean, times_to_target
from fielding.reporting.page import Section, merge_views

UNKNOWN = "all purposes"  # the part of a run whose costs are known in sum only
_COSTS = (
    ("bytes_down", "received", "megabytes", 1e6),
    ("bytes_up", "sent", "megabytes", 1e6),
    ("client_seconds", "busy", "client hours", 3600.0),
)
_PURPOSES = {"model": "models in training", "report": "reports of data", "probe": "questions of the method"}
_STYLES = {"model": 8, "report": 7, "probe": 9, UNKNOWN: GRAY}
"""Colours that no group has, unless there are very many of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBar:
    """A bar, or a part of one, of a group that the page switches it by.

    ``margin`` is half of the interval around its end, if it has one; nothing is drawn below zero. ``part`` says which
    part of the row it is, if rows have parts.
    """

    group: str
    length: float
    margin: float | None = None
    part: str = ""
    style: int = 0


def group_bars(bars: Sequence[GroupBar], words: Mapping[str, str], *, x_title: str) -> Figure:
    """Return a row for each group, the first one on top; parts of a row stand one after the other.

    Bars of a group stand one after the other; ``words`` stand behind the name of each group.
    """
    rows = list(dict.fromkeys(bar.group for bar in bars))
    parts = {bar.part: bar.style for bar in bars if bar.part}
    # Places in the legend stay when groups are switched off.
    legend = [
        {
            "type": "bar", "orientation": "h", "name": as_text(name), "legendgroup": as_text(name), "x": [None],
            "y": [None], "marker": {"color": PALETTE[style % len(PALETTE)]}, "showlegend": True,
        }
        for name, style in parts.items()
    ]  # fmt: skip
    traces = [*map(_bar_trace, bars), *[_name_trace(group, words.get(group, "")) for group in rows], *legend]
    return change_layout(
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


def _bar_trace(bar: GroupBar) -> dict[str, Any]:
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


def _name_trace(group: str, words: str, most: int = 36) -> dict[str, Any]:
    """Return the name of a row, cut to fit a narrow screen, and words behind it; an empty second line lifts them."""
    name = group if len(group) <= most else f"{group[: most - 1]}…"
    label = f"{name}: {words}" if words else name
    return {
        "type": "scatter", "mode": "text", "x": [0], "y": [as_text(group)], "text": [f"{as_text(label)}<br>\u200b"],
        "textposition": "top right", "cliponaxis": False, "hoverinfo": "skip", "showlegend": False,
        "name": as_text(group), "meta": {"group": group},
    }  # fmt: skip


def draw_costs(gathered: RunGroups) -> Section:
    """Return the bytes that clients receive and send and the hours that they are busy, by purpose."""
    charged = {
        group.name: [(run, run.costs() or {}) for run in counted_runs(group) if run.rounds] for group in gathered.groups
    }
    views = {}
    for quantity, word, unit, size in _COSTS:
        means = {}
        for name, runs in charged.items():
            split = [_split_costs(run, quantity, costs.get(quantity)) for run, costs in runs]
            purposes = dict.fromkeys(one for parts in split for one in parts)
            if runs:
                means[name] = {one: sum(parts.get(one, 0.0) for parts in split) / len(split) / size for one in purposes}
        views[word] = _cost_section(means, unit)
    return merge_views("What it costs clients", views)


def _split_costs(run: RunRecord, quantity: str, charged: Json) -> dict[str, float]:
    """Return a quantity by purpose; in sum if purposes are not known."""
    if isinstance(charged, dict):
        return {one: float(value) for one in CATEGORIES if isinstance(value := charged.get(one), (int, float))}
    return {UNKNOWN: _total(run, quantity)}


def _total(run: RunRecord, *names: str) -> float:
    values = [row.get(name) for row in run.rounds for name in names]
    return float(sum(value for value in values if isinstance(value, (int, float))))


def _cost_section(means: Mapping[str, Mapping[str, float]], unit: str) -> Section:
    title = "What it costs clients"
    purposes = [one for one in _STYLES if any(parts.get(one) for parts in means.values())]
    if not purposes:
        return Section(title=title, missing="No round has been done, or none cost anything.")
    bars = [
        GroupBar(group=name, length=parts.get(one, 0.0), part=_PURPOSES.get(one, one), style=_STYLES[one])
        for name, parts in means.items()
        for one in purposes
    ]
    unknown = " Where no checkpoint can be read, purposes are not known." if UNKNOWN in purposes else ""
    sums = {name: amount(sum(parts.values())) for name, parts in means.items()}
    is_split = len(purposes) > 1  # else the words at the bars tell all
    heads = [f"in {unit}", *[_PURPOSES.get(one, one) for one in purposes], "sum"]
    rows = [[name, *[amount(parts.get(one, 0.0)) for one in purposes], sums[name]] for name, parts in means.items()]
    return Section(
        title=title,
        text=f"Over a whole run, by what it is for, as a mean over seeds.{unknown}",
        figure=group_bars(bars, sums, x_title=unit),
        table=[heads, *rows] if is_split else (),
        row_groups=list(means) if is_split else (),
    )


def draw_accuracy_against_bytes(gathered: RunGroups) -> list[Section]:
    """Return final accuracy against all bytes of a run, on the window and on the next interval.

    Nothing for one group only.
    """
    if len(gathered.groups) < 2:
        return []
    title = "Accuracy against bytes"
    views = {}
    for word, score in (("window", ""), ("next interval", "next_")):
        figure = bytes_figure(gathered, f"{score}accuracy")
        views[word] = Section(title=title, missing=NOT_EVALUATED)
        if figure is not None:
            views[word] = Section(
                title=title,
                text="Final accuracy and all traffic of a run: large dots are means over seeds with 95 % t-intervals, "
                "small ones single runs. Best is the upper left corner; a group that has another one above and to the "
                "left costs more and gives less.",
                figure=figure,
            )
    return [merge_views(title, views)]


def bytes_figure(gathered: RunGroups, name: str) -> Figure | None:
    """Return the final mean of a figure of ``rounds.jsonl`` against all bytes, a dot for each group; None without any.

    Bytes go from zero, or, if some groups send ten times as much as others, on a logarithmic axis.
    """
    traces = [one for group in gathered.groups for one in _traffic_dots(group, gathered.styles[group.name], name)]
    if not traces:
        return None
    places = [float(one) for trace in traces for one in trace["x"]]
    axis: dict[str, Any] = {"rangemode": "tozero"}
    if min(places) > 0 and max(places) > 10 * min(places):
        powers = range(floor(log10(min(places))) - 1, ceil(log10(max(places))) + 1)
        ticks = [digit * 10.0**power for power in powers for digit in ((1, 3) if len(powers) < 5 else (1,))]
        axis = {"type": "log", "tickvals": ticks, "ticktext": [f"{one:,.4g}" for one in ticks]}
    figure = blank_figure(traces, x_title="megabytes, down and up", y_title="final accuracy")
    figure = change_layout(figure, hovermode="closest", xaxis=axis, yaxis={"rangemode": "normal"}, height=400)
    return hide_long_legend(figure, len(gathered.groups))


def _traffic_dots(group: Group, style: int, figure: str) -> list[dict[str, Any]]:
    found = [
        (_total(run, "bytes_down", "bytes_up") / 1e6, final_mean(run.rounds, figure)) for run in counted_runs(group)
    ]
    known = [(traffic, final) for traffic, final in found if final is not None and isfinite(final)]
    if not known:
        return []
    color, name = PALETTE[style % len(PALETTE)], as_text(group.name)
    common = {
        "type": "scatter", "mode": "markers", "name": name, "legendgroup": name, "meta": {"group": group.name},
        "hovertemplate": "%{x:,.4~g} MB, accuracy %{y:.3f}", "cliponaxis": False,
    }  # fmt: skip
    traffic, final = sum(one for one, _ in known) / len(known), estimate([one for _, one in known], SHARE)
    single = {
        **common, "x": [one for one, _ in known], "y": [final for _, final in known], "showlegend": False,
        "marker": {"color": shade(color, 0.45), "size": 6},
    }  # fmt: skip
    large: dict[str, Any] = {**common, "x": [traffic], "y": [final.mean], "marker": {"color": color, "size": 13}}
    if final.ends is not None:
        large["error_y"] = {
            "type": "data", "array": [final.ends[1] - final.mean], "arrayminus": [final.mean - final.ends[0]],
            "symmetric": False, "thickness": 1.5, "width": 4, "color": color,
        }  # fmt: skip
    return [single, large] if len(known) > 1 else [large]


def draw_times_to_target(gathered: RunGroups) -> list[Section]:
    """Return the time and the rounds to the target, with intervals; nothing for one group only."""
    title = "Time to the target"
    if gathered.reference is None or len(gathered.groups) < 2:
        return []
    time = time_word([run for _, run in gathered.runs])
    words_of = {"time_to_target_s": time, "rounds_to_target": "rounds"}
    goals = gathered.targets
    whose = counterpart_words(list(dict.fromkeys(name for name in goals.values() if name is not None)))
    finals: dict[str | None, dict[int | None, float]] = {}
    for name in goals.values():
        goal = gathered.group(name)
        runs = () if goal is None else counted_runs(goal)
        finals[name] = {run.seed: final for run in runs if (final := final_accuracy(run)) is not None}
    # Runs without a target or an evaluation are left out.
    found = {
        group.name: [
            times_to_target(run.rounds, targets[run.seed], progress(run))
            for run in counted_runs(group)
            if run.seed in (targets := finals[goals[group.name]]) and evaluations(run.rounds)
        ]
        for group in gathered.groups
    }
    if not any(found.values()):
        why = f"No seed has both an evaluation of {whose}, whose final accuracy is the target, and of another group."
        return [Section(title=title, missing=why)]
    views = {}
    for name, word in words_of.items():
        known = [value for times in found.values() for one in times if (value := one[name]) is not None]
        unit = time_unit(max(known, default=0.0)) if name == "time_to_target_s" else "rounds"
        bars, words = [], {}
        for group_name, times in found.items():
            style = gathered.styles[group_name]
            reached = [value / SECONDS.get(unit, 1.0) for one in times if (value := one[name]) is not None]
            words[group_name] = _reached_words(reached, len(times), unit)
            if reached:
                mean = estimate(reached)
                bars.append(GroupBar(group=group_name, length=mean.mean, margin=mean.half_width, style=style))
            else:
                bars.append(GroupBar(group=group_name, length=0.0, style=style))
        views[word] = Section(
            title=title,
            text=f"Until the accuracy came to stay at the final accuracy of {whose} on the same seed, or above. "
            "Bars are means over the seeds that got there, with 95 % t-intervals; shorter is better.",
            figure=group_bars(bars, words, x_title=unit if unit == "rounds" else f"{time.split()[0]} {unit}"),
        )
    return [merge_views(title, views)]


def _reached_words(reached: Sequence[float], n_seeds: int, unit: str) -> str:
    """Return how long it took, and on how many seeds.

    Examples
    --------
    >>> _reached_words([2.0, 4.0], 2, "hours"), _reached_words([2.0], 2, "hours"), _reached_words([], 1, "hours")
    ('3 hours', '2 hours (1 of 2 seeds)', 'never on 1 seed')
    """
    if not reached:
        return f"never on {n_seeds} {'seed' if n_seeds == 1 else 'seeds'}" if n_seeds else "not known yet"
    some = f" ({len(reached)} of {n_seeds} seeds)" if len(reached) < n_seeds else ""
    return f"{amount(sum(reached) / len(reached))} {unit}{some}"
