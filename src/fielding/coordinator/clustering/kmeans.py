"""Stage 7: k-means under a metric, with the arithmetic mean as center so that a center is a label distribution."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fielding._typing import Matrix, Membership
from fielding.coordinator.clustering.lloyd import Partition, SpacePoints, cluster_means, lloyd
from fielding.coordinator.clustering.passes import settled
from fielding.coordinator.clustering.search import RoughSearch, Single
from fielding.coordinator.clustering.space import space_of
from fielding.coordinator.clustering.threads import in_threads
from fielding.coordinator.points import Points
from fielding.distance import Metric

SAMPLE = 2_000
"""Points that restarts look at; what they find is then improved on all points."""
MORE_RESTARTS_BELOW = 8_000
"""Sets smaller than this get more restarts, as many times as they fit into it."""
MOST_MORE = 10
"""But no more than this many times."""
N_FINALISTS = 4
"""Restarts per K that are followed to their end with exact distances."""
MOST_NUMBERS = 2**25
"""Distances that the restarts of one K may hold at a time."""


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
        space = space_of(metric)
        given = SpacePoints.of(points, space)
        sample = self._sample(given, max(ks), rng)
        finalists = self._finalists(sample, ks, rng)

        def best(k: int) -> Membership:
            centers = finalists[k]
            if len(sample.points) < len(points):
                first = _best_of(sample, centers)
                centers = [cluster_means(sample.points, first.labels, int(first.labels.max()) + 1)]
            if start is not None and len(start) == k:
                centers = [*centers, start]
            return _best_of(given, centers).labels

        return dict(zip(ks, in_threads(best, ks), strict=True))

    def extended(self, points: Points, centers: Matrix, *, metric: Metric) -> Membership:
        """Return the labels after a few passes over all points from the centers of a sample."""
        return settled(points, centers, metric=metric)

    def _sample(self, given: SpacePoints, most: int, rng: np.random.Generator) -> SpacePoints:
        size = max(SAMPLE, 10 * most)
        if len(given.points) <= size:
            return given
        rows = np.sort(rng.choice(len(given.points), size, replace=False))
        return SpacePoints(points=given.points[rows], mapped=given.mapped[rows], space=given.space)

    def _finalists(self, sample: SpacePoints, ks: Sequence[int], rng: np.random.Generator) -> dict[int, list[Matrix]]:
        """Return the centers of the most promising restarts for every K."""
        n_points = len(sample.points)
        n_restarts = self.n_init * min(max(MORE_RESTARTS_BELOW // n_points, 1), MOST_MORE)
        rough = RoughSearch.of(sample.points, sample.space)
        seeds = rough.starts(max(ks), n_restarts=n_restarts, rng=rng)
        finalists = {}
        for k in ks:
            fitting = max(1, MOST_NUMBERS // (k * n_points))
            centers, costs = rough.improved(seeds[:fitting, :k])
            finalists[k] = _most_promising(sample, centers, costs, rough.scale)
        return finalists


def _most_promising(sample: SpacePoints, centers: Single, costs: Single, scale: float) -> list[Matrix]:
    """Return the centers of the cheapest restarts, at the scale of the points; equal costs in the order of restarts."""
    exact = np.asarray(centers, dtype=np.float64) * scale
    if not sample.space.is_euclidean:
        costs = in_threads(lambda one: sample.space.cost(sample.distances(one).min(axis=1)), list(exact))
    return list(exact[np.argsort(costs, kind="stable")[:N_FINALISTS]])


def _best_of(given: SpacePoints, starts: Sequence[Matrix]) -> Partition:
    return min((lloyd(given, centers) for centers in starts), key=lambda partition: partition.cost)
