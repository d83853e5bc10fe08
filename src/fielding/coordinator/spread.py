"""Does a cluster hold two clients that lie too far apart? Answered without all pairs where that is possible."""

from itertools import pairwise

import numpy as np

from fielding._typing import Counts, Matrix, Membership, Vector
from fielding.coordinator.points import Points
from fielding.distance import TIE, Metric

LARGEST_BLOCK = 4096
"""Clients on each side of the pairs that are looked at; above that only those farthest from the center."""


def holds_pair_beyond(delta: float, points: Points, membership: Membership, *, centers: Matrix, metric: Metric) -> bool:
    """Return whether some cluster holds two clients farther apart than ``delta`` (strict, beyond 1e-9).

    Parameters
    ----------
    delta
        The bound.
    points, membership
        The clients and the cluster of each.
    centers
        The mean of each cluster's clients, one row per cluster.
    metric
        The distance between clients.

    Returns
    -------
    Exact for up to :data:`LARGEST_BLOCK` candidates per cluster; beyond, the clients farthest from the center are
    looked at, so that a "no" may miss a pair.
    """
    radii = _radii(points, membership, centers, metric)
    order = np.argsort(membership, kind="stable")
    ends = np.searchsorted(membership[order], np.arange(centers.shape[0] + 1))
    for start, end in pairwise(ends):
        members = order[start:end]
        if members.size > 1 and _cluster_holds_pair(delta, points, members, radii=radii[members], metric=metric):
            return True
    return False


def widest_apart(points: Points, *, metric: Metric) -> float:
    """Return about how far two of the clients lie apart at most: at least half of it where detours are longer.

    From the client farthest from the mean of all to the one farthest from that client; 0 for none.

    Examples
    --------
    >>> from fielding.distance import metric_named
    >>> widest_apart(Points(np.array([[0.0], [1.0], [7.0]])), metric=metric_named("l2"))
    7.0
    """
    if not len(points):
        return 0.0
    total = np.sum([rows.sum(axis=0) for _, rows in points.chunks()], axis=0)
    end = int(np.argmax(_distances(points, (total / len(points))[np.newaxis], metric)))
    return float(_distances(points, points.take(np.array([end])), metric).max())


def _distances(points: Points, place: Matrix, metric: Metric) -> Vector:
    """Return the distance of every client from one place."""
    return np.concatenate([metric.between(rows, place)[:, 0] for _, rows in points.chunks()])


def _radii(points: Points, membership: Membership, centers: Matrix, metric: Metric) -> Vector:
    """Return the distance of every client to the center of its cluster."""
    radii = np.empty(len(points), dtype=np.float64)
    for part, rows in points.chunks():
        distances = metric.between(rows, centers)
        radii[part] = distances[np.arange(rows.shape[0]), membership[part]]
    return radii


def _cluster_holds_pair(delta: float, points: Points, members: Counts, *, radii: Vector, metric: Metric) -> bool:
    widest = float(radii.max())
    if metric.has_triangle and 2.0 * widest <= delta:
        return False  # any two clients lie within twice the radius
    if metric.is_norm and widest > delta + TIE:
        return True  # a norm is convex: some member lies at least as far as the mean of all does
    # By the triangle inequality one end of such a pair lies beyond delta/2, the other beyond delta - widest.
    ends = radii > delta / 2.0 if metric.has_triangle else np.ones(members.size, dtype=np.bool_)
    others = radii > delta - widest if metric.has_triangle else ends
    farthest_first = np.argsort(-radii, kind="stable")
    left = members[farthest_first[ends[farthest_first]][:LARGEST_BLOCK]]
    right = points.take(np.sort(members[farthest_first[others[farthest_first]][:LARGEST_BLOCK]]))
    for start in range(0, left.size, 256):
        block = points.take(np.sort(left[start : start + 256]))
        if (metric.between(block, right) > delta + TIE).any():
            return True
    return False
