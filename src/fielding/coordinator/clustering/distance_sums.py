"""How far every point lies from every cluster of several partitions: all that a silhouette needs, in one pass.

Partitions of the same points share many clusters, and many clients send the same histogram. So equal clusters are
summed once and equal points are measured once, whatever the metric.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Mask, Matrix, Membership
from fielding.coordinator.clustering.pairwise_sums import euclidean_sums, sums_of
from fielding.coordinator.clustering.sorted_sums import l1_sums
from fielding.coordinator.clustering.space import jensen_shannon, root_rows
from fielding.distance import METRICS, Metric, unit_rows

COSINE_NOISE = 1e-13
"""Mean cosine distances below this are rounding."""


def distance_sums(points: Matrix, partitions: Sequence[Membership], *, metric: Metric) -> list[Matrix]:
    """Return the sum of distances from every point to the members of every cluster, per partition.

    Parameters
    ----------
    points
        One representation per row, shape ``(n_points, n_features)``.
    partitions
        Each of shape ``(n_points,)``, cluster indices from 0.
    metric
        What a distance is; a point's distance to itself is 0.

    Returns
    -------
    Per partition a matrix of shape ``(n_points, n_clusters)``.

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [5.0]])
    >>> split = np.array([0, 0, 1], dtype=np.int32)
    >>> distance_sums(line, [split], metric=METRICS["l1"])[0].tolist()
    [[1.0, 5.0], [1.0, 4.0], [9.0, 0.0]]
    """
    members, columns = _distinct_clusters(partitions)
    distinct = _distinct_points(points)
    weights = np.add.reduceat(members[distinct.order], distinct.starts, axis=0)
    sums = _weighted_sums(points[distinct.order[distinct.starts]], weights, metric)[distinct.group]
    return [sums[:, column] for column in columns]


def _weighted_sums(points: Matrix, weights: Matrix, metric: Metric) -> Matrix:
    """Return for distinct points and columns of weights the sums of weight times distance."""
    if metric is not METRICS.get(metric.name):
        return sums_of(points, weights, metric.between)
    return _SUMS[metric.name](points, weights)


def _cosine_sums(points: Matrix, weights: Matrix) -> Matrix:
    units, totals = unit_rows(points), weights.sum(axis=0)
    itself = 1.0 - np.einsum("ij,ij->i", units, units)
    sums = totals - units @ (units.T @ weights) - itself[:, None] * weights
    # One minus one leaves noise, which must not pass for a distance.
    return np.where(sums > COSINE_NOISE * totals, sums, 0.0)


_SUMS: dict[str, Callable[[Matrix, Matrix], Matrix]] = {
    "l1": l1_sums,
    "l2": euclidean_sums,
    "hellinger": lambda points, weights: euclidean_sums(root_rows(points), weights),
    "js": lambda points, weights: sums_of(points, weights, jensen_shannon),
    "cosine": _cosine_sums,
}


def _distinct_clusters(partitions: Sequence[Membership]) -> tuple[Matrix, list[list[int]]]:
    """Return who is in every distinct cluster, as zeros and ones, and the columns of each partition's clusters."""
    column_of: dict[bytes, int] = {}
    members: list[Mask] = []
    columns: list[list[int]] = []
    for labels in partitions:
        columns.append([])
        for index in range(int(labels.max()) + 1):
            inside = labels == index
            column = column_of.setdefault(np.packbits(inside).tobytes(), len(members))
            if column == len(members):
                members.append(inside)
            columns[-1].append(column)
    return np.stack(members, axis=1).astype(np.float64), columns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Distinct:
    """Equal points as groups: positions sorted by group, where each group starts, and the group of every point."""

    order: Counts
    starts: Counts
    group: Counts


def _distinct_points(points: Matrix) -> _Distinct:
    # Equal rows get equal keys; different rows with equal keys merely stay apart or split a group, which does no harm.
    weights = np.cos(np.arange(1.0, points.shape[1] + 1.0))
    keys = np.einsum("ij,j->i", points, weights)
    order = np.argsort(keys, kind="stable")
    is_new = np.ones(len(points), dtype=np.bool_)
    ties = np.flatnonzero(np.diff(keys[order]) == 0.0) + 1
    is_new[ties] = (points[order[ties]] != points[order[ties - 1]]).any(axis=1)
    group = np.empty(len(points), dtype=np.int64)
    group[order] = np.cumsum(is_new) - 1
    return _Distinct(order=order, starts=np.flatnonzero(is_new), group=group)
