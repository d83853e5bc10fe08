"""Stages 5 and 6, first half: drifted clients to the nearest frozen center, then centers from their members."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fielding._typing import Codes, Counts, Floats, Mask, Matrix, Membership, Vector
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


CLEAR = 1.645  # standard errors of its margin by which a noised report has to lie nearer to another center: 5 %


def clear_moves(
    points: Points,
    centers: Matrix,
    old: Membership,
    new: Membership,
    *,
    n_samples: Codes,
    noise_variance: float,
    has_shares: bool = True,
) -> Mask:
    """Return which clients lie nearer to their new center by more than sampling and noise explain.

    The margin is the difference of the squared Euclidean distances from the two centers. For a client halfway between
    them, with label shares p, it has mean 0 and variance ``4 D' (diag(p) - p p') D / n + 4 v |D|^2 / n^2`` with D the
    difference of the centers and v the ``noise_variance`` of a count. Where reports are no shares but means of vectors
    of length 1 at most, the variance of a sample along D is taken to be the largest possible, ``|D|^2``. A client
    without a cluster, or that stays, is clear; one whose number of samples is not known is not.

    Examples
    --------
    >>> centers, old, new = np.eye(2), np.array([0, 0], dtype=np.int32), np.array([1, 1], dtype=np.int32)
    >>> told, n_samples = Points(np.array([[0.4, 0.6], [0.4, 0.6]])), np.array([40, 4000], dtype=np.int32)
    >>> clear_moves(told, centers, old, new, n_samples=n_samples, noise_variance=8.0).tolist()
    [False, True]
    """
    is_clear: Mask = np.asarray((old == new) | (old == UNASSIGNED))
    at = np.flatnonzero(~is_clear)
    rows, sizes = points.take(at), n_samples[at].astype(np.float64)
    here, there = centers[old[at]], centers[new[at]]
    apart = there - here
    margin = np.square(rows - here).sum(axis=1) - np.square(rows - there).sum(axis=1)
    halfway = np.maximum(here + there, 0.0)
    halfway /= np.maximum(halfway.sum(axis=1, keepdims=True), TIE)
    along = np.square(apart)
    sampling = (halfway * along).sum(axis=1) - np.square((halfway * apart).sum(axis=1))
    if not has_shares:
        sampling = along.sum(axis=1)
    known = np.maximum(sizes, 1.0)
    error = 2.0 * np.sqrt(np.maximum(sampling, 0.0) / known + noise_variance * along.sum(axis=1) / known**2)
    is_clear[at] = (sizes > 0.0) & (margin > CLEAR * error)
    return is_clear


def root_shares(rows: Matrix) -> Matrix:
    """Return noised shares where groups show best: roots of what is above zero, divided by its sum (Hellinger).

    A row with nothing above zero is taken to be even.

    Examples
    --------
    >>> root_shares(np.array([[1.2, -0.2, 0.4], [-1.0, 0.0, 0.0]])).round(3).tolist()
    [[0.866, 0.0, 0.5], [0.577, 0.577, 0.577]]
    """
    positive = np.maximum(rows, 0.0)
    sums = positive.sum(axis=1, keepdims=True)
    return np.asarray(np.sqrt(np.where(sums > 0.0, positive / np.maximum(sums, TIE), 1.0 / rows.shape[1])))


FAR = 3.0  # times what members usually lie from their mean: those farther out do not count for a robust center


def recompute_centers(
    registry: Registry, centers: Matrix, clusters: Iterable[int], *, robust: Metric | None = None
) -> Matrix:
    """Return the centers with those of some clusters computed anew from their active members.

    A cluster without active members keeps the center it had: it is dormant and may be joined again. ``robust``: as in
    :func:`center_of`.
    """
    fresh = centers.copy()
    for cluster in clusters:
        members = registry.members(cluster)
        if not members.size:
            continue
        fresh[cluster] = center_of(registry.representations, members, robust=robust)
    return fresh


def center_of(representations: Floats, members: Counts, *, robust: Metric | None = None) -> Vector:
    """Return the mean of what some members, at least one, reported.

    ``robust``: by this metric, members that lie farther from the mean than three times what members usually do (the
    median) are left out, and the mean is taken anew: what few clients report hardly moves it. None: all count.

    Examples
    --------
    >>> from fielding.distance import METRICS
    >>> rows = np.array([[0.0], [1.0], [2.0], [101.0]], dtype=np.float32)
    >>> center_of(rows, np.arange(4)).tolist(), center_of(rows, np.arange(4), robust=METRICS["l2"]).tolist()
    ([26.0], [26.0])
    >>> rows = np.concatenate([np.arange(9.0), [95.0]]).astype(np.float32)[:, np.newaxis]
    >>> center_of(rows, np.arange(10), robust=METRICS["l2"]).tolist()
    [4.0]
    """
    points = Points(representations, members)
    center = points.mean()
    if robust is None:
        return center
    distances = np.concatenate([robust.between(rows, center[np.newaxis])[:, 0] for _, rows in points.chunks()])
    kept = distances <= FAR * np.median(distances) + TIE
    return center if kept.all() else Points(representations, members[kept]).mean()


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


def settle(
    registry: Registry, labels: Membership, ids: Sequence[int], *, metric: Metric, is_robust: bool = False
) -> Clusters:
    """Write a new partition of the active clients into the registry and return its clusters.

    ``labels``: the cluster of each active client, in the order of rows. Inactive clients that once had a cluster are
    given the nearest new one.
    """
    by_id: Counts = np.argsort(np.asarray(ids))
    position = np.empty(len(ids), dtype=np.int32)
    position[by_id] = np.arange(len(ids), dtype=np.int32)
    registry.membership[registry.active_rows()] = position[labels]
    blank = np.zeros((len(ids), registry.representations.shape[1]), dtype=np.float64)
    centers = recompute_centers(registry, blank, range(len(ids)), robust=metric if is_robust else None)
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
