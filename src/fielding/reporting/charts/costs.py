"""What a federation costs its clients, by purpose, and what accuracy it gets for that."""

from collections.abc import Mapping, Sequence
from typing import Any

from fielding.federation.ledger import CATEGORIES
from fielding.reporting.charts.group_bars import Bar, amount, group_bars
from fielding.reporting.charts.mean_curves import NOT_EVALUATED, counted, final_accuracy, quiet
from fielding.reporting.figures import DASHES, GRAY, PALETTE, Figure, as_text, blank_figure, shade, with_layout
from fielding.reporting.gathering import Gathered, Group
from fielding.reporting.page import Section
from fielding.reporting.run_record import RunRecord

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
