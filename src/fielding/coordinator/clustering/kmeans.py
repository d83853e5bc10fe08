"""Stage 7: k-means under a metric, with the arithmetic mean as center so that a center is a label distribution."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fielding._typing import Matrix, Membership, Vector
from fielding.coordinator.clustering.labels import without_gaps
from fielding.coordinator.clustering.lloyd import Partition, lloyd
from fielding.coordinator.clustering.passes import settled
from fielding.coordinator.clustering.search import RoughSearch
from fielding.coordinator.clustering.space import space_of
from fielding.coordinator.clustering.space_points import SpacePoints, cluster_means
from fielding.coordinator.clustering.threads import in_threads
from fielding.coordinator.points import Points
from fielding.distance import Metric

SAMPLE = 2_000
"""Points that restarts look at; what they find is then improved on all points."""
MORE_RESTARTS_BELOW = 8_000
"""Sets smaller than this get more restarts, as many times as they fit into it."""
MOST_MORE = 10
"""But no more than this many times."""
N_FINALISTS = 2
"""Restarts per K that are followed with exact distances."""
SAMPLE_PASSES = 10
"""Passes over the sample, before all points take over."""


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

        def best(k: int) -> Membership:
            centers = _most_promising(sample, *rough.improved(seeds[:, :k]))
            if sample is not given:
                first = min((lloyd(sample, one, most_passes=SAMPLE_PASSES) for one in centers), key=_by_cost)
                centers = [cluster_means(sample.points, without_gaps(first.labels))]
            if start is not None and len(start) == k:
                centers = [*centers, start]
            return min((lloyd(given, one) for one in centers), key=_by_cost).labels

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


def _most_promising(sample: SpacePoints, centers: Matrix, costs: Vector) -> list[Matrix]:
    """Return the centers of the cheapest restarts; equal costs in the order of restarts."""
    if not sample.space.is_euclidean:
        everyone = np.arange(len(sample))

        def exact(start: Matrix) -> float:
            return sample.space.cost(sample.distances(start, everyone).min(axis=1))

        costs = np.array([exact(start) for start in centers])
    return list(centers[np.argsort(costs, kind="stable")[:N_FINALISTS]])


def _by_cost(partition: Partition) -> float:
    return partition.cost
