"""Points in the space of a metric: their distances from centers, and what their clusters add up to."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Mask, Matrix, Membership, Vector
from fielding.coordinator.clustering.space import Space

DOUBT = 1e-6
"""Share of the points' extent that a quick distance may be wrong by, at the very worst."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpacePoints:
    """Points and where they lie in the space of a metric.

    Parameters
    ----------
    points
        One representation per row, shape ``(n_points, n_features)``.
    mapped
        The same in the space, less the origin.
    squares
        Squared lengths of the mapped points, shape ``(n_points,)``.
    origin
        What was subtracted: the middle in Euclidean space, so that sums of squares keep their digits; else 0.
    space
        The metric's space.
    """

    points: Matrix
    mapped: Matrix
    squares: Vector
    origin: Vector
    space: Space

    @classmethod
    def of(cls, points: Matrix, space: Space) -> "SpacePoints":
        """Return the points with their places in the space."""
        mapped, origin = space.mapped(points), np.zeros(points.shape[1])
        if space.is_euclidean:
            origin = np.median(mapped[:: 1 + len(mapped) // 256], axis=0)
            mapped = mapped - origin
        squares = np.einsum("ij,ij->i", mapped, mapped)
        return cls(points=points, mapped=mapped, squares=squares, origin=origin, space=space)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def doubt(self) -> float:
        """How wrong a quick distance may be."""
        return DOUBT * float(np.sqrt(self.squares.max())) if self.space.is_euclidean else 0.0

    def take(self, rows: Counts) -> "SpacePoints":
        """Return some of the points."""
        return SpacePoints(
            points=self.points[rows],
            mapped=self.mapped[rows],
            squares=self.squares[rows],
            origin=self.origin,
            space=self.space,
        )

    def places(self, centers: Matrix) -> Matrix:
        """Return where centers lie in the space."""
        return np.asarray(self.space.mapped(centers) - self.origin)

    def distances(self, centers: Matrix, rows: Counts) -> Matrix:
        """Return the exact distances of these rows from the centers, shape ``(n_rows, k)``."""
        return self.space.between(_some(self.mapped, rows), self.places(centers))

    def quick_distances(self, centers: Matrix, rows: Counts) -> Matrix:
        """Return the distances, in Euclidean space by a matrix product that may miss them by ``doubt``."""
        if not self.space.is_euclidean:
            return self.distances(centers, rows)
        places = self.places(centers)
        squares = _some(self.mapped, rows) @ (-2.0 * places.T)
        squares += self.squares[rows][:, None]
        squares += np.einsum("ij,ij->i", places, places)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares))

    def own_distances(self, centers: Matrix, labels: Membership, *, known: Vector, changed: Mask) -> Vector:
        """Return every point's distance from the center of its cluster; as known where the cluster has not changed."""
        places, own = self.places(centers), known.copy()
        for index in np.flatnonzero(changed):
            members = np.flatnonzero(labels == index)
            own[members] = self.space.between(_some(self.mapped, members), places[index : index + 1])[:, 0]
        return own


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tally:
    """What the clusters of a partition add up to.

    Parameters
    ----------
    sizes
        Points per cluster, shape ``(k,)``.
    points, mapped
        Sums of points and, in Euclidean space, of their places per cluster, shape ``(k, n_features)``.
    """

    sizes: Vector
    points: Matrix
    mapped: Matrix

    @classmethod
    def empty(cls, n_clusters: int, n_features: int) -> "Tally":
        """Return the sums of clusters without points."""
        nothing = np.zeros((n_clusters, n_features))
        return cls(sizes=np.zeros(n_clusters), points=nothing, mapped=nothing)

    def updated(self, given: SpacePoints, before: Membership, after: Membership) -> "Tally":
        """Return the sums after some points changed their cluster; a label of -1 stands for none."""
        moved = np.flatnonzero(before != after)
        clusters = np.arange(len(self.sizes))[:, None]
        signs = (after[moved] == clusters).astype(np.float64) - (before[moved] == clusters)
        points = self.points + signs @ _some(given.points, moved)
        mapped = self.mapped + signs @ _some(given.mapped, moved) if given.space.is_euclidean else self.mapped
        return Tally(sizes=self.sizes + signs.sum(axis=1), points=points, mapped=mapped)

    def means(self, otherwise: Matrix) -> Matrix:
        """Return the mean of every cluster, and another row for a cluster without points."""
        sizes = self.sizes[:, None]
        return np.where(sizes > 0.0, self.points / np.maximum(sizes, 1.0), otherwise)

    def euclidean_cost(self, given: SpacePoints, centers: Matrix) -> float:
        """Return the sum of squared distances from the centers: squared lengths less what the centers take away."""
        places = given.places(centers)
        taken = np.einsum("ij,ij->", places, 2.0 * self.mapped - self.sizes[:, None] * places)
        return max(float(given.squares.sum() - taken), 0.0) * given.space.factor


def cluster_means(points: Matrix, labels: Membership) -> Matrix:
    """Return the mean of every cluster, shape ``(n_clusters, n_features)``; each must have a member.

    Examples
    --------
    >>> cluster_means(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1], dtype=np.int32)).ravel().tolist()
    [1.0, 5.0]
    """
    inside = (labels == np.arange(int(labels.max()) + 1)[:, None]).astype(np.float64)
    return np.asarray((inside @ points) / inside.sum(axis=1, keepdims=True))


def _some(matrix: Matrix, rows: Counts) -> Matrix:
    """Return these rows, without a copy when they are all."""
    return matrix if rows.size == len(matrix) else matrix[rows]
