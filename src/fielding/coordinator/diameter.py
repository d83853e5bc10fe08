"""How wide clusters are: the largest distance between two of their clients (Delta in the paper)."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fielding._typing import Counts, Membership, Vector
from fielding.coordinator.points import Points
from fielding.distance import Metric
from fielding.errors import InputError

MOST_MEMBERS = 4096
"""Clusters up to this size are measured exactly, larger ones on so many of their clients."""
BLOCK = 256
"""Clients whose distances to all others are taken at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How far apart the clients of a cluster lie.

    Parameters
    ----------
    largest
        The largest distance between two clients of one cluster; None if every cluster is a singleton.
    per_cluster
        The same for each cluster that has two clients or more, by its index.
    is_exact
        False if a cluster was too large to look at all its pairs: then the numbers are lower bounds.
    """

    largest: float | None
    per_cluster: dict[int, float]
    is_exact: bool


def spread_within(points: Points, membership: Membership, *, metric: Metric, rng: np.random.Generator) -> Spread:
    """Return the diameter of every cluster and the largest of them.

    Parameters
    ----------
    points
        The representations of the clients.
    membership
        The cluster of each, shape ``(n_points,)``; -1 for a client without a cluster, which is left out.
    metric
        The distance.
    rng
        Chooses the clients that stand for a cluster of more than :data:`MOST_MEMBERS`: half of them are the farthest
        from its center, half are drawn at random.

    Examples
    --------
    >>> from fielding.distance import metric_named
    >>> from fielding.rng import stream
    >>> rows = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    >>> spread_within(Points(rows), np.array([0, 0, 1]), metric=metric_named("l1"), rng=stream(1, "spread"))
    Spread(largest=1.0, per_cluster={0: 1.0}, is_exact=True)
    """
    if membership.shape != (len(points),):
        raise InputError(f"membership has shape {membership.shape} for {len(points)} points; give one cluster each")
    order = np.argsort(membership, kind="stable")
    ends = [*np.flatnonzero(np.diff(membership[order], prepend=-2)).tolist(), order.size]
    diameters: dict[int, float] = {}
    is_exact = True
    for start, stop in pairwise(ends):
        cluster, members = int(membership[order[start]]), np.sort(order[start:stop])
        if cluster >= 0 and members.size > 1:
            is_exact &= members.size <= MOST_MEMBERS
            diameters[cluster] = _diameter(points, _chosen(points, members, metric, rng), metric)
    return Spread(largest=max(diameters.values(), default=None), per_cluster=diameters, is_exact=is_exact)


def _chosen(points: Points, members: Counts, metric: Metric, rng: np.random.Generator) -> Counts:
    """Return all members, or those that stand for them."""
    if members.size <= MOST_MEMBERS:
        return members
    radii = _radii(points, members, metric)
    far = members[np.argsort(-radii, kind="stable")[: MOST_MEMBERS // 2]]
    others = np.setdiff1d(members, far, assume_unique=True)
    return np.sort(np.concatenate([far, rng.choice(others, MOST_MEMBERS // 2, replace=False)]))


def _radii(points: Points, members: Counts, metric: Metric) -> Vector:
    """Return the distance of each member to the mean of all."""
    parts = [members[start : start + BLOCK] for start in range(0, members.size, BLOCK)]
    total = np.sum([points.take(part).sum(axis=0) for part in parts], axis=0)
    center = np.asarray(total / members.size)[np.newaxis]
    return np.concatenate([metric.between(points.take(part), center)[:, 0] for part in parts])


def _diameter(points: Points, members: Counts, metric: Metric) -> float:
    rows = points.take(members)
    blocks = range(0, members.size, BLOCK)
    return max(float(metric.between(rows[start : start + BLOCK], rows[start:]).max()) for start in blocks)
