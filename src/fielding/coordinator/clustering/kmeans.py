"""Stage 7: k-means under a metric, with the arithmetic mean as center so that a center is a label distribution."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fielding._typing import Matrix, Membership
from fielding.blas_threads import in_threads
from fielding.coordinator.clustering.labels import without_gaps
from fielding.coordinator.clustering.lloyd import Partition, lloyd
from fielding.coordinator.clustering.passes import settled
from fielding.coordinator.clustering.search import RoughSearch, Single
from fielding.coordinator.clustering.space import space_of
from fielding.coordinator.clustering.space_points import SpacePoints, cluster_means
from fielding.coordinator.points import Points
from fielding.distance import Metric

SAMPLE = 2_000
"""Points that restarts look at; what they find is then improved on all points."""
MORE_EFFORT_BELOW = 4_000
"""Sets smaller than this are searched harder, as many times as they fit into it."""
MOST_EFFORT = 10
"""But no more than this many times; the first three times go into restarts, all of it into variants of the best."""
ROUGH_PASSES = 3
"""Passes that a start gets before it is judged."""
SHORT_PASSES = 8
"""Exact passes that tell which of several starts to follow to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many starts go on at which point of the search for one K.

    Parameters
    ----------
    n_kept
        Restarts that are kept after the first passes.
    n_rounds
        How often copies of them with one center elsewhere compete with them.
    n_passes
        Further rough passes at the end.
    n_finalists
        Starts that are followed with exact distances on all points.
    """

    n_kept: int
    n_rounds: int
    n_passes: int
    n_finalists: int


# On a sample of many points; on all of a few; on all of a few whose cost the rough search only resembles.
ON_SAMPLE = Plan(n_kept=4, n_rounds=0, n_passes=6, n_finalists=1)
IN_FULL = Plan(n_kept=4, n_rounds=3, n_passes=10, n_finalists=1)
RESEMBLING = Plan(n_kept=4, n_rounds=1, n_passes=0, n_finalists=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class KMeans:
    """k-means with restarts that share their work over all K.

    Parameters
    ----------
    n_init
        Restarts per K for thousands of points; smaller sets get up to three times as many.
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
        sample = _sample(given, max(ks), rng)
        effort = min(max(MORE_EFFORT_BELOW // len(points), 1), MOST_EFFORT)
        search = _Search(given=sample, rough=RoughSearch.of(sample.points, sample.space), effort=effort)
        seeds = search.rough.starts(max(ks), n_restarts=self.n_init * min(effort, 3), rng=rng)
        plan = ON_SAMPLE if sample is not given else IN_FULL if search.rough.knows_the_cost else RESEMBLING

        def best(job: tuple[int, np.random.Generator]) -> Membership:
            k, chance = job
            starts = [*search.finalists(seeds[:, :k], plan, chance)]
            if start is not None and len(start) == k:
                starts.append(start)
            return _best_of(given, starts).labels

        # The largest K first, so that no thread is left with it at the end; each with its own generator.
        jobs = list(zip(ks, rng.spawn(len(ks)), strict=True))[::-1]
        return dict(zip(ks, in_threads(best, jobs)[::-1], strict=True))

    def extended(self, points: Points, centers: Matrix, *, metric: Metric) -> Membership:
        """Return the labels after a few passes over all points from the centers of a sample."""
        return settled(points, centers, metric=metric)


def _best_of(given: SpacePoints, starts: list[Matrix]) -> Partition:
    """Return what k-means makes of the most promising start; with more than one, a few passes tell which that is."""
    if len(starts) == 1:
        return lloyd(given, starts[0])
    tried = [lloyd(given, centers, most_passes=SHORT_PASSES) for centers in starts]
    best = min(tried, key=lambda found: found.cost)
    followed = lloyd(given, cluster_means(given.points, without_gaps(best.labels)))
    return followed if followed.cost <= best.cost else best


def _sample(given: SpacePoints, most: int, rng: np.random.Generator) -> SpacePoints:
    """Return enough of the points for so many clusters; all of them if they are few."""
    size = max(SAMPLE, 10 * most)
    if len(given) <= size:
        return given
    return given.take(np.sort(rng.choice(len(given), size, replace=False)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Search:
    """A rough search over points, judged by the metric itself; the more effort, the more copies compete."""

    given: SpacePoints
    rough: RoughSearch
    effort: int

    def finalists(self, seeds: Single, plan: Plan, rng: np.random.Generator) -> Matrix:
        """Return the most promising centers, shape ``(n_finalists, k, n_features)``."""
        kept = self._improved(seeds, ROUGH_PASSES)[: plan.n_kept]
        for _ in range(plan.n_rounds):
            rivals = self.rough.varied(kept, n_each=self.effort, rng=rng)
            kept = self._improved(rivals, ROUGH_PASSES)[: plan.n_kept]
        if plan.n_passes:
            kept = self._improved(kept, plan.n_passes)
        return self.rough.at_scale(kept[: plan.n_finalists])

    def _improved(self, starts: Single, n_passes: int) -> Single:
        """Return the centers of every start after some passes, the cheapest first; equals stay in order."""
        improved, costs = self.rough.improved(starts, n_passes=n_passes)
        if not self.rough.knows_the_cost:
            everyone = np.arange(len(self.given))
            distances = (self.given.distances(one, everyone).min(axis=1) for one in self.rough.at_scale(improved))
            costs = np.array([self.given.space.cost(one) for one in distances])
        return improved[np.argsort(costs, kind="stable")]
