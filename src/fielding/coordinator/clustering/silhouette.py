"""Mean silhouettes of several partitions of the same points, exact, from one shared pass over the distances."""

from collections.abc import Sequence

import numpy as np

from fielding._typing import Matrix, Membership
from fielding.coordinator.clustering.distance_sums import distance_sums
from fielding.distance import Metric


def mean_silhouettes(points: Matrix, partitions: Sequence[Membership], *, metric: Metric) -> list[float]:
    """Return the mean silhouette of every partition.

    A point's silhouette is ``(b - a) / max(a, b)``: a is its mean distance to the other members of its cluster, b the
    smallest mean distance to another cluster. It is 0 for the only member of a cluster, for points at distance
    zero from everything, and where there is only one cluster.

    Parameters
    ----------
    points
        One representation per row, shape ``(n_points, n_features)``.
    partitions
        Each of shape ``(n_points,)``, cluster indices from 0, every cluster with a member.
    metric
        What a distance is.

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
