"""Every metric as a distance between mapped rows, so that k-means needs one piece of code for all of them.

Hellinger is Euclidean between square roots, one minus the cosine is half the squared Euclidean distance between rows
of length one: mapped once, both become as cheap as Euclidean and keep the triangle inequality.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fielding._typing import Floats, Matrix, Vector
from fielding.distance import METRICS, Metric, unit_rows

NEVER_ZERO = 1e-300
"""Added to shares before their logarithm; too small to change any share but zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Where a metric becomes a distance with a simple shape.

    Parameters
    ----------
    mapped
        Rows or centers to where their distance is measured.
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

    The divergence is the entropy of the middle minus the mean entropy of the two: one logarithm per pair and share.

    Examples
    --------
    >>> jensen_shannon(np.eye(2), np.array([[1.0, 0.0]])).round(6).tolist()
    [[0.0], [1.0]]
    """
    halves, other = _half_shares(rows), _half_shares(centers)
    negative, negative_other = _entropies(2.0 * halves), _entropies(2.0 * other)
    distances = np.empty((rows.shape[0], centers.shape[0]))
    middle, logs = np.empty_like(halves), np.empty_like(halves)
    for at, center in enumerate(other):
        np.add(halves, center, out=middle)
        np.log(middle, out=logs)
        entropy = np.einsum("ij,ij->i", middle, logs)
        distances[:, at] = 0.5 * (negative + negative_other[at]) - entropy
    return np.asarray(np.sqrt(np.maximum(distances, 0.0) / np.log(2.0)))


def _half_shares(rows: Matrix) -> Matrix:
    shares = np.maximum(rows, 0.0)
    sums = shares.sum(axis=1, keepdims=True)
    return np.asarray(0.5 * shares / np.where(sums > 0.0, sums, 1.0) + NEVER_ZERO)


def _entropies(shares: Matrix) -> Vector:
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
    """Return the metric's space; a metric of your own is measured by its own function on the rows as they are.

    Examples
    --------
    >>> space_of(METRICS["hellinger"]).is_euclidean
    True
    """
    if metric is METRICS.get(metric.name):
        return SPACES[metric.name]
    return Space(
        mapped=as_they_are,
        between=metric.between,
        power=metric.power,
        euclidean=as_they_are,
        has_triangle=metric.has_triangle,
    )
