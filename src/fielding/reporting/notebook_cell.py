"""The head of a page as a notebook shows it: HTML and SVG without a script, which saved notebooks keep."""

import base64
import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from fielding._typing import Vector
from fielding.reporting.charts.figures import Figure
from fielding.reporting.page import Page

WIDTH, HEIGHT = 640, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 10, 40
_STYLE = "font:14px system-ui,sans-serif;max-width:680px"
_CARD = "border:1px solid rgba(128,128,128,.4);border-radius:6px;padding:6px 12px"


def cell_html(page: Page) -> str:
    """Return sentence, cards and main chart of a page as HTML that follows the colours of the notebook."""
    cards = "".join(
        f'<div style="{_CARD}"><div style="opacity:.7;font-size:12px">{escape(one.name)}</div>'
        f'<div style="font-size:18px">{escape(one.value)}</div></div>'
        for one in page.cards
    )
    figure = next((one.figure for one in page.highlights if one.figure is not None), None)
    chart = "" if figure is None else svg_lines(figure)
    return (
        f'<div style="{_STYLE}"><p style="font-weight:600;font-size:16px">{escape(page.sentence or page.title)}</p>'
        f'<div style="display:flex;flex-wrap:wrap;gap:8px">{cards}</div>{chart}'
        f'<p style="opacity:.7;font-size:12px">{escape(page.lead)}</p></div>'
    )


def svg_lines(figure: Figure) -> str:
    """Return the lines and bands of a figure as SVG; nothing if it has no line."""
    traces = [one for one in figure["data"] if one.get("type", "scatter") == "scatter"]
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

    def place(x: Vector, y: Vector) -> tuple[Vector, Vector]:
        across = (x - left) / max(right - left, 1e-12)
        up = (y - low) / max(high - low, 1e-12)
        return _LEFT + across * (WIDTH - _LEFT - _RIGHT), HEIGHT - _BOTTOM - up * (HEIGHT - _TOP - _BOTTOM)

    parts = []
    for at in y_ticks:
        _, (height,) = place(np.array([left]), np.array([at]))
        parts.append(f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}" opacity=".15"/>')
        parts.append(_label(_LEFT - 6, height + 4, f"{at:g}", "end"))
    for at in x_ticks:
        (across,), _ = place(np.array([at]), np.array([low]))
        parts.append(_label(across, HEIGHT - _BOTTOM + 16, f"{at:g}", "middle"))
    parts.append(_label((_LEFT + WIDTH) / 2, HEIGHT - 6, layout["xaxis"]["title"]["text"], "middle"))
    for trace, x, y in curves:
        is_known = (y >= low) & (y <= high)  # what is outside, as a page's chart leaves it out, or missing
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(*place(x[is_known], y[is_known]), strict=True))
        if trace.get("fill") == "toself":
            parts.append(f'<polygon points="{points}" fill="{escape(str(trace["fillcolor"]))}" stroke="none"/>')
        else:
            line = trace.get("line", {})
            parts.append(
                f'<polyline points="{points}" fill="none" stroke="{escape(str(line.get("color", "currentColor")))}" '
                f'stroke-width="{float(line.get("width", 2)):g}"/>'
            )
    legend = "".join(
        f'<span style="color:{escape(str(one["line"]["color"]))}">&#9644;</span> {escape(str(one["name"]))} &nbsp; '
        for one, _, _ in curves
        if one.get("showlegend", True) and one.get("name")
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" stroke="currentColor" role="img">{"".join(parts)}</svg>'
        f'<div style="font-size:12px">{legend}</div>'
    )


def _label(x: float, y: float, words: str, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="11" fill="currentColor" stroke="none" '
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
