"""Stages 5 and 6, first half: drifted clients to the nearest frozen center, then centers from their members."""

from collections.abc import Iterable

import numpy as np

from fielding._typing import Floats, Matrix, Membership
from fielding.coordinator.points import Points
from fielding.coordinator.registry import Registry
from fielding.distance import TIE, Metric


def nearest_clusters(points: Points, centers: Matrix, *, metric: Metric, current: Membership) -> Membership:
    """Return the cluster that each client now resembles, with the centers held still.

    Parameters
    ----------
    points
        The clients that reported, ``n`` of them.
    centers
        One row per cluster, shape ``(n_clusters, n_features)``.
    metric
        The distance to decide by.
    current
        The cluster that each of the clients is in, shape ``(n,)``; -1 for none.

    Returns
    -------
    A cluster per client; a tie (within 1e-9) goes to the current cluster, then to the lowest one. The answer for a
    client does not depend on the others.

    Examples
    --------
    >>> from fielding.distance import metric_named
    >>> drifted = Points(np.array([[0.9, 0.1], [0.5, 0.5]]))
    >>> current = np.array([1, 1], dtype=np.int32)
    >>> nearest_clusters(drifted, np.eye(2), metric=metric_named("l1"), current=current).tolist()
    [0, 1]
    """
    nearest = np.empty(len(points), dtype=np.int32)
    for part, rows in points.chunks():
        distances = metric.between(rows, centers)
        is_tied = distances <= distances.min(axis=1, keepdims=True) + TIE
        first = np.argmax(is_tied, axis=1)
        here = current[part]
        stays = (here >= 0) & is_tied[np.arange(here.size), here]
        nearest[part] = np.where(stays, here, first)
    return nearest


def mean_of(points: Points) -> Floats:
    """Return the mean of the points in float64, added up in the order of rows."""
    total = np.zeros(points.n_features, dtype=np.float64)
    for _, rows in points.chunks():
        total += rows.sum(axis=0)
    return total / len(points)


def recomputed_centers(registry: Registry, centers: Matrix, clusters: Iterable[int]) -> Matrix:
    """Return the centers with those of some clusters computed anew from their active members.

    A cluster without active members keeps the center it had: it is dormant and may be joined again.
    """
    fresh = centers.copy()
    for cluster in clusters:
        members = registry.members(cluster)
        if members.size:
            fresh[cluster] = mean_of(Points(registry.representations, members))
    return fresh
