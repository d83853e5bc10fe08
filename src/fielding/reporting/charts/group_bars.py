"""Bars that lie below each other, one row a group, with its name above, so that a phone has room for both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fielding.reporting.figures import PALETTE, Figure, as_text, blank_figure, with_layout


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
