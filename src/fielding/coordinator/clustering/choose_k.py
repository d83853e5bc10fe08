"""Stage 7: how many clusters, by the mean silhouette of one candidate partition per K."""

import math
from collections.abc import Mapping

from fielding._typing import Vector
from fielding.coordinator.points import Points
from fielding.distance import TIE

PEEK = 1024
"""Rows that are compared at a time when distinct points are counted."""


def choose_k(
    silhouettes: Mapping[int, float],
    *,
    min_silhouette: float = -1.0,
    hysteresis: float = 0.0,
    current: int | None = None,
) -> int:
    """Return the number of clusters (METHODS.md, A7).

    Parameters
    ----------
    silhouettes
        The mean silhouette per candidate K.
    min_silhouette
        When even the best candidate scores less, there is one cluster.
    hysteresis
        A current K among the candidates stays unless the best one scores more than this above it; 0 switches it off.
    current
        How many clusters there are now, if any.

    Returns
    -------
    The K with the largest silhouette; among equals (within 1e-9) the smallest. 1 without candidates.

    Examples
    --------
    >>> choose_k({2: 0.50, 3: 0.52, 4: 0.52})
    3
    >>> choose_k({2: 0.50, 3: 0.52}, hysteresis=0.05, current=2)
    2
    >>> choose_k({2: 0.10, 3: 0.05}, min_silhouette=0.25)
    1
    """
    if not silhouettes:
        return 1
    best = max(silhouettes.values())
    if best < min_silhouette:
        return 1
    if hysteresis > 0.0 and current is not None and best - silhouettes.get(current, -math.inf) <= hysteresis:
        return current
    return min(k for k, score in silhouettes.items() if score >= best - TIE)


def count_distinct(points: Points, limit: int) -> int:
    """Return how many different points there are, but stop counting at the limit.

    Examples
    --------
    >>> import numpy as np
    >>> count_distinct(Points(np.array([[1.0], [2.0], [1.0], [3.0]])), limit=10)
    3
    >>> count_distinct(Points(np.array([[1.0], [2.0], [1.0], [3.0]])), limit=2)
    2
    """
    found: list[Vector] = []
    for _, rows in points.chunks(PEEK):
        for known in found:
            rows = rows[(rows != known).any(axis=1)]
        while len(rows):
            found.append(rows[0])
            if len(found) >= limit:
                return limit
            rows = rows[(rows != rows[0]).any(axis=1)]
    return len(found)
