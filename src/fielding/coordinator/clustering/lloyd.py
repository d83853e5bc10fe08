"""k-means passes under a metric, exact, that measure only what may have changed."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Matrix, Membership, Vector
from fielding.coordinator.clustering.nearest import lead_over_others, nearest_center
from fielding.coordinator.clustering.space import Space
from fielding.distance import TIE

MOST_PASSES = 100
"""Passes after which k-means stops even if it still moves points."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Partition:
    """Labels, shape ``(n_points,)``, and the sum of each point's distance to the mean of its cluster, to its power."""

    labels: Membership
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpacePoints:
    """Points and where they lie in the space of a metric.

    Parameters
    ----------
    points
        One representation per row, shape ``(n_points, n_features)``.
    mapped
        The same in the space, same number of rows.
    space
        The metric's space.
    """

    points: Matrix
    mapped: Matrix
    space: Space

    @classmethod
    def of(cls, points: Matrix, space: Space) -> "SpacePoints":
        """Return the points with their places in the space."""
        return cls(points=points, mapped=space.mapped(points), space=space)

    def distances(self, centers: Matrix, rows: Counts | None = None) -> Matrix:
        """Return the distances of these rows (None: all) from the centers in the space."""
        mapped = self.mapped if rows is None or rows.size == len(self.mapped) else self.mapped[rows]
        return self.space.between(mapped, self.space.mapped(centers))

    def own_distances(self, centers: Matrix, labels: Membership) -> Vector:
        """Return the distance of every point from the center of its own cluster."""
        places = self.space.mapped(centers)
        own = np.empty(len(labels))
        for index in range(len(centers)):
            members = np.flatnonzero(labels == index)
            if members.size:
                own[members] = self.space.between(self.mapped[members], places[index : index + 1])[:, 0]
        return own

    def cost(self, centers: Matrix, labels: Membership) -> float:
        """Return the objective of the partition with these centers."""
        return self.space.cost(self.own_distances(centers, labels))


def cluster_means(points: Matrix, labels: Membership, n_clusters: int) -> Matrix:
    """Return the mean of every cluster, shape ``(n_clusters, n_features)``; nan for a cluster without members.

    Examples
    --------
    >>> cluster_means(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1], dtype=np.int32), 2).ravel().tolist()
    [1.0, 5.0]
    """
    inside = (labels == np.arange(n_clusters)[:, None]).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray((inside @ points) / inside.sum(axis=1, keepdims=True))


def lloyd(given: SpacePoints, centers: Matrix) -> Partition:
    """Return the best partition that passes of k-means from these centers come by.

    A pass gives every point to its nearest center and moves every center to the mean of its points, whatever the
    metric. It ends with a partition seen before, or after 100 passes. Outside Euclidean space a pass may raise
    the cost, so the best partition on the way is kept. A cluster that loses all points starts anew at the point
    that is farthest from its center.

    Parameters
    ----------
    given
        The points and their places in the metric's space.
    centers
        Where to start, shape ``(k, n_features)``.

    Examples
    --------
    >>> from fielding.coordinator.clustering.space import SPACES
    >>> line = SpacePoints.of(np.array([[0.0], [1.0], [9.0], [10.0]]), SPACES["l1"])
    >>> lloyd(line, np.array([[0.0], [1.0]])).labels.tolist()
    [0, 0, 1, 1]
    """
    labels, lead = np.full(len(given.points), -1, dtype=np.int32), np.full(len(given.points), -np.inf)
    best, seen = Partition(labels=labels, cost=np.inf), set[bytes]()
    for _ in range(MOST_PASSES):
        labels, lead = _reassigned(given, centers, labels, lead)
        labels, lead = _without_empty(given, centers, labels, lead)
        if labels.tobytes() in seen:
            break
        seen.add(labels.tobytes())
        means = cluster_means(given.points, labels, len(centers))
        means = np.where(np.isnan(means), centers, means)
        cost = given.cost(means, labels)
        if cost < best.cost:
            best = Partition(labels=labels, cost=cost)
        lead = lead - _possible_loss(given.space, centers, means)[labels]
        centers = means
    return best


def _reassigned(given: SpacePoints, centers: Matrix, labels: Membership, lead: Vector) -> tuple[Membership, Vector]:
    """Return the nearest center of every point and how far it leads; measured only where the lead may be gone."""
    labels, lead = labels.copy(), lead.copy()
    stale = np.flatnonzero(lead <= 4.0 * TIE)
    distances = given.distances(centers, stale)
    labels[stale] = nearest_center(distances)
    lead[stale] = lead_over_others(distances, labels[stale])
    return labels, lead


def _possible_loss(space: Space, before: Matrix, after: Matrix) -> Vector:
    """Return per cluster how much its members' lead can have shrunk at most, by the triangle inequality."""
    if not space.has_triangle:
        return np.full(len(before), np.inf)
    moved = np.diagonal(space.between(space.mapped(before), space.mapped(after)))
    return np.asarray(moved + moved.max())


def _without_empty(given: SpacePoints, centers: Matrix, labels: Membership, lead: Vector) -> tuple[Membership, Vector]:
    """Return the labels with the farthest point in every cluster that had none, as far as points lie off centers."""
    sizes = np.bincount(labels, minlength=len(centers))
    if sizes.all():
        return labels, lead
    labels, lead = labels.copy(), lead.copy()
    own = given.own_distances(centers, labels)
    for index in np.flatnonzero(sizes == 0):
        farthest = int(np.argmax(np.where(sizes[labels] > 1, own, 0.0)))
        if sizes[labels[farthest]] < 2 or own[farthest] <= TIE:
            break
        sizes[labels[farthest]] -= 1
        labels[farthest], lead[farthest], sizes[index] = index, -np.inf, 1
        own = np.minimum(own, given.distances(given.points[farthest : farthest + 1])[:, 0])
    return labels, lead
