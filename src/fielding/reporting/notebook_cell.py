"""The head of a page as a notebook shows it: HTML and SVG without a script, which saved notebooks keep."""

import base64
import math
from collections.abc import Sequence
from html import escape, unescape
from typing import Any

import numpy as np

from fielding._typing import Vector
from fielding.reporting.charts.figures import Figure
from fielding.reporting.page import Page

WIDTH, HEIGHT = 520, 240  # of a chart, in units that are pixels where there is room for them
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 10, 42
_FONT = 13  # still to be read where a narrow cell shrinks a chart
_STYLE = "font:14px system-ui,sans-serif;max-width:680px"
_CARD = "border:1px solid rgba(128,128,128,.4);border-radius:6px;padding:6px 12px"


def cell_html(page: Page) -> str:
    """Return sentence, cards and main chart of a page as HTML that follows the colours of the notebook."""
    cards = "".join(
        f'<div style="{_CARD}"><div style="opacity:.7;font-size:12px">{escape(one.name)}</div>'
        f'<div style="font-size:18px">{escape(one.value)}</div>'
        f'<div style="opacity:.7;font-size:12px">{escape(one.note)}</div></div>'
        for one in page.cards
    )
    drawn = ((one, svg_lines(one.figure)) for one in page.highlights if one.figure is not None)
    section, chart = next((pair for pair in drawn if pair[1]), (None, ""))
    if section is not None:
        title = f"{escape(section.title)}. {escape(section.text)}"
        chart = f'<p style="font-size:13px;margin:12px 0 4px">{title}</p>{chart}'
    return (
        f'<div style="{_STYLE}"><p style="font-weight:600;font-size:16px">{escape(page.sentence or page.title)}</p>'
        f'<div style="display:flex;flex-wrap:wrap;gap:8px">{cards}</div>{chart}'
        f'<p style="opacity:.7;font-size:12px">{escape(page.lead)}</p></div>'
    )


def svg_lines(figure: Figure) -> str:
    """Return the lines and bands of a figure as SVG; nothing if it has no line."""
    traces = [one for one in figure["data"] if one.get("type") == "scatter" and one.get("mode") == "lines"]
    curves = [(one, unpack(one["x"]), unpack(one["y"])) for one in traces]
    curves = [(one, x, y) for one, x, y in curves if x.size and np.isfinite(y).any()]
    if not curves:
        return ""
    layout = figure["layout"]
    xs, ys = (np.concatenate([one[at] for one in curves]) for at in (1, 2))
    given = layout["yaxis"].get("range")
    low, high = given or (float(np.nanmin(ys)), float(np.nanmax(ys)))
    x_ticks, y_ticks = ticks(float(xs.min()), float(xs.max())), ticks(low, high)
    left, right = min(float(xs.min()), x_ticks[0]), max(float(xs.max()), x_ticks[-1])
    low, high = min(low, y_ticks[0]), max(high, y_ticks[-1])

    wide, tall = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def place(x: Vector, y: Vector) -> tuple[Vector, Vector]:
        return (x - left) / max(right - left, 1e-12) * wide, (high - y) / max(high - low, 1e-12) * tall

    parts = []
    for at in y_ticks:
        height = _TOP + float(place(np.array([left]), np.array([at]))[1][0])
        parts.append(f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}" opacity=".15"/>')
        parts.append(_label(_LEFT - 6, height + 4, f"{at:g}", "end"))
    for at in x_ticks:
        across = _LEFT + float(place(np.array([at]), np.array([low]))[0][0])
        parts.append(_label(across, HEIGHT - _BOTTOM + 18, f"{at:g}", "middle"))
    parts.append(_label(_LEFT + wide / 2, HEIGHT - 6, layout["xaxis"]["title"]["text"], "middle"))
    # An SVG within: what the axis does not show ends at its edges.
    parts.append(f'<svg x="{_LEFT}" y="{_TOP}" width="{wide}" height="{tall}">')
    for trace, x, y in curves:
        is_known = np.isfinite(y)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(*place(x[is_known], y[is_known]), strict=True))
        if trace.get("fill") == "toself":
            parts.append(f'<polygon points="{points}" fill="{escape(str(trace["fillcolor"]))}" stroke="none"/>')
        else:
            line = trace.get("line", {})
            parts.append(
                f'<polyline points="{points}" fill="none" stroke="{escape(str(line.get("color", "currentColor")))}" '
                f'stroke-width="{float(line.get("width", 2)):g}"/>'
            )
    parts.append("</svg>")
    # Names are escaped already, for the browser library; here they are once more.
    legend = "".join(
        f'<span style="display:inline-block;margin-right:12px"><span style="color:{escape(str(one["line"]["color"]))}">'
        f"&#9644;</span> {escape(unescape(str(one['name'])))}</span>"
        for one, _, _ in curves
        if one.get("showlegend", True) and one.get("name")
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" style="display:block;max-width:{WIDTH + 40}px" '
        f'stroke="currentColor" role="img">{"".join(parts)}</svg><div style="font-size:12px">{legend}</div>'
    )


def _label(x: float, y: float, words: str, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{_FONT}" fill="currentColor" stroke="none" '
        f'opacity=".75">{escape(words)}</text>'
    )


def unpack(values: Any) -> Vector:
    """Return the numbers that :func:`~fielding.reporting.charts.figures.pack` made, NaN for None.

    Examples
    --------
    >>> unpack([1.0, None]).tolist(), unpack({"dtype": "i2", "bdata": "AQACAA=="}).tolist()
    ([1.0, nan], [1.0, 2.0])
    """
    if isinstance(values, dict):
        raw = base64.b64decode(values["bdata"])
        return np.frombuffer(raw, dtype=np.dtype(f"<{values['dtype']}")).astype(np.float64)
    return np.array([np.nan if one is None else one for one in values], dtype=np.float64)


def ticks(low: float, high: float, most: int = 6) -> Sequence[float]:
    """Return round numbers from one end to the other, at least one.

    Examples
    --------
    >>> ticks(0.0, 199.0), ticks(0.71, 0.93)
    ([0.0, 50.0, 100.0, 150.0], [0.75, 0.8, 0.85, 0.9])
    """
    span = max(high - low, 1e-9)
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one * power for one in (1.0, 2.0, 5.0, 10.0) if one * power >= rough)
    first = math.ceil(low / step - 1e-9)
    found = [round(at * step, 10) for at in range(first, math.floor(high / step + 1e-9) + 1)]
    return found or [low]
