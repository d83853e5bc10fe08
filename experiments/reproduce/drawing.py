"""Panels of a figure as SVG: curves with bands, rows of numbers with intervals, groups of bars; the paper's are marked.

Colours are variables, so that a drawing follows the colours of the page that it is put into.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from experiments.reproduce.results import Figure
from fielding._typing import Vector
from fielding.reporting.notebook_cell import ticks

WIDTH, GAP = 760, 14
STYLES = 7
"""Colours for what is compared; the first is for what a figure is about, the second for what it is held against."""
_LETTER, _SMALL_LETTER, _LINE = 6.1, 5.5, 16  # pixels that a letter, a small one and a line of text take
_LANE, _WIDE_LANE = 92, 160  # right of curves: where the paper's numbers are named, and whose they are
_Place = Callable[[float], float]  # from a value to a place along an axis
_CSS = """
    :root {
      --d-ink: #263238; --d-soft: #607d8b; --d-paper: #ffffff; --d-pale: #dfe4e8; --d-c: #c43e00;
      --p-0: #0072b2; --p-1: #7f7f7f; --p-2: #009e73; --p-3: #b0568a; --p-4: #3c9fd8; --p-5: #8f8300; --p-6: #8064c0;
    }
    @media (prefers-color-scheme: dark) {
      :root {
        --d-ink: #eceff1; --d-soft: #90a4ae; --d-paper: #1e2129; --d-pale: #3a4250; --d-c: #ffb74d;
        --p-0: #4c9be8; --p-1: #a8adb5; --p-2: #35c79b; --p-3: #e59cc6; --p-4: #9bd8ff; --p-5: #d6c832; --p-6: #a990e6;
      }
    }
    .plot text { font: 12px sans-serif; fill: var(--d-ink); }
    .plot .title { font-weight: bold; font-size: 13px; } .plot .soft { fill: var(--d-soft); }
    .plot .small { font-size: 11px; } .plot .mid { text-anchor: middle; } .plot .end { text-anchor: end; }
    .plot .grid { stroke: var(--d-pale); } .plot .axis { stroke: var(--d-soft); }
    .plot .dash { stroke: var(--d-soft); stroke-dasharray: 2 3; fill: none; }
    .plot .paper { fill: var(--d-c); stroke: none; } .plot text.paper { font-size: 11px; }
    .plot .halo { paint-order: stroke; stroke: var(--d-paper); stroke-width: 4px; }
    .plot .paper-line { stroke: var(--d-c); stroke-width: 1.6; stroke-dasharray: 6 4; fill: none; }
    .plot .paper-area { fill: var(--d-c); opacity: .16; }
    .plot .band { opacity: .16; stroke: none; } .plot .curve { fill: none; stroke-width: 1.8; }
    .plot .main { stroke-width: 2.8; } .plot .whisker { stroke-width: 2; } .plot .open { fill: none; stroke-width: 2; }
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """The mean over runs along an axis, with the ends of its intervals if there are some; ``more`` follows its name."""

    name: str
    more: str = ""
    x: Vector
    y: Vector
    low: Vector | None = None
    high: Vector | None = None
    style: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A number of the paper on an axis of ours.

    Parameters
    ----------
    value
        Where it is; two for a range.
    words, of
        The number as the paper has it, and what it is of.
    is_bound
        Whether the paper says that it is at most this.
    at
        Place along the other axis; a line to the right edge if None.
    since
        Share of the other axis that such a line begins at.
    """

    value: tuple[float, ...]
    words: str
    of: str = ""
    is_bound: bool = False
    at: float | None = None
    since: float = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A number of ours with its interval beside the paper's, on a line of its own; in groups of bars, a bar.

    Parameters
    ----------
    name, ours, words
        What it is of, the number, and the number in words.
    mark
        The paper's.
    style
        Colour by number.
    is_open
        Whether it is not of all seeds.
    is_extra
        Whether the paper's figure has no such row.
    """

    name: str
    ours: Figure | None
    words: str = ""
    mark: Mark | None = None
    style: int = 0
    is_open: bool = False
    is_extra: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of a drawing: its size and its elements, from its upper left corner."""

    width: float
    height: float
    elements: tuple[str, ...]


def document(blocks: Sequence[Sequence[Block]], *, label: str, notes: Sequence[str]) -> str:
    """Return a drawing with rows of blocks, and notes under them."""
    parts, top = [], 4.0
    for line in blocks:
        left = 0.0
        for block in line:
            parts.append(f'<g transform="translate({left:g} {top:g})">{"".join(block.elements)}</g>')
            left += block.width + GAP
        top += max(block.height for block in line) + GAP
    for words in (one for note in notes for one in textwrap.wrap(note, int((WIDTH - 8) / _SMALL_LETTER))):
        parts.append(_text(4, top + 8, words, "soft small"))
        top += _LINE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing plot" viewBox="0 0 {WIDTH} {top + 6:.0f}" role="img" '
        f"aria-label={quoteattr(label)}>\n  <style>{_CSS}  </style>\n  " + "\n  ".join(parts) + "\n</svg>\n"
    )


def curves_block(
    title: str,
    curves: Sequence[Curve],
    *,
    axes: tuple[str, str],
    marks: Sequence[Mark] = (),
    level: tuple[float, str] | None = None,
    until: float | None = None,
    width: float = WIDTH,
) -> Block:
    """Return curves over a common axis with a legend.

    Parameters
    ----------
    title, curves, axes
        What is drawn, and the titles of its axes.
    marks
        The paper's numbers.
    level
        Height and name of a dotted line of ours.
    until
        Where the axis begins at 0 and ends; at the ends of the curves if None.
    width
        Of the block.
    """
    legend, top = _legend([(f"{one.name}{one.more}", one.style) for one in curves], width)
    top, height = top + 28, 230.0
    lane = 8 if not marks and level is None else _WIDE_LANE if width == WIDTH else _LANE
    x_ends = _ends([one.x for one in curves]) if until is None else (0.0, until)
    heights = [side for one in curves for side in (one.y, one.low, one.high) if side is not None]
    more = [np.array(mark.value) for mark in marks] + ([] if level is None else [np.array([level[0]])])
    y_ends = _ends([*heights, *more], margin=0.05)
    across, up = _scale(x_ends, (46.0, width - lane)), _scale(y_ends, (top + height, top))
    parts = [_text(4, 14, title, "title"), *legend, *_grid(x_ends, y_ends, across, up)]
    parts += [
        _text((46 + width - lane) / 2, top + height + 32, axes[0], "soft mid small"),
        _text(4, top - 6, axes[1], "soft small"),
    ]
    if level is not None:
        parts.append(_path([(across(x_ends[0]), up(level[0])), (across(x_ends[1]), up(level[0]))], "dash"))
    for one in curves:
        if one.low is not None and one.high is not None:
            forth = [(across(x), up(y)) for x, y in zip(one.x, one.high, strict=True)]
            back = [(across(x), up(y)) for x, y in zip(one.x, one.low, strict=True)]
            parts.append(_path([*forth, *back[::-1]], "band", f'fill="var(--p-{one.style})"', is_closed=True))
    for one in curves:
        points = [(across(x), up(y)) for x, y in zip(one.x, one.y, strict=True)]
        color = f'stroke="var(--p-{one.style})" data-series={quoteattr(one.name)}'
        parts.append(_path(points, "curve main" if one.style == 0 else "curve", color))
        if until is None and len(points) < 12:
            parts += [_dot(x, y, f'fill="var(--p-{one.style})"') for x, y in points]
    names = [] if level is None or not level[1] else [(up(level[0]), level[1], "soft small")]
    parts += _curve_marks(marks, names, x_ends, across, up)
    return Block(width=width, height=top + height + 36, elements=tuple(parts))


def _curve_marks(
    marks: Sequence[Mark],
    names: Sequence[tuple[float, str, str]],
    x_ends: tuple[float, float],
    across: _Place,
    up: _Place,
) -> list[str]:
    """Return the paper's numbers on curves: a point, or a dashed line, or an area, named at the right edge.

    ``names`` are heights, words and styles of more that is named there.
    """
    parts, edge, named = [], across(x_ends[1]), list(names)
    for mark in marks:
        if mark.at is None:
            continue
        x, y = across(mark.at), up(mark.value[0])
        words = f"paper: {mark.words}"
        center = min(max(x, across(x_ends[0]) + _LETTER * len(words) / 2), edge - _LETTER * len(words) / 2)
        parts += [_diamond(x, y, mark.words), _text(center, y + 19, words, "paper halo mid")]
    for mark in marks:
        if mark.at is not None:
            continue
        left = across(x_ends[0] + mark.since * (x_ends[1] - x_ends[0]))
        places = sorted(up(value) for value in mark.value)
        if len(places) > 1:
            box = [(left, places[0]), (edge, places[0]), (edge, places[1]), (left, places[1])]
            parts.append(_path(box, "paper-area", is_closed=True))
        parts += [_path([(left, y), (edge, y)], "paper-line") for y in places]
        middle = sum(places) / len(places)
        parts.append(_diamond(edge, middle, mark.words))
        named.append((middle, f"paper: {mark.of + ' ' if mark.of else ''}{_bounded(mark)}", "paper"))
    below = -np.inf
    for y, words, style in sorted(named):
        below = max(y + 4, below + 13)  # names keep their distance
        parts.append(_text(edge + 9, below, words, style))
    return parts


def rows_block(title: str, rows: Sequence[Row], *, axis: str, level: tuple[float, str] | None = None) -> Block:
    """Return numbers with intervals, a line each, with ours and the paper's in words at the right."""
    left, right, top, step = 222.0, 510.0, 44.0, 18.0
    known = [end for row in rows if row.ours for end in (row.ours.mean, row.ours.low, row.ours.high) if end is not None]
    marked = [value for row in rows if row.mark for value in row.mark.value]
    ends = _ends([np.array(known + marked + ([] if level is None else [level[0]]) or [0.0, 1.0])], margin=0.06)
    across, bottom = _scale(ends, (left, right)), top + step * len(rows)
    parts = [_text(4, 14, title, "title"), _text(right + 12, top - 10, "ours", "soft small")]
    if marked:
        parts.append(_text(right + 130, top - 10, "the paper's", "paper"))
    for at in ticks(*ends):
        parts.append(_path([(across(at), top - 4), (across(at), bottom)], "grid"))
        parts.append(_text(across(at), bottom + 14, f"{at:g}", "soft mid small"))
    parts.append(_text((left + right) / 2, bottom + 30, axis, "soft mid small"))
    if level is not None:
        parts.append(_path([(across(level[0]), top - 4), (across(level[0]), bottom)], "dash"))
        parts.append(_text(across(level[0]), top - 9, level[1], "soft mid small"))
    for number, row in enumerate(rows):
        y = top + step * (number + 0.5)
        parts.append(_text(4, y + 4, row.name, "soft" if row.is_extra else ""))
        parts.append(_text(right + 12, y + 4, row.words, "small"))
        if row.mark is not None:
            parts += _row_mark(row.mark, across, y)
            parts.append(_text(right + 130, y + 4, _bounded(row.mark), "paper"))
        if row.ours is not None:
            parts += _whisker(row, [(across(end), y) for end in _interval(row.ours)])
            color = f'{"stroke" if row.is_open else "fill"}="var(--p-{row.style})" data-series={quoteattr(row.name)}'
            parts.append(_dot(across(row.ours.mean), y, color, 4.5, "open" if row.is_open else ""))
    return Block(width=WIDTH, height=bottom + 34, elements=tuple(parts))


def _row_mark(mark: Mark, across: _Place, y: float) -> list[str]:
    places = [across(value) for value in mark.value]
    if len(places) > 1:
        low, high = min(places), max(places)
        area = _path([(low, y - 6), (high, y - 6), (high, y + 6), (low, y + 6)], "paper-area", is_closed=True)
        return [
            area,
            *(_path([(x, y - 6), (x, y + 6)], "paper-line") for x in places),
            _diamond(sum(places) / 2, y, mark.words),
        ]
    bound = [_path([(places[0], y), (places[0] - 22, y)], "paper-line")] if mark.is_bound else []
    return [*bound, _diamond(places[0], y, mark.words)]


def bars_block(title: str, groups: Mapping[str, Sequence[Row]], *, axes: tuple[str, str]) -> Block:
    """Return bars in groups, with intervals, and the paper's numbers as dashed lines over them."""
    names = {row.name: row.style for rows in groups.values() for row in rows}
    legend, top = _legend(list(names.items()), WIDTH)
    top, height, left = top + 28, 220.0, 46.0
    every = [row for rows in groups.values() for row in rows]
    known = [end for row in every if row.ours for end in (row.ours.mean, row.ours.high) if end is not None]
    marked = [value for row in every if row.mark for value in row.mark.value]
    ends = (0.0, 1.08 * max(known + marked, default=1.0))
    up, span = _scale(ends, (top + height, top)), (WIDTH - left - 8) / len(groups)
    parts = [_text(4, 14, title, "title"), *legend, _text(4, top - 6, axes[1], "soft small")]
    for at in ticks(*ends):
        parts.append(_path([(left, up(at)), (WIDTH - 8, up(at))], "grid"))
        parts.append(_text(left - 6, up(at) + 4, f"{at:g}", "soft end small"))
    for number, (name, rows) in enumerate(groups.items()):
        center = left + span * (number + 0.5)
        wide = min(46.0, 0.7 * span / len(rows))
        parts.append(_text(center, top + height + 16, name, "mid"))
        for place, row in enumerate(rows):
            x = center + wide * (place - len(rows) / 2)
            if row.ours is None:
                continue
            parts.append(
                f'<rect x="{x + 2:.1f}" y="{up(row.ours.mean):.1f}" width="{wide - 4:.1f}" '
                f'height="{up(0.0) - up(row.ours.mean):.1f}" fill="var(--p-{row.style})" opacity=".55" '
                f"data-series={quoteattr(row.name)}/>"
            )
            parts += _whisker(row, [(x + wide / 2, up(end)) for end in _interval(row.ours)])
            if row.mark is not None:
                places = sorted(up(value) for value in row.mark.value)
                box = [(x, places[0]), (x + wide, places[0]), (x + wide, places[-1]), (x, places[-1])]
                parts.append(_path(box, "paper-area", is_closed=True))
                parts += [_path([(x - 4, y), (x + wide + 4, y)], "paper-line") for y in places]
                parts.append(_diamond(x + wide + 4, sum(places) / len(places), row.mark.words))
                parts.append(_text(x + wide / 2, places[0] - 6, f"paper: {row.mark.words}", "paper mid"))
    parts.append(_text((left + WIDTH - 8) / 2, top + height + 34, axes[0], "soft mid small"))
    return Block(width=WIDTH, height=top + height + 38, elements=tuple(parts))


def _scale(ends: tuple[float, float], places: tuple[float, float]) -> _Place:
    span = max(ends[1] - ends[0], 1e-12)
    return lambda value: places[0] + (value - ends[0]) / span * (places[1] - places[0])


def _ends(values: Sequence[Vector], margin: float = 0.0) -> tuple[float, float]:
    """Return the ends of an axis that shows all values."""
    every = np.concatenate([np.ravel(one) for one in values])
    low, high = float(np.nanmin(every)), float(np.nanmax(every))
    more = margin * (high - low) if high > low else 0.5
    return low - more, high + more


def _grid(x_ends: tuple[float, float], y_ends: tuple[float, float], across: _Place, up: _Place) -> list[str]:
    left, right, bottom = across(x_ends[0]), across(x_ends[1]), up(y_ends[0])
    parts = []
    for at in ticks(*y_ends):
        parts.append(_path([(left, up(at)), (right, up(at))], "axis" if at == 0.0 else "grid"))
        parts.append(_text(left - 6, up(at) + 4, f"{at:g}", "soft end small"))
    parts += [_text(across(at), bottom + 15, f"{at:g}", "soft mid small") for at in ticks(*x_ends)]
    return parts


def _legend(entries: Sequence[tuple[str, int]], width: float) -> tuple[list[str], float]:
    """Return the names with their colours, and how far down they reach."""
    parts, left, top = [], 4.0, 32.0
    for name, style in entries:
        length = 26 + _LETTER * len(name) + 12
        if left > 4.0 and left + length > width:
            left, top = 4.0, top + _LINE
        parts.append(_path([(left, top - 4), (left + 18, top - 4)], "curve main", f'stroke="var(--p-{style})"'))
        parts.append(_text(left + 24, top, name))
        left += length
    return parts, top


def _interval(ours: Figure) -> list[float]:
    return [] if ours.low is None or ours.high is None else [ours.low, ours.high]


def _whisker(row: Row, ends: Sequence[tuple[float, float]]) -> list[str]:
    return [_path(ends, "whisker", f'stroke="var(--p-{row.style})"')] if ends else []


def _bounded(mark: Mark) -> str:
    return f"≤ {mark.words}" if mark.is_bound else mark.words


def _text(x: float, y: float, words: str, style: str = "") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def _dot(x: float, y: float, color: str, radius: float = 3.0, style: str = "") -> str:
    kind = f'class="{style}" ' if style else ""
    return f'<circle {kind}cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" {color}/>'


def _diamond(x: float, y: float, words: str) -> str:
    return f'<path class="paper" data-paper={quoteattr(words)} d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z"/>'


def _path(points: Sequence[tuple[float, float]], style: str, more: str = "", *, is_closed: bool = False) -> str:
    """Return a line through points as steps from one to the next, which take fewer letters."""
    at = [(round(x, 1), round(y, 1)) for x, y in points]
    steps = "".join(f"l{x - before_x:.4g} {y - before_y:.4g}" for (before_x, before_y), (x, y) in pairwise(at))
    end = "z" if is_closed else ""
    return f'<path class="{style}" {more + " " if more else ""}d="M{at[0][0]:g} {at[0][1]:g}{steps}{end}"/>'
