"""Long logs made short enough to draw, without losing what stands out."""

import numpy as np

from fielding._typing import Vector

MOST_POINTS = 2000
"""Points of a curve; no screen shows more."""
MOST_BARS = 400
"""Bars of a figure."""


def thinned(x: Vector, y: Vector, most: int = MOST_POINTS) -> tuple[Vector, Vector]:
    """Return a curve of at most so many points, four at least: first, last, and the extremes of equal parts between.

    Examples
    --------
    >>> y = np.zeros(100)
    >>> y[37] = 1.0
    >>> x, y = thinned(np.arange(100.0), y, most=6)
    >>> x.tolist(), y.tolist()
    ([0.0, 1.0, 37.0, 50.0, 99.0], [0.0, 0.0, 1.0, 0.0, 0.0])
    """
    if x.size <= most:
        return x, y
    edges = np.linspace(1, x.size - 1, max(1, most // 2 - 1) + 1).astype(np.int64)
    kept = [0]
    for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part, is_gap = y[start:stop], np.isnan(y[start:stop])
        lowest, highest = np.where(is_gap, np.inf, part).argmin(), np.where(is_gap, -np.inf, part).argmax()
        kept += sorted({start + int(lowest), start + int(highest)})
    chosen = np.array([*kept, x.size - 1])
    return x[chosen], y[chosen]


def binned(values: Vector, most: int = MOST_BARS) -> tuple[Vector, Vector, int]:
    """Return sums over equal spans of rounds, the round each span begins with, and how many rounds a span has.

    Examples
    --------
    >>> starts, sums, width = binned(np.ones(10), most=4)
    >>> starts.tolist(), sums.tolist(), width
    ([0.0, 3.0, 6.0, 9.0], [3.0, 3.0, 3.0, 1.0], 3)
    """
    width = max(1, -(-values.size // most))
    starts = np.arange(0, values.size, width)
    sums = np.add.reduceat(np.nan_to_num(values, nan=0.0), starts) if values.size else np.zeros(0)
    return starts.astype(np.float64), sums, width
