"""Sums of distances from pairwise tiles: each pair is measured once and serves both of its points."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from fielding._typing import Floats, Matrix, Vector
from fielding.client.report import row_chunks
from fielding.coordinator.clustering.threads import in_threads
from fielding.distance import METRICS

TILE = 256
"""Rows and columns of a tile of distances: it stays in the cache while it is used."""
TOO_CLOSE = 1e-8
"""Squared distances below this share of the squared extent are measured again, without cancellation."""

SINGLE_FROM = 2_048
"""From so many points on float32 may do, since the errors of so many distances average out to less than 1e-7."""
TOO_CLOSE_SINGLE = 5e-3
"""The same share for float32."""

Tile: TypeAlias = Callable[[slice, slice], Floats]
"""Two runs of points to their distances, one row per point of the first."""


def pairwise_sums(weights: Matrix, tile: Tile) -> Matrix:
    """Return the sums over all points of weight times distance.

    Parameters
    ----------
    weights
        One row per point, shape ``(n_points, n_columns)``.
    tile
        What measures distances; they must be symmetric, and that of a point to itself counts as 0.

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

    def strip(at: int) -> tuple[Matrix, list[Matrix]]:
        rows, later = runs[at], []
        distances = tile(rows, rows)
        np.fill_diagonal(distances, 0.0)
        weighed = weights.astype(distances.dtype.type, copy=False)
        own = (distances @ weighed[rows]).astype(np.float64)
        for columns in runs[at + 1 :]:
            distances = tile(rows, columns)
            own += distances @ weighed[columns]
            later.append(distances.T @ weighed[rows])
        return own, later

    sums = np.zeros(weights.shape)
    for at, (own, later) in enumerate(in_threads(strip, range(len(runs)))):
        sums[runs[at]] += own
        for columns, part in zip(runs[at + 1 :], later, strict=True):
            sums[columns] += part
    return sums


def tile_of(points: Matrix, between: Callable[[Matrix, Matrix], Matrix]) -> Tile:
    """Return the tiles of any distance function.

    Examples
    --------
    >>> tile_of(np.array([[0.0], [1.0], [5.0]]), METRICS["l1"].between)(slice(0, 1), slice(1, 3)).tolist()
    [[1.0, 5.0]]
    """
    return lambda rows, columns: between(points[columns], points[rows]).T


def euclidean_tile(points: Matrix) -> Tile:
    """Return the tiles of the Euclidean distance by matrix products; what is too close for that is measured directly.

    Examples
    --------
    >>> euclidean_tile(np.array([[0.0, 0.0], [3.0, 4.0]]))(slice(0, 1), slice(1, 2)).tolist()
    [[5.0]]
    """
    # Squared lengths should be no larger than they must: digits are lost in proportion to them.
    centered = points - np.median(points[:: 1 + len(points) // 256], axis=0)
    squares = np.einsum("ij,ij->i", centered, centered)
    is_single = _is_single_enough(centered, squares)
    limit = 2.0 * squares.max() * (TOO_CLOSE_SINGLE if is_single else TOO_CLOSE)
    # Squared lengths as two more features: the product then is the squared distance, with no pass for the sum.
    ones = np.ones(len(points))
    dtype = np.float32 if is_single else np.float64
    left = np.column_stack([-2.0 * centered, squares, ones]).astype(dtype)
    right = np.column_stack([centered, ones, squares]).astype(dtype)

    def tile(rows: slice, columns: slice) -> Floats:
        distances = left[rows] @ right[columns].T
        if rows == columns:
            np.fill_diagonal(distances, np.inf)
        is_close = distances.min() < limit
        close = np.flatnonzero(distances.min(axis=1) < limit) if is_close else np.empty(0, dtype=np.int64)
        np.sqrt(np.maximum(distances, 0.0, out=distances), out=distances)
        if is_close:
            distances[close] = METRICS["l2"].between(centered[rows][close], centered[columns])
        return np.asarray(distances)

    return tile


def _is_single_enough(centered: Matrix, squares: Vector) -> bool:
    """Return whether float32 will do: many points, and hardly any two of them close together."""
    if len(centered) < SINGLE_FROM:
        return False
    some = slice(None, None, len(centered) // TILE)
    distances = METRICS["l2"].between(centered[some], centered[some])
    np.fill_diagonal(distances, np.inf)
    return bool(distances.min() ** 2 > 4.0 * TOO_CLOSE_SINGLE * squares.max())
