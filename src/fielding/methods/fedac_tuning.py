"""FedAC-style: whether one cluster more or one less would tell clients apart better."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Matrix, Membership, Vector
from fielding.coordinator.clustering import KMeans
from fielding.distance import METRICS

FEWEST = 4
"""Clients that a cluster must have after a split; fewer are outliers, and its model would be the work of one or two."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Change:
    """Another grouping.

    Parameters
    ----------
    labels
        The cluster of each client that was looked at, shape ``(n_points,)``.
    parents
        Share of each old cluster in each new one, rows sum to 1.
    rows
        The old cluster that each new one goes on as, -1 for one that is new, shape ``(n_after,)``.
    """

    labels: Membership
    parents: Matrix
    rows: Membership


def variance_ratio(points: Matrix, labels: Membership) -> float:
    """Return the spread between clusters over that within them, each by its degrees of freedom; 0 for one cluster.

    Squared distances and degrees of freedom (Calinski and Harabasz, 1974), not bare means: of two clusters that are
    both cut in half, joining either pair alone would never pay.

    Examples
    --------
    >>> line = np.array([[0.0], [2.0], [8.0], [10.0]])
    >>> variance_ratio(line, np.array([0, 0, 1, 1], dtype=np.int32))
    32.0
    >>> variance_ratio(line, np.array([0, 0, 0, 0], dtype=np.int32))
    0.0
    """
    heads = np.bincount(labels)
    k = int((heads > 0).sum())
    if k < 2 or k >= points.shape[0]:
        return 0.0
    centers = cluster_centers(points, labels, k=heads.size)
    within = float(((points - centers[labels]) ** 2).sum())
    between = float((heads[:, np.newaxis] * (centers - points.mean(axis=0)) ** 2).sum())
    return np.inf if within == 0.0 else (between / (k - 1)) / (within / (points.shape[0] - k))


def cluster_centers(points: Matrix, labels: Membership, *, k: int) -> Matrix:
    """Return the mean of every cluster's points, shape ``(k, n_features)``; 0 for a cluster without any."""
    centers = np.zeros((k, points.shape[1]))
    np.add.at(centers, labels, points)
    return np.asarray(centers / np.maximum(np.bincount(labels, minlength=k), 1)[:, np.newaxis])


def better_grouping(points: Matrix, labels: Membership, *, most: int, rng: np.random.Generator) -> Change | None:
    """Return the grouping with one cluster more or less that raises the ratio most; None if neither raises it.

    Parameters
    ----------
    points
        One row per client.
    labels
        Its cluster, from 0 without gaps.
    most
        How many clusters there may be; never fewer than two.
    rng
        For cutting a cluster in two.
    """
    k = int(labels.max()) + 1
    tried: list[Change | None] = []
    if k < most:
        tried.append(_with_loosest_split(points, labels, rng))
    if k > 2:
        tried.append(_with_closest_merged(points, labels))
    best, best_ratio = None, variance_ratio(points, labels)
    for change in tried:
        if change is not None and (ratio := variance_ratio(points, change.labels)) > best_ratio:
            best, best_ratio = change, ratio
    return best


def _with_loosest_split(points: Matrix, labels: Membership, rng: np.random.Generator) -> Change | None:
    """Cut the cluster in two whose clients lie farthest from its center on average."""
    k = int(labels.max()) + 1
    loosest = int(np.argmax(_mean_distances(points, labels)))
    own = np.flatnonzero(labels == loosest)
    if own.size < 2 * FEWEST:
        return None
    halves = KMeans().partitions(points[own], [2], metric=METRICS["l2"], rng=rng)[2]
    if np.bincount(halves, minlength=2).min() < FEWEST:
        return None
    changed = labels.copy()
    changed[own[halves != halves[0]]] = k
    rows = np.append(np.arange(k, dtype=np.int32), np.int32(-1))
    return Change(labels=changed, parents=np.eye(k)[[*range(k), loosest]], rows=rows)


def _mean_distances(points: Matrix, labels: Membership) -> Vector:
    heads = np.bincount(labels)
    distances = np.linalg.norm(points - cluster_centers(points, labels, k=heads.size)[labels], axis=1)
    return np.asarray(np.bincount(labels, weights=distances) / heads)


def _with_closest_merged(points: Matrix, labels: Membership) -> Change:
    """Join the two clusters whose centers are nearest; the larger goes on (ties: the first)."""
    heads = np.bincount(labels)
    centers = cluster_centers(points, labels, k=heads.size)
    gaps = np.linalg.norm(centers[:, np.newaxis] - centers, axis=2)
    gaps[np.tril_indices(heads.size)] = np.inf
    pair = np.unravel_index(int(np.argmin(gaps)), gaps.shape)
    first, second = sorted((int(pair[0]), int(pair[1])), key=lambda one: (-heads[one], one))
    kept = np.delete(np.arange(heads.size, dtype=np.int32), second)
    parents = np.eye(heads.size)
    parents[first] = (heads[first] * parents[first] + heads[second] * parents[second]) / (heads[first] + heads[second])
    row_of = np.zeros(heads.size, dtype=np.int32)
    row_of[kept] = np.arange(kept.size)
    row_of[second] = row_of[first]
    return Change(labels=row_of[labels], parents=parents[kept], rows=kept)
