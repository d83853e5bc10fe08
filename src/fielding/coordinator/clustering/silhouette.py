"""Mean silhouettes of several partitions of the same points, exact, from one shared pass over the distances."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fielding._typing import Matrix, Membership, Vector
from fielding.coordinator.clustering.distance_sums import distance_sums
from fielding.coordinator.points import Points
from fielding.distance import TIE, Metric

PEEK = 1024  # rows that are compared at a time when distinct points are counted


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
    min_silhouette
        When even the best candidate scores less, there is one cluster.
    hysteresis
        A current K among the candidates stays unless the best one scores more than this above it; 0 switches it off.

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
    """Return how many different points there are, but stop counting at the limit."""
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


def mean_silhouettes(points: Matrix, partitions: Sequence[Membership], *, metric: Metric) -> list[float]:
    """Return the mean silhouette of every partition.

    A point's silhouette is ``(b - a) / max(a, b)``: a is its mean distance to the other members of its cluster, b the
    smallest mean distance to another cluster. It is 0 for the only member of a cluster, for points at distance
    zero from everything, and where there is only one cluster.

    Examples
    --------
    >>> from fielding.distance import METRICS
    >>> line = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> halves = np.array([0, 0, 1, 1], dtype=np.int32)
    >>> [round(mean, 3) for mean in mean_silhouettes(line, [halves], metric=METRICS["l1"])]
    [0.9]
    """
    all_sums = distance_sums(points, partitions, metric=metric)
    return [_mean_silhouette(sums, labels) for sums, labels in zip(all_sums, partitions, strict=True)]


def _mean_silhouette(sums: Matrix, labels: Membership) -> float:
    sizes = np.bincount(labels, minlength=sums.shape[1])
    if sizes.size < 2:
        return 0.0
    rows = np.arange(len(labels))
    own_sizes = sizes[labels]
    within = sums[rows, labels] / np.maximum(own_sizes - 1, 1)
    means = sums / sizes
    means[rows, labels] = np.inf
    between = means.min(axis=1)
    widest = np.maximum(within, between)
    is_defined = (own_sizes > 1) & (widest > 0.0)
    scores = np.where(is_defined, (between - within) / np.where(is_defined, widest, 1.0), 0.0)
    return float(scores.mean())
