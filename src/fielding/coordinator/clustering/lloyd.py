"""k-means passes under a metric, exact, that measure only what may have changed."""

from dataclasses import dataclass, replace

import numpy as np

from fielding._typing import Counts, Matrix, Membership, Vector
from fielding.coordinator.clustering.labels import leads_over, nearest_center
from fielding.coordinator.clustering.space_points import SpacePoints, Tally
from fielding.distance import TIE

MOST_PASSES = 100
"""Passes after which k-means stops even if it still moves points."""
EQUAL_COST = 1e-12
"""Costs that differ by less than this share are equal; the later partition then wins."""


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

    Parameters
    ----------
    given
        The points and their places in the metric's space.
    centers
        Where to start, shape ``(k, n_features)``.
    most_passes
        When to stop at the latest.

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
        state = _with_means(given, state, _without_empty(given, _reassigned(given, state)))
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

    Parameters
    ----------
    centers
        Shape ``(k, n_features)``.
    labels
        Shape ``(n_points,)``.
    leads
        How much farther than the own center every other one is at least, shape ``(k, n_points)``.
    own
        The distance from the own center, shape ``(n_points,)``; not kept in Euclidean space, where sums will do.
    tally
        The sums of the clusters.
    """

    centers: Matrix
    labels: Membership
    leads: Matrix
    own: Vector
    tally: Tally


def _start(given: SpacePoints, centers: Matrix) -> _State:
    return _State(
        centers=centers,
        labels=np.full(len(given), -1, dtype=np.int32),
        leads=np.full((len(centers), len(given)), -np.inf),
        own=np.zeros(len(given)),
        tally=Tally.empty(*centers.shape),
    )


def _reassigned(given: SpacePoints, state: _State) -> _State:
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


def _without_empty(given: SpacePoints, state: _State) -> _State:
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


def _with_means(given: SpacePoints, before: _State, state: _State) -> _State:
    """Return the state with every center at the mean of its points, and leads that hold for the new centers."""
    tally = before.tally.updated(given, before.labels, state.labels)
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
