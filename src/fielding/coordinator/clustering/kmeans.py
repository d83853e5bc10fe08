"""Stage 7: k-means under a metric, with the arithmetic mean as center so that a center is a label distribution."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fielding._typing import Matrix, Membership
from fielding.coordinator.clustering.lloyd import Partition, lloyd
from fielding.coordinator.clustering.passes import settled
from fielding.coordinator.clustering.search import RoughSearch, Single
from fielding.coordinator.clustering.space import space_of
from fielding.coordinator.clustering.space_points import SpacePoints
from fielding.coordinator.clustering.threads import in_threads
from fielding.coordinator.points import Points
from fielding.distance import Metric

SAMPLE = 2_000
"""Points that restarts look at; what they find is then improved on all points."""
MORE_RESTARTS_BELOW = 8_000
"""Sets smaller than this get more restarts, as many times as they fit into it."""
MOST_MORE = 10
"""But no more than this many times."""
STAGES: dict[str, tuple[tuple[int, int], ...]] = {
    "sample": ((3, 4), (8, 1)),
    "euclidean": ((3, 16), (10, 3)),
    "other": ((3, 4),),
}
"""Rough passes and how many restarts go on after them: on a sample, and on all points by the kind of space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KMeans:
    """k-means with restarts that share their work over all K.

    Parameters
    ----------
    n_init
        Restarts per K for thousands of points; smaller sets get up to ten times as many in the same time.
    """

    n_init: int = 10

    def partitions(
        self,
        points: Matrix,
        ks: Sequence[int],
        *,
        metric: Metric,
        rng: np.random.Generator,
        start: Matrix | None = None,
    ) -> dict[int, Membership]:
        """Return for every K the labels with the smallest total distance (to the metric's power) that were found.

        Examples
        --------
        >>> from fielding.distance import METRICS
        >>> line = np.array([[0.0], [1.0], [9.0], [10.0]])
        >>> found = KMeans().partitions(line, [2], metric=METRICS["l1"], rng=np.random.default_rng(1))
        >>> bool(found[2][0] == found[2][1] != found[2][2] == found[2][3])
        True
        """
        given = SpacePoints.of(points, space_of(metric))
        n_restarts = self.n_init * min(max(MORE_RESTARTS_BELOW // len(points), 1), MOST_MORE)
        sample = _sample(given, max(ks), rng)
        rough = RoughSearch.of(sample.points, sample.space)
        seeds = rough.starts(max(ks), n_restarts=n_restarts, rng=rng)
        stages = "sample" if sample is not given else "euclidean" if given.space.is_euclidean else "other"

        def best(k: int) -> Membership:
            centers = seeds[:, :k]
            for n_passes, n_kept in STAGES[stages]:
                centers = _best_starts(rough, sample, centers, n_passes=n_passes)[:n_kept]
            starts = [*rough.at_scale(centers)]
            if start is not None and len(start) == k:
                starts.append(start)
            return min((lloyd(given, one) for one in starts), key=_by_cost).labels

        # The largest K first, so that no thread is left with it at the end.
        largest_first = sorted(ks, reverse=True)
        found = dict(zip(largest_first, in_threads(best, largest_first), strict=True))
        return {k: found[k] for k in ks}

    def extended(self, points: Points, centers: Matrix, *, metric: Metric) -> Membership:
        """Return the labels after a few passes over all points from the centers of a sample."""
        return settled(points, centers, metric=metric)


def _sample(given: SpacePoints, most: int, rng: np.random.Generator) -> SpacePoints:
    """Return enough of the points for so many clusters; all of them if they are few."""
    size = max(SAMPLE, 10 * most)
    if len(given.points) <= size:
        return given
    return given.take(np.sort(rng.choice(len(given.points), size, replace=False)))


def _best_starts(rough: RoughSearch, sample: SpacePoints, centers: Single, *, n_passes: int) -> Single:
    """Return the centers of every restart after some rough passes, the cheapest first."""
    improved, costs = rough.improved(centers, n_passes=n_passes)
    if not sample.space.is_euclidean:
        everyone = np.arange(len(sample))
        distances = (sample.distances(one, everyone).min(axis=1) for one in rough.at_scale(improved))
        costs = np.array([sample.space.cost(one) for one in distances])
    return improved[np.argsort(costs, kind="stable")]


def _by_cost(partition: Partition) -> float:
    return partition.cost
