"""Stages 5 and 6, first half: drifted clients to the nearest frozen center, then centers from their members."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Mask, Matrix, Membership
from fielding.coordinator.points import Points
from fielding.coordinator.registry import UNASSIGNED, Registry
from fielding.distance import TIE, Metric


def nearest_clusters(points: Points, centers: Matrix, *, metric: Metric, current: Membership) -> Membership:
    """Return the cluster that each client now resembles, with the centers held still.

    ``current``: the cluster that each client is in, -1 for none. A tie (within 1e-9) goes to it, then to the lowest
    one. The answer for a client does not depend on the others.

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


def recompute_centers(registry: Registry, centers: Matrix, clusters: Iterable[int]) -> Matrix:
    """Return the centers with those of some clusters computed anew from their active members.

    A cluster without active members keeps the center it had: it is dormant and may be joined again.
    """
    fresh = centers.copy()
    for cluster in clusters:
        members = registry.members(cluster)
        if members.size:
            fresh[cluster] = Points(registry.representations, members).mean()
    return fresh


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clusters:
    """The clusters, one position each, in rising order of their stable ids.

    ``ids`` outlive re-clusterings. ``centers``: mean representations of the active members, the last one if dormant;
    ``live``: which clusters have active members; ``since_global``: centers right after the last global clustering.
    """

    ids: tuple[int, ...]
    centers: Matrix
    live: Mask
    since_global: Matrix


def live_clusters(registry: Registry, n_clusters: int) -> Mask:
    """Return which cluster positions have active members."""
    sizes = np.bincount(registry.membership[registry.active_rows()], minlength=n_clusters)
    return sizes > 0


def occurring(membership: Membership) -> set[int]:
    """Return the cluster positions that occur; clients without a cluster are passed over."""
    counts = np.bincount(membership + 1)[1:]
    return set(np.flatnonzero(counts).tolist())


def in_order_of_first_member(labels: Membership) -> Membership:
    """Return the same partition with clusters numbered in the order in which they first occur; none may be empty."""
    first = np.array([np.argmax(labels == cluster) for cluster in range(int(labels.max()) + 1)])
    rank = np.empty(first.size, dtype=np.int32)
    rank[np.argsort(first)] = np.arange(first.size, dtype=np.int32)
    return np.asarray(rank[labels])


def settle(registry: Registry, labels: Membership, ids: Sequence[int], *, metric: Metric) -> Clusters:
    """Write a new partition of the active clients into the registry and return its clusters.

    ``labels``: the cluster of each active client, in the order of rows. Inactive clients that once had a cluster are
    given the nearest new one.
    """
    by_id: Counts = np.argsort(np.asarray(ids))
    position = np.empty(len(ids), dtype=np.int32)
    position[by_id] = np.arange(len(ids), dtype=np.int32)
    registry.membership[registry.active_rows()] = position[labels]
    blank = np.zeros((len(ids), registry.representations.shape[1]), dtype=np.float64)
    centers = recompute_centers(registry, blank, range(len(ids)))
    absent = np.flatnonzero(~registry.active & (registry.membership != UNASSIGNED))
    no_cluster = np.full(absent.size, UNASSIGNED, dtype=np.int32)
    last_seen = Points(registry.representations, absent)
    registry.membership[absent] = nearest_clusters(last_seen, centers, metric=metric, current=no_cluster)
    registry.samples.settle(registry.active_rows(), registry.membership)
    return Clusters(
        ids=tuple(ids[at] for at in by_id),
        centers=centers,
        live=np.ones(len(ids), dtype=np.bool_),
        since_global=centers,
    )
