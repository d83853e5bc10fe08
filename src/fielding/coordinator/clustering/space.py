"""Every metric as a distance between mapped rows, so that k-means needs one piece of code for all of them.

Hellinger is Euclidean between square roots, one minus the cosine is half the squared Euclidean distance between rows
of length one: mapped once, both become as cheap as Euclidean and keep the triangle inequality.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fielding._typing import Floats, Matrix, Vector
from fielding.client.report import row_chunks
from fielding.distance import METRICS, Metric, unit_rows

NEVER_ZERO = 1e-300
"""Added to shares before their logarithm; too small to change any share but zero."""
TOO_CLOSE = 1e-9
"""Divergences below this are measured by the metric itself."""
CACHED = 16_384
"""Numbers that stay in the nearest cache of a core."""


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

    The divergence is the mean of the two negative entropies less the negative entropy of the middle: one logarithm per
    pair and share. That loses digits between near-equal rows, so those are left to the metric.

    Examples
    --------
    >>> jensen_shannon(np.eye(2), np.array([[1.0, 0.0]])).round(6).tolist()
    [[0.0], [1.0]]
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
