"""How unlike the clients of a cluster are: the paper's mean client distance, and the mean distance of all pairs."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fielding._typing import Counts, Matrix, Membership
from fielding.blas_threads import ONE_BLAS_THREAD
from fielding.coordinator.clustering.distance_sums import distance_sums
from fielding.coordinator.points import Points
from fielding.distance import METRICS, Metric, unit_rows
from fielding.errors import InputError

MOST_MEMBERS = 4096  # clusters up to this size are measured exactly, larger ones on so many of their clients
BLOCK = 256  # clients whose distances to all others are taken at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDiameters:
    """How far apart the clients of a cluster lie.

    ``largest`` is None if every cluster is a singleton; ``per_cluster`` has those of two clients or more. Not exact: a
    cluster was too large to look at all its pairs, and the numbers are lower bounds.
    """

    largest: float | None
    per_cluster: dict[int, float]
    is_exact: bool


def spread_within(
    points: Points, membership: Membership, *, metric: Metric, rng: np.random.Generator
) -> ClusterDiameters:
    """Return the diameter of every cluster and the largest of them.

    ``membership`` -1: a client without a cluster, which is left out. ``rng`` chooses the clients that stand for a
    cluster of more than :data:`MOST_MEMBERS`: half are the farthest from its center, half are drawn at random.

    Examples
    --------
    >>> from fielding.distance import metric_named
    >>> from fielding.rng import stream
    >>> rows = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    >>> spread_within(Points(rows), np.array([0, 0, 1]), metric=metric_named("l1"), rng=stream(1, "spread"))
    ClusterDiameters(largest=1.0, per_cluster={0: 1.0}, is_exact=True)
    """
    if membership.shape != (len(points),):
        raise InputError(f"membership has shape {membership.shape} for {len(points)} points; give one cluster each")
    order = np.argsort(membership, kind="stable")
    ends = [*np.flatnonzero(np.diff(membership[order], prepend=-2)).tolist(), order.size]
    diameters: dict[int, float] = {}
    is_exact = True
    for start, stop in pairwise(ends):
        cluster, members = int(membership[order[start]]), np.sort(order[start:stop])
        if cluster < 0 or members.size < 2:
            continue
        if members.size > MOST_MEMBERS:
            is_exact = False
            members = _stand_ins(points, members, metric, rng)
        rows, blocks = points.take(members), range(0, members.size, BLOCK)
        diameters[cluster] = max(float(metric.between(rows[at : at + BLOCK], rows[at:]).max()) for at in blocks)
    return ClusterDiameters(largest=max(diameters.values(), default=None), per_cluster=diameters, is_exact=is_exact)


def _stand_ins(points: Points, members: Counts, metric: Metric, rng: np.random.Generator) -> Counts:
    """Return the clients that stand for a large cluster: half the farthest from its center, half drawn at random."""
    parts = [members[start : start + BLOCK] for start in range(0, members.size, BLOCK)]
    total = np.sum([points.take(part).sum(axis=0) for part in parts], axis=0)
    center = np.asarray(total / members.size)[np.newaxis]
    radii = np.concatenate([metric.between(points.take(part), center)[:, 0] for part in parts])
    far = members[np.argsort(-radii, kind="stable")[: MOST_MEMBERS // 2]]
    others = np.setdiff1d(members, far, assume_unique=True)
    return np.sort(np.concatenate([far, rng.choice(others, MOST_MEMBERS // 2, replace=False)]))


MOST_EXACT = 6_000  # larger sets of clients are sampled down to this many
MOST_EXACT_OF: dict[str, int] = {"l1": 10_000, "cosine": 10_000, "js": 1_500}
"""The same for metrics whose sums over all pairs are cheap, or dear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heterogeneity:
    """How far clients lie from the others of their cluster.

    The mean over clients of the mean distance to the other members, nan when no client has another; singletons are left
    out of it (METHODS.md, B12). ``is_sampled``: a cluster was too large to measure every pair.
    """

    mean: float
    n_singletons: int
    is_sampled: bool


def mean_client_distance(
    points: Points, membership: Membership, *, metric: Metric, rng: np.random.Generator
) -> Heterogeneity:
    """Return the mean distance of a client to the other members of its cluster.

    Points with a negative membership are left out. Chance is used only for clusters of more than 6,000 clients (10,000
    under L1 and cosine, 1,500 under Jensen-Shannon), of which so many are drawn.

    Examples
    --------
    >>> line = Points(np.array([[0.0], [1.0], [5.0]]))
    >>> pair_and_one = np.array([0, 0, 1], dtype=np.int32)
    >>> mean_client_distance(line, pair_and_one, metric=METRICS["l1"], rng=np.random.default_rng(1))
    Heterogeneity(mean=1.0, n_singletons=1, is_sampled=False)
    """
    kept = np.flatnonzero(membership >= 0)
    order = kept[np.argsort(membership[kept], kind="stable")]
    _, sizes = np.unique(membership[order], return_counts=True)
    # Within a cluster the mean over clients of their means is the mean over pairs.
    total = 0.0
    for members in np.split(order, np.cumsum(sizes)[:-1]):
        total += len(members) * _mean_of_pairs(points, members, metric, rng)
    n_singletons = int(np.sum(sizes == 1))
    n_measured = int(sizes.sum()) - n_singletons
    return Heterogeneity(
        mean=total / n_measured if n_measured else float("nan"),
        n_singletons=n_singletons,
        is_sampled=bool(np.any(sizes > _most_exact(metric))),
    )


def mean_pairwise_distance(points: Points, *, metric: Metric, rng: np.random.Generator) -> float:
    """Return the mean distance over all pairs of points; 0.0 for fewer than two.

    Chance is used only for sets that are too large to measure every pair.
    """
    return _mean_of_pairs(points, np.arange(len(points)), metric, rng)


def _mean_of_pairs(points: Points, positions: Counts, metric: Metric, rng: np.random.Generator) -> float:
    most = _most_exact(metric)
    if positions.size > most:
        positions = np.sort(rng.choice(positions, most, replace=False))
    if positions.size < 2:
        return 0.0
    total = _TOTALS.get(metric.name) if metric is METRICS.get(metric.name) else None
    rows = points.take(positions)
    with ONE_BLAS_THREAD:
        if total:
            both_ways = total(rows)
        else:
            both_ways = float(distance_sums(rows, [np.zeros(len(rows), dtype=np.int32)], metric=metric)[0].sum())
    return max(both_ways, 0.0) / (positions.size * (positions.size - 1))


def _most_exact(metric: Metric) -> int:
    return MOST_EXACT_OF.get(metric.name, MOST_EXACT)


def _l1_total(rows: Matrix) -> float:
    """Return the sum over all ordered pairs: in sorted order a value is added as often as others lie below it."""
    columns = np.ascontiguousarray((rows - np.median(rows[:: 1 + len(rows) // 256], axis=0)).T)
    columns.sort(axis=1)
    below = np.arange(1.0 - len(rows), len(rows), 2.0)
    return float(2.0 * (columns @ below).sum())


def _cosine_total(rows: Matrix) -> float:
    units = unit_rows(rows)
    # Every pair is one minus a product, and all products together are the squared length of the sum.
    products = float(np.square(units.sum(axis=0)).sum()) - float(np.square(units).sum())
    return len(rows) * (len(rows) - 1) - products


_TOTALS: dict[str, Callable[[Matrix], float]] = {"l1": _l1_total, "cosine": _cosine_total}
"""Sums over all ordered pairs that need no pairs."""
