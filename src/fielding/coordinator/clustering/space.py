"""Every metric as a distance between mapped rows, so that k-means needs one piece of code for all of them.

Hellinger is Euclidean between square roots, one minus the cosine is half the squared Euclidean distance between rows
of length one: mapped once, both become as cheap as Euclidean and keep the triangle inequality.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Floats, Mask, Matrix, Membership, Vector
from fielding.client.report import row_chunks
from fielding.distance import METRICS, Metric, unit_rows

NEVER_ZERO = 1e-300  # added to shares before their logarithm; too small to change any share but zero
TOO_CLOSE = 1e-9  # divergences below this are measured by the metric itself
CACHED = 16_384  # numbers that stay in the nearest cache of a core


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Where a metric becomes a distance with a simple shape.

    Parameters
    ----------
    between
        ``(n, d)`` and ``(k, d)`` mapped rows to ``(n, k)`` distances that rank like the metric.
    power
        The power of this distance that k-means adds up.
    factor
        What that sum is multiplied by to be the metric's own objective.
    euclidean
        Rows or centers to where their Euclidean distance is the metric's, or ranks much like it.
    is_euclidean
        Whether ``between`` is the Euclidean distance of the mapped rows.
    has_triangle
        Whether a detour is never shorter in ``between``.
    """

    mapped: Callable[[Floats], Matrix]
    between: Callable[[Matrix, Matrix], Matrix]
    power: int
    factor: float = 1.0
    euclidean: Callable[[Floats], Matrix]
    is_euclidean: bool = False
    has_triangle: bool = True

    def cost(self, distances: Vector) -> float:
        """Return the part of the metric's objective that points at these distances from their centers make up."""
        return float(np.sum(distances**self.power)) * self.factor


def as_they_are(rows: Floats) -> Matrix:
    """Return the rows in float64."""
    return np.asarray(rows, dtype=np.float64)


def root_rows(rows: Floats) -> Matrix:
    """Return the rows between which the Euclidean distance is Hellinger's; a share below zero by rounding is zero."""
    return np.asarray(np.sqrt(np.maximum(as_they_are(rows) * 0.5, 0.0)))


def jensen_shannon(rows: Matrix, centers: Matrix) -> Matrix:
    """Return the same distances as the metric ``js``, several times as fast.

    The divergence is the mean of the two negative entropies less the negative entropy of the middle: one logarithm per
    pair and share. That loses digits between near-equal rows, so those are left to the metric.
    """
    if len(rows) < len(centers):
        return jensen_shannon(centers, rows).T
    halves, other = _half_shares(rows), _half_shares(centers)
    order, other_order = _negative_entropies(2.0 * halves), _negative_entropies(2.0 * other)
    divergences = np.empty((len(centers), len(rows)))
    # As many centers at a time as stay in the cache with all rows.
    size = max(1, min(len(centers), CACHED // max(1, halves.size)))
    middle, logs = np.empty((size, *halves.shape)), np.empty((size, *halves.shape))
    for part in row_chunks(len(centers), size):
        here = slice(part.stop - part.start)
        np.add(other[part, None], halves, out=middle[here])
        np.log(middle[here], out=logs[here])
        mixed = np.einsum("kij,kij->ki", middle[here], logs[here])
        divergences[part] = 0.5 * (other_order[part, None] + order) - mixed
    distances = np.sqrt(np.clip(divergences / np.log(2.0), 0.0, 1.0)).T
    for at in np.flatnonzero((divergences < TOO_CLOSE).any(axis=1)):
        close = np.flatnonzero(divergences[at] < TOO_CLOSE)
        distances[close, at] = METRICS["js"].between(rows[close], centers[at : at + 1])[:, 0]
    return np.asarray(distances)


def _half_shares(rows: Matrix) -> Matrix:
    shares = np.maximum(rows, 0.0)
    sums = shares.sum(axis=1, keepdims=True)
    return np.asarray(0.5 * shares / np.where(sums > 0.0, sums, 1.0) + NEVER_ZERO)


def _negative_entropies(shares: Matrix) -> Vector:
    return np.asarray(np.einsum("ij,ij->i", shares, np.log(shares)))


_L2 = METRICS["l2"].between

SPACES: dict[str, Space] = {
    "l1": Space(mapped=as_they_are, between=METRICS["l1"].between, power=1, euclidean=as_they_are),
    "l2": Space(mapped=as_they_are, between=_L2, power=2, euclidean=as_they_are, is_euclidean=True),
    "hellinger": Space(mapped=root_rows, between=_L2, power=2, euclidean=root_rows, is_euclidean=True),
    "js": Space(mapped=as_they_are, between=jensen_shannon, power=2, euclidean=root_rows),
    "cosine": Space(mapped=unit_rows, between=_L2, power=2, factor=0.5, euclidean=unit_rows, is_euclidean=True),
}
"""The space of every metric, by the metric's name."""


def space_of(metric: Metric) -> Space:
    """Return the metric's space; a metric of your own is measured by its own function on the rows as they are."""
    if metric is METRICS.get(metric.name):
        return SPACES[metric.name]
    return Space(
        mapped=as_they_are,
        between=metric.between,
        power=metric.power,
        euclidean=as_they_are,
        has_triangle=metric.has_triangle,
    )


DOUBT = 1e-6  # share of the points' extent that a quick distance may be wrong by, at the very worst


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpacePoints:
    """Points and where they lie in the space of a metric.

    ``mapped``: points in the space, less the ``origin``, which is the middle in Euclidean space, so that sums of
    squares keep their digits, else 0; ``squares``: their squared lengths.
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
class ClusterSums:
    """Sizes of the clusters of a partition, and sums of points and, in Euclidean space, of their places."""

    sizes: Vector
    points: Matrix
    mapped: Matrix

    @classmethod
    def empty(cls, n_clusters: int, n_features: int) -> "ClusterSums":
        """Return the sums of clusters without points."""
        nothing = np.zeros((n_clusters, n_features))
        return cls(sizes=np.zeros(n_clusters), points=nothing, mapped=nothing)

    def update(self, given: SpacePoints, before: Membership, after: Membership) -> "ClusterSums":
        """Return the sums after some points changed their cluster; a label of -1 stands for none."""
        moved = np.flatnonzero(before != after)
        clusters = np.arange(len(self.sizes))[:, None]
        signs = (after[moved] == clusters).astype(np.float64) - (before[moved] == clusters)
        points = self.points + signs @ _some(given.points, moved)
        mapped = self.mapped + signs @ _some(given.mapped, moved) if given.space.is_euclidean else self.mapped
        return ClusterSums(sizes=self.sizes + signs.sum(axis=1), points=points, mapped=mapped)

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
    """Return the mean of every cluster, shape ``(n_clusters, n_features)``; each must have a member."""
    inside = (labels == np.arange(int(labels.max()) + 1)[:, None]).astype(np.float64)
    return np.asarray((inside @ points) / inside.sum(axis=1, keepdims=True))


def _some(matrix: Matrix, rows: Counts) -> Matrix:
    """Return these rows, without a copy when they are all."""
    return matrix if rows.size == len(matrix) else matrix[rows]
