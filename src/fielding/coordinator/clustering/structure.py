"""Whether points have groups at all, and groups that are hidden inside clusters because others lie farther out.

Where a few clients lie far from all others, the partition into these few and the rest has the best silhouette of all,
whatever groups there are among the rest. So each cluster is looked at on its own: it is split again if it falls into
parts more clearly than chance makes points fall (docs/decisions, 47).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from fielding._typing import Counts, Matrix, Membership
from fielding.coordinator.clustering.labels import nearest_center, without_gaps
from fielding.coordinator.clustering.space import cluster_means
from fielding.distance import TIE, Metric

SHARES_TOLERANCE = 1e-3  # rows that sum to one within this, and hold nothing negative, are shares
LEAST_PRECISION = 1e-3  # of shares that differ as much as shares can
FEWEST = 4  # members: fewer are no group
SMALLEST_SHARE = 0.04  # of all points: smaller clusters are not split
MOST_PARTS = 4  # into which a cluster is split at a time
MOST_LOOKED_AT = 256  # points of a cluster that tell whether it has parts; the others follow them
N_DRAWS = 2  # of each kind of chance
MARGIN = 0.5  # over the root of the number of points: the silhouette by which parts must be clearer than by chance

Search: TypeAlias = Callable[[Matrix, Sequence[int]], tuple[list[Membership], list[float]]]
"""Points and numbers of clusters to the best partition for each number, and the mean silhouette of each."""


def without_structure(points: Matrix, rng: np.random.Generator) -> Matrix:
    """Return points with the same values in every feature, dealt anew to the clients, each feature on its own.

    Shares of a row depend on each other by their sum alone if they are independent amounts divided by their sum. So
    rows of shares are made amounts (times a gamma number, as if they came from one Dirichlet distribution), dealt, and
    made shares again; one that got nothing stays zero.
    """
    if (points < 0.0).any() or (np.abs(points.sum(axis=1) - 1.0) > SHARES_TOLERANCE).any():
        return rng.permuted(points, axis=0)
    # The sum of the parameters of a Dirichlet distribution with the same means and the same total variance.
    mean, variance = points.mean(axis=0), float(points.var(axis=0).sum())
    precision = 1.0
    if variance > 0.0:
        precision = max(LEAST_PRECISION, float((mean * (1.0 - mean)).sum()) / variance - 1.0)
    amounts = points * rng.gamma(precision, size=(len(points), 1))
    dealt = rng.permuted(amounts, axis=0)
    sums = dealt.sum(axis=1, keepdims=True)
    return np.asarray(dealt / np.where(sums > 0.0, sums, 1.0))


def beats_null(
    silhouettes: Iterable[float],
    points: Matrix,
    measure: Callable[[Matrix], Iterable[float]],
    *,
    rng: np.random.Generator,
    n_draws: int,
) -> bool:
    """Return whether the best silhouette of some points beats the best of each of some draws without structure.

    The best over all K on both sides: the one that was chosen is the largest of several, and so are those of chance.

    With a single feature there is no structure to remove, and the answer is no. 19 draws let structure pass that is not
    there once in twenty times.
    """
    best = max(silhouettes)
    return all(best > max(measure(without_structure(points, rng))) + TIE for _ in range(n_draws))


def with_same_spread(points: Matrix, rng: np.random.Generator) -> Matrix:
    """Return as many points of one normal distribution with the same mean and covariance; shares stay shares."""
    mean = points.mean(axis=0)
    drawn = mean + rng.normal(size=(len(points), len(points))) @ (points - mean) / np.sqrt(len(points))
    if (points < 0.0).any() or (np.abs(points.sum(axis=1) - 1.0) > SHARES_TOLERANCE).any():
        return np.asarray(drawn)
    drawn = np.maximum(drawn, 0.0)
    return np.asarray(drawn / drawn.sum(axis=1, keepdims=True))


def split_again(
    points: Matrix, labels: Membership, *, search: Search, k_max: int, metric: Metric, rng: np.random.Generator
) -> Membership:
    """Return the partition in which each cluster is split into its groups as long as they are clearer than by chance.

    Parts of fewer than four points are no groups: all of them together make one more cluster if they are four or more,
    else each goes to the nearest. If there are more than ``k_max`` clusters then, the smallest become one.

    Examples
    --------
    Two groups and, far away, two colluders: the best silhouette tells colluders from others.

    >>> from fielding.coordinator.clustering.kmeans import KMeans
    >>> from fielding.coordinator.clustering.silhouette import mean_silhouettes
    >>> from fielding.distance import METRICS
    >>> rng = np.random.default_rng(1)
    >>> groups = [rng.normal(center, 0.1, size=(10, 3)) for center in (0.0, 1.0)]
    >>> points = np.concatenate([*groups, np.full((2, 3), 99.0)])
    >>> def search(rows, ks):
    ...     found = KMeans().partitions(rows, ks, metric=METRICS["l2"], rng=rng)
    ...     return [found[k] for k in ks], mean_silhouettes(rows, [found[k] for k in ks], metric=METRICS["l2"])
    >>> labels = np.array([0] * 20 + [1] * 2, dtype=np.int32)
    >>> np.bincount(split_again(points, labels, search=search, k_max=5, metric=METRICS["l2"], rng=rng)).tolist()
    [10, 10, 2]
    """
    fewest = max(2 * FEWEST, round(SMALLEST_SHARE * len(points)))
    waiting = [np.flatnonzero(labels == cluster) for cluster in range(int(labels.max()) + 1)][::-1]
    groups: list[Counts] = []
    dust: list[Counts] = []
    while waiting:
        rows = waiting.pop()
        parts = (
            groups_within(points[rows], search=search, k_max=k_max, metric=metric, rng=rng)
            if len(rows) >= fewest
            else None
        )
        if parts is None:
            groups.append(rows)
            continue
        members = [rows[parts == part] for part in range(int(parts.max()) + 1)]
        waiting.extend(part for part in members[::-1] if len(part) >= FEWEST)
        dust.extend(part for part in members if len(part) < FEWEST)
    if len(groups) == int(labels.max()) + 1 and not dust:
        return labels
    rest = np.concatenate(dust) if dust else np.empty(0, dtype=np.int64)
    largest_first = sorted(range(len(groups)), key=lambda at: -len(groups[at]))
    n_kept = len(groups) if len(groups) + (rest.size >= FEWEST) <= k_max else k_max - 1
    kept = sorted(largest_first[:n_kept])
    rest = np.concatenate([rest, *(groups[at] for at in largest_first[n_kept:])])
    split = np.full(len(points), len(kept), dtype=np.int32)
    for label, at in enumerate(kept):
        split[groups[at]] = label
    if 0 < rest.size < FEWEST:
        centers = np.stack([points[groups[at]].mean(axis=0) for at in kept])
        split[rest] = nearest_center(metric.between(points[rest], centers))
    return split


def groups_within(
    points: Matrix, *, search: Search, k_max: int, metric: Metric, rng: np.random.Generator
) -> Membership | None:
    """Return the groups that the points of one cluster fall into; None if they do not more clearly than by chance.

    Chance is of two kinds: features that do not depend on each other, and one cloud of the same shape.
    """
    if is_sampled := len(points) > MOST_LOOKED_AT:
        some = points[np.sort(rng.choice(len(points), MOST_LOOKED_AT, replace=False))]
    else:
        some = points
    first = near_copies(metric.between(some, some))
    only = np.flatnonzero(first == np.arange(len(first)))
    ks = range(2, min(k_max, MOST_PARTS, len(only) // 2) + 1)
    if len(only) < 2 * FEWEST or not ks:
        return None
    looked_at = some[only]
    partitions, silhouettes = search(looked_at, ks)
    best = int(np.argmax(silhouettes))
    tried = sorted({2, ks[best]})
    margin = MARGIN / np.sqrt(len(only))
    for _ in range(N_DRAWS):
        if silhouettes[best] <= max(search(without_structure(looked_at, rng), tried)[1]) + margin:
            return None
    by_chance = [max(search(with_same_spread(looked_at, rng), tried)[1]) for _ in range(N_DRAWS)]
    if silhouettes[best] <= np.mean(by_chance):
        return None
    if not is_sampled:
        return without_gaps(partitions[best][np.searchsorted(only, first)])
    centers = cluster_means(looked_at, partitions[best])
    return without_gaps(nearest_center(metric.between(points, centers)))


def near_copies(distances: Matrix) -> Counts:
    """Return for each point the first one that it is a near copy of, itself if none.

    Near is half of what points usually lie from the fourth nearest to them. Where most have four copies of the same
    place, copies are how these points are, and none counts as one: several clients may see one label only.

    Examples
    --------
    >>> line = np.array([0.0, 1.0, 2.0, 3.0, 3.1, 4.0, 5.0])
    >>> near_copies(np.abs(line[:, None] - line)).tolist()
    [0, 1, 2, 3, 3, 5, 6]
    """
    usual = np.median(np.partition(distances, FEWEST, axis=1)[:, FEWEST])  # the nearest of all is the point itself
    near, first = distances < usual / 2.0, np.arange(len(distances))
    for at in range(len(first)):
        others = np.flatnonzero(near[at, :at])
        others = others[first[others] == others]
        if others.size:
            first[at] = others[0]
    return first
