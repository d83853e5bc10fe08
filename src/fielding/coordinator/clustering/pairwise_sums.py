"""Sums of distances from pairwise tiles: each pair is measured once and serves both of its points."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fielding._typing import Matrix
from fielding.blas_threads import in_threads
from fielding.client.report import row_chunks
from fielding.distance import METRICS

TILE = 256
"""Rows and columns of a tile of distances: it stays in the cache while it is used."""
TOO_CLOSE = 1e-8
"""Squared distances below this share of the squared extent are measured again, without cancellation."""
SINGLE_FROM = 2_048
"""From so many points on float32 may do: the errors of so many distances average out to less than 1e-7."""
TOO_CLOSE_SINGLE = 5e-3
"""The share below which squared distances in float32 are measured again."""

Number = TypeVar("Number", np.float32, np.float64)


def pairwise_sums(weights: npt.NDArray[Number], tile: Callable[[slice, slice], npt.NDArray[Number]]) -> Matrix:
    """Return the sums over all points of weight times distance.

    Parameters
    ----------
    weights
        One row per point, shape ``(n_points, n_columns)``.
    tile
        Two runs of points to their distances, one row per point of the first; symmetric, and the distance of a point
        to itself counts as 0.

    Returns
    -------
    Shape ``(n_points, n_columns)``.

    Examples
    --------
    >>> line = np.array([0.0, 1.0, 5.0])
    >>> apart = lambda rows, columns: np.abs(line[rows, None] - line[columns])
    >>> pairwise_sums(np.ones((3, 1)), apart).ravel().tolist()
    [6.0, 5.0, 9.0]
    """
    runs = list(row_chunks(len(weights), TILE))

    def strip(at: int) -> tuple[Matrix, list[npt.NDArray[Number]]]:
        rows, later = runs[at], []
        distances = tile(rows, rows)
        np.fill_diagonal(distances, 0.0)
        own = (distances @ weights[rows]).astype(np.float64)
        for columns in runs[at + 1 :]:
            distances = tile(rows, columns)
            own += distances @ weights[columns]
            later.append(distances.T @ weights[rows])
        return own, later

    sums = np.zeros(weights.shape)
    for at, (own, later) in enumerate(in_threads(strip, range(len(runs)))):
        sums[runs[at]] += own
        for columns, part in zip(runs[at + 1 :], later, strict=True):
            sums[columns] += part
    return sums


def sums_of(points: Matrix, weights: Matrix, between: Callable[[Matrix, Matrix], Matrix]) -> Matrix:
    """Return the sums over all points of weight times any distance.

    Examples
    --------
    >>> sums_of(np.array([[0.0], [1.0], [5.0]]), np.ones((3, 1)), METRICS["l1"].between).ravel().tolist()
    [6.0, 5.0, 9.0]
    """
    return pairwise_sums(weights, lambda rows, columns: between(points[columns], points[rows]).T)


def euclidean_sums(points: Matrix, weights: Matrix) -> Matrix:
    """Return the sums over all points of weight times Euclidean distance, by matrix products.

    Parameters
    ----------
    points
        Shape ``(n_points, n_features)``; fastest when no two are equal.
    weights
        One row per point, shape ``(n_points, n_columns)``.

    Examples
    --------
    >>> euclidean_sums(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[1.0], [2.0]])).tolist()
    [[10.0], [5.0]]
    """
    # Squared lengths should be no larger than they must: digits are lost in proportion to them.
    centered = points - np.median(points[:: 1 + len(points) // 256], axis=0)
    squares = np.einsum("ij,ij->i", centered, centered)
    # Squared lengths as two more features: the product then is the squared distance, with no pass for the sum.
    ones = np.ones(len(points))
    left = np.column_stack([-2.0 * centered, squares, ones])
    right = np.column_stack([centered, ones, squares])
    extent = 2.0 * float(squares.max())
    if _single_will_do(centered, extent):
        single = _product_tile(left.astype(np.float32), right.astype(np.float32), centered, extent * TOO_CLOSE_SINGLE)
        return pairwise_sums(weights.astype(np.float32), single)
    return pairwise_sums(weights, _product_tile(left, right, centered, extent * TOO_CLOSE))


def _product_tile(
    left: npt.NDArray[Number], right: npt.NDArray[Number], centered: Matrix, too_close: float
) -> Callable[[slice, slice], npt.NDArray[Number]]:
    """Return what measures tiles by products, and rows with a distance too close for that directly."""

    def tile(rows: slice, columns: slice) -> npt.NDArray[Number]:
        distances = left[rows] @ right[columns].T
        if rows == columns:
            np.fill_diagonal(distances, np.inf)
        is_close = bool(distances.min() < too_close)
        close = np.flatnonzero(distances.min(axis=1) < too_close) if is_close else None
        np.sqrt(np.maximum(distances, 0.0, out=distances), out=distances)
        if close is not None:
            distances[close] = METRICS["l2"].between(centered[rows][close], centered[columns])
        return distances

    return tile


def _single_will_do(centered: Matrix, extent: float) -> bool:
    """Return whether float32 is enough: many points, and as far as some of them tell, no two close together."""
    if len(centered) < SINGLE_FROM:
        return False
    some = centered[:: len(centered) // TILE]
    distances = METRICS["l2"].between(some, some)
    np.fill_diagonal(distances, np.inf)
    return bool(distances.min() ** 2 > 2.0 * TOO_CLOSE_SINGLE * extent)
