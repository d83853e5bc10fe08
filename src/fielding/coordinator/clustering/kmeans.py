"""Stage 7: k-means under a metric, with the arithmetic mean as center so that a center is a label distribution."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Floats, Matrix, Membership, Vector
from fielding.blas_threads import in_threads
from fielding.coordinator.clustering.labels import leads_over, nearest_center, without_gaps
from fielding.coordinator.clustering.passes import settle_labels
from fielding.coordinator.clustering.space import ClusterSums, Space, SpacePoints, cluster_means, space_of
from fielding.coordinator.points import Points
from fielding.distance import TIE, Metric

MOST_PASSES = 100  # passes after which k-means stops even if it still moves points
EQUAL_COST = 1e-12  # costs that differ by less than this share are equal; the later partition then wins


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Partition:
    """Labels, shape ``(n_points,)``, and the sum of each point's distance to the mean of its cluster, to its power."""

    labels: Membership
    cost: float


def lloyd(given: SpacePoints, centers: Matrix, *, most_passes: int = MOST_PASSES) -> Partition:
    """Return the best partition that passes of k-means from these centers come by.

    A pass gives every point to its nearest center (a tie goes to the lower index) and moves every center to the mean
    of its points, whatever the metric. It ends with a partition seen before, or after 100 passes. Outside Euclidean
    space a pass may raise the cost, so the best partition on the way is kept. A cluster that loses all its points
    starts anew at the point that is farthest from its center.

    Examples
    --------
    >>> from fielding.coordinator.clustering.space import SPACES
    >>> line = SpacePoints.of(np.array([[0.0], [1.0], [9.0], [10.0]]), SPACES["l1"])
    >>> lloyd(line, np.array([[0.0], [1.0]])).labels.tolist()
    [0, 0, 1, 1]
    """
    state = _start(given, centers)
    best, seen = Partition(labels=state.labels, cost=np.inf), set[bytes]()
    for _ in range(most_passes):
        state = _move_to_means(given, state, _fill_empty(given, _reassign(given, state)))
        key = state.labels.tobytes()
        if key in seen:
            break
        seen.add(key)
        cost = _cost(given, state)
        if cost <= best.cost * (1.0 + EQUAL_COST):
            best = Partition(labels=state.labels, cost=cost)
    return best


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _State:
    """Where k-means stands after a pass.

    ``leads``: how much farther than the own center every other one is at least, shape ``(k, n_points)``. ``own``:
    distance from the own center; not kept in Euclidean space, where sums will do.
    """

    centers: Matrix
    labels: Membership
    leads: Matrix
    own: Vector
    tally: ClusterSums


def _start(given: SpacePoints, centers: Matrix) -> _State:
    return _State(
        centers=centers,
        labels=np.full(len(given), -1, dtype=np.int32),
        leads=np.full((len(centers), len(given)), -np.inf),
        own=np.zeros(len(given)),
        tally=ClusterSums.empty(*centers.shape),
    )


def _reassign(given: SpacePoints, state: _State) -> _State:
    """Return the nearest center of every point and its leads; measured only where a lead may be gone."""
    labels, leads = state.labels.copy(), state.leads.copy()
    for measure in (given.quick_distances, given.distances):
        stale: Counts = np.flatnonzero(leads.min(axis=0) <= max(4.0 * TIE, given.doubt))
        distances = measure(state.centers, stale)
        labels[stale] = nearest_center(distances)
        leads[:, stale] = leads_over(distances, labels[stale])
        if not given.space.is_euclidean:
            break
    return replace(state, labels=labels, leads=leads)


def _fill_empty(given: SpacePoints, state: _State) -> _State:
    """Return the state with the farthest point in every cluster that had none, as far as points lie off centers."""
    sizes = np.bincount(state.labels, minlength=len(state.centers))
    if sizes.all():
        return state
    labels, leads, everyone = state.labels.copy(), state.leads.copy(), np.arange(len(given))
    own = given.distances(state.centers, everyone)[everyone, labels]
    for index in np.flatnonzero(sizes == 0):
        farthest = int(np.argmax(np.where(sizes[labels] > 1, own, 0.0)))
        if sizes[labels[farthest]] < 2 or own[farthest] <= TIE:
            break
        sizes[labels[farthest]] -= 1
        labels[farthest], leads[:, farthest], sizes[index] = index, -np.inf, 1
        own = np.minimum(own, given.distances(given.points[farthest : farthest + 1], everyone)[:, 0])
    return replace(state, labels=labels, leads=leads)


def _move_to_means(given: SpacePoints, before: _State, state: _State) -> _State:
    """Return the state with every center at the mean of its points, and leads that hold for the new centers."""
    tally = before.tally.update(given, before.labels, state.labels)
    centers = tally.means(otherwise=state.centers)
    own = state.own
    if not given.space.is_euclidean:
        changed = (centers != state.centers).any(axis=1)
        changed[state.labels[state.labels != before.labels]] = True
        own = given.own_distances(centers, state.labels, known=own, changed=changed)
    leads = state.leads - _possible_loss(given, state, centers)
    return replace(state, centers=centers, leads=leads, own=own, tally=tally)


def _possible_loss(given: SpacePoints, state: _State, centers: Matrix) -> Matrix:
    """Return how much the leads can have shrunk at most, by the triangle inequality: both centers may have moved."""
    if not given.space.has_triangle:
        return np.full(state.leads.shape, np.inf)
    moved = np.diagonal(given.space.between(given.places(state.centers), given.places(centers)))
    return np.asarray(moved[:, None] + moved[state.labels])


def _cost(given: SpacePoints, state: _State) -> float:
    if given.space.is_euclidean:
        return state.tally.euclidean_cost(given, state.centers)
    return given.space.cost(state.own)


def seed_rows(squares: Floats, n_seeds: int, *, n_restarts: int, rng: np.random.Generator) -> Counts:
    """Return rows to start k-means from; the first k of a restart are a start for k clusters.

    Each seed after the first is the best of a few rows drawn with a chance in proportion to their squared distance
    from the seeds so far (Arthur and Vassilvitskii 2007, section 7: greedy k-means++).

    ``squares``: squared distances between all rows, zero on the diagonal. Shape ``(n_restarts, n_seeds)``; once every
    row is a seed or equals one, the last row repeats.
    """
    n_trials = 2 + int(np.log(n_seeds))
    restarts = np.arange(n_restarts)
    seeds = np.empty((n_restarts, n_seeds), dtype=np.int64)
    seeds[:, 0] = rng.integers(len(squares), size=n_restarts)
    nearest = squares[seeds[:, 0]]
    for at in range(1, n_seeds):
        trials = draw_rows(nearest, n_trials, rng=rng)
        after = np.minimum(squares[trials], nearest[:, None, :])
        best = after.sum(axis=2).argmin(axis=1)
        seeds[:, at] = trials[restarts, best]
        nearest = after[restarts, best]
    return seeds


def draw_rows(masses: Floats, n_drawn: int, *, rng: np.random.Generator) -> Counts:
    """Return numbers drawn with a chance in proportion to mass, so many for every row of masses.

    Shape ``(n_restarts, n_drawn)``; the last number where there is no mass at all. Masses are not negative.
    """
    until = np.cumsum(masses, axis=1, dtype=np.float64)
    draws = rng.random((len(until), n_drawn)) * until[:, -1:]
    drawn = [np.searchsorted(row, draw, side="right") for row, draw in zip(until, draws, strict=True)]
    return np.asarray(np.minimum(np.stack(drawn), masses.shape[1] - 1))


SEED_ROWS = 1_000  # points that seeds are drawn from, evenly spaced over all: chance needs no more
SEED_ROWS_OTHER = 500  # the same outside Euclidean space, where distances are dearer
FEW = 200  # up to so many points the metric itself is used
MOST_NUMBERS = 2**25  # distances that the restarts of one K may hold at a time

Single: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoughSearch:
    """Points made ready for rough k-means.

    ``points`` are scaled representations and a last column of ones; ``mapped`` the same in Euclidean space around their
    ``middle``; ``exact`` few points in the metric's own space, None if that is Euclidean.
    """

    points: Single
    mapped: Single
    exact: Matrix | None
    middle: Vector
    scale: float
    space: Space

    @classmethod
    def of(cls, points: Matrix, space: Space) -> "RoughSearch":
        """Return the search over these points, shape ``(n_points, n_features)``."""
        # Squares of very large or small numbers leave the range of float32; scaling changes no partition.
        scale = float(np.abs(points).max()) or 1.0
        scaled = points / scale
        mapped = space.euclidean(scaled)
        # Around the median, not the mean: one far point must not cost the others their digits.
        middle = np.median(mapped[:: 1 + len(mapped) // 256], axis=0)
        return cls(
            points=np.column_stack([scaled, np.ones(len(points))]).astype(np.float32),
            mapped=(mapped - middle).astype(np.float32),
            middle=middle,
            exact=None if space.is_euclidean or len(points) > FEW else space.mapped(points),
            scale=scale,
            space=space,
        )

    @property
    def knows_the_cost(self) -> bool:
        """Whether the cost of a restart is the metric's own, not one that resembles it."""
        return self.space.is_euclidean or self.exact is not None

    def starts(self, n_seeds: int, *, n_restarts: int, rng: np.random.Generator) -> Single:
        """Return seeds for every restart, scaled, shape ``(n_restarts, n_seeds, n_features)``."""
        most = SEED_ROWS if self.space.is_euclidean else SEED_ROWS_OTHER
        few = slice(None, None, -(-len(self.points) // most))
        rows = seed_rows(self._squares(few), n_seeds, n_restarts=n_restarts, rng=rng)
        return np.asarray(self.points[few][rows, :-1])

    def _squares(self, few: slice) -> Floats:
        """Return the squared distances between some of the points."""
        if not self.space.is_euclidean:
            places = self.space.mapped(self.at_scale(self.points[few, :-1]))
            return np.asarray(self.space.between(places, places) ** 2)
        mapped = self.mapped[few]
        lengths = np.einsum("ij,ij->i", mapped, mapped)
        squares = mapped @ (-2.0 * mapped.T)
        squares += lengths[:, None]
        squares += lengths
        np.maximum(squares, 0.0, out=squares)
        np.fill_diagonal(squares, 0.0)
        return squares

    def improve(self, centers: Single, *, n_passes: int) -> tuple[Single, Vector]:
        """Return the centers after a few passes of k-means, and the cost of every restart up to a constant.

        Of many restarts with many centers, shape ``(n_restarts, k, n_features)``, only as many as fit into memory.
        """
        fitting = max(1, MOST_NUMBERS // (centers.shape[1] * len(self.points)))
        by_cluster = np.ascontiguousarray(centers[:fitting].transpose(1, 0, 2))
        for _ in range(n_passes):
            nearness, best = self._nearness(by_cluster)
            # A point that is exactly between two centers counts for both: good enough here, and no loop is needed.
            inside = (nearness == best).astype(np.float32).reshape(-1, len(self.points))
            sums = (inside @ self.points).reshape(*by_cluster.shape[:2], -1)
            sizes = sums[..., -1:]
            by_cluster = np.where(sizes > 0.0, sums[..., :-1] / np.maximum(sizes, 1.0), by_cluster)
        _, best = self._nearness(by_cluster)
        return by_cluster.transpose(1, 0, 2), best.sum(axis=1, dtype=np.float64)

    def vary(self, centers: Single, *, n_each: int, rng: np.random.Generator) -> Single:
        """Return the centers of every restart, then copies of them in which one center lies elsewhere.

        The new place is a point drawn with a chance in proportion to its squared distance from the centers: what
        one more restart finds with luck, a good restart with one center in the wrong place finds soon.
        """
        n_restarts, k, _ = centers.shape
        _, best = self._nearness(np.ascontiguousarray(centers.transpose(1, 0, 2)))
        if self.exact is None:
            best = np.maximum(best + 0.5 * np.einsum("ij,ij->i", self.mapped, self.mapped), 0.0)
        rows = draw_rows(best, n_each, rng=rng)
        copies = np.repeat(centers[:, None], n_each, axis=1)
        restarts, each = np.arange(n_restarts)[:, None], np.arange(n_each)
        copies[restarts, each, rng.integers(k, size=(n_restarts, n_each))] = self.points[rows, :-1]
        return np.concatenate([centers, copies.reshape(-1, *centers.shape[1:])])

    def at_scale(self, centers: Single) -> Matrix:
        """Return centers as they lie among the points that were given."""
        return np.asarray(centers.astype(np.float64) * self.scale)

    def _nearness(self, by_cluster: Single) -> tuple[Single, Single]:
        """Return what k-means adds up, up to the point's own part, ``(k, n_restarts, n_points)``, and its minimum."""
        flat = by_cluster.reshape(-1, by_cluster.shape[-1])
        if self.exact is not None:
            distances = self.space.between(self.exact, self.space.mapped(self.at_scale(flat))).T / self.scale
            shaped = (distances**self.space.power).astype(np.float32).reshape(*by_cluster.shape[:2], -1)
            return shaped, shaped.min(axis=0)
        mapped = (self.space.euclidean(flat) - self.middle).astype(np.float32)
        nearness = -mapped @ self.mapped.T
        nearness += 0.5 * np.einsum("ij,ij->i", mapped, mapped)[:, None]
        shaped = nearness.reshape(*by_cluster.shape[:2], -1)
        return shaped, shaped.min(axis=0)


SAMPLE = 2_000  # points that restarts look at; what they find is then improved on all points
MORE_EFFORT_BELOW = 4_000  # sets smaller than this are searched harder, as many times as they fit into it
MOST_EFFORT = 10
"""But no more than this many times; the first three times go into restarts, all of it into variants of the best."""
ROUGH_PASSES = 3  # passes that a start gets before it is judged
SHORT_PASSES = 8  # exact passes that tell which of several starts to follow to its end


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """How many starts go on at which point of the search for one K.

    ``n_kept`` restarts go on after the first passes; ``n_rounds`` times copies of them with one center elsewhere
    compete with them; ``n_passes`` rough passes follow, and ``n_finalists`` starts with exact distances on all points.
    """

    n_kept: int
    n_rounds: int
    n_passes: int
    n_finalists: int


# On a sample of many points; on all of a few; on all of a few whose cost the rough search only resembles.
ON_SAMPLE = SearchPlan(n_kept=4, n_rounds=0, n_passes=6, n_finalists=1)
IN_FULL = SearchPlan(n_kept=4, n_rounds=3, n_passes=10, n_finalists=1)
RESEMBLING = SearchPlan(n_kept=4, n_rounds=1, n_passes=0, n_finalists=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class KMeans:
    """k-means with restarts that share their work over all K; small sets get up to three times ``n_init`` restarts."""

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
        """Return for every K the labels with the smallest total distance (to the metric's power) that were found."""
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
        return settle_labels(points, centers, metric=metric)


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

    def finalists(self, seeds: Single, plan: SearchPlan, rng: np.random.Generator) -> Matrix:
        """Return the most promising centers, shape ``(n_finalists, k, n_features)``."""
        kept = self._improve(seeds, ROUGH_PASSES)[: plan.n_kept]
        for _ in range(plan.n_rounds):
            rivals = self.rough.vary(kept, n_each=self.effort, rng=rng)
            kept = self._improve(rivals, ROUGH_PASSES)[: plan.n_kept]
        if plan.n_passes:
            kept = self._improve(kept, plan.n_passes)
        return self.rough.at_scale(kept[: plan.n_finalists])

    def _improve(self, starts: Single, n_passes: int) -> Single:
        """Return the centers of every start after some passes, the cheapest first; equals stay in order."""
        improved, costs = self.rough.improve(starts, n_passes=n_passes)
        if not self.rough.knows_the_cost:
            everyone = np.arange(len(self.given))
            distances = (self.given.distances(one, everyone).min(axis=1) for one in self.rough.at_scale(improved))
            costs = np.array([self.given.space.cost(one) for one in distances])
        return improved[np.argsort(costs, kind="stable")]
