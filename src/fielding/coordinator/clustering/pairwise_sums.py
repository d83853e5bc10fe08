"""Sums of distances from pairwise blocks: each pair is measured once and serves both of its points."""

from collections.abc import Callable

import numpy as np

from fielding._typing import Matrix, Vector
from fielding.client.report import row_chunks
from fielding.coordinator.clustering.threads import in_threads
from fielding.distance import METRICS

TILE = 512
"""Rows and columns of a tile of squared distances: it stays in the cache while it is used."""
STRIP = 256
"""Rows of a strip of other distances."""
TOO_CLOSE = 1e-8
"""Squared distances below this share of the largest squared length are measured again, without cancellation."""


def euclidean_sums(points: Matrix, weights: Matrix) -> Matrix:
    """Return the sums over all points of weight times Euclidean distance, by matrix products.

    Parameters
    ----------
    points
        Shape ``(n_points, n_features)``; fastest when no two are equal.
    weights
        One row per point, shape ``(n_points, n_columns)``.

    Returns
    -------
    Shape ``(n_points, n_columns)``.

    Examples
    --------
    >>> euclidean_sums(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[1.0], [2.0]])).tolist()
    [[10.0], [5.0]]
    """
    # Squared lengths should be no larger than they must: digits are lost in proportion to them.
    centered = points - np.median(points[:: 1 + len(points) // 256], axis=0)
    lengths = np.einsum("ij,ij->i", centered, centered)
    tiles = list(row_chunks(len(points), TILE))
    sums = np.zeros(weights.shape)
    for at, rows in enumerate(tiles):
        for columns in tiles[at:]:
            distances = _tile(centered[rows], centered[columns], (lengths[rows], lengths[columns]), rows == columns)
            sums[rows] += distances @ weights[columns]
            if columns != rows:
                sums[columns] += distances.T @ weights[rows]
    return sums


def _tile(rows: Matrix, columns: Matrix, lengths: tuple[Vector, Vector], is_diagonal: bool) -> Matrix:
    """Return the distances of two runs of points, where those too close for the expansion are measured directly."""
    squares = rows @ (-2.0 * columns.T)
    squares += lengths[0][:, None]
    squares += lengths[1]
    if is_diagonal:
        np.fill_diagonal(squares, np.inf)
    limit = TOO_CLOSE * (lengths[0].max() + lengths[1].max())
    close = np.flatnonzero(squares.min(axis=1) < limit) if squares.min() < limit else np.empty(0, dtype=np.int64)
    np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares)
    if close.size:
        squares[close] = METRICS["l2"].between(rows[close], columns)
    if is_diagonal:
        np.fill_diagonal(squares, 0.0)
    return squares


def blockwise_sums(points: Matrix, weights: Matrix, between: Callable[[Matrix, Matrix], Matrix]) -> Matrix:
    """Return the sums over all points of weight times distance for any symmetric distance.

    Parameters
    ----------
    points
        Shape ``(n_points, n_features)``.
    weights
        One row per point, shape ``(n_points, n_columns)``.
    between
        ``(n, d)`` and ``(k, d)`` rows to ``(n, k)`` distances; that of a point to itself counts as 0.

    Examples
    --------
    >>> blockwise_sums(np.array([[0.0], [1.0], [5.0]]), np.ones((3, 1)), METRICS["l1"].between).ravel().tolist()
    [6.0, 5.0, 9.0]
    """

    def strip_sums(rows: slice) -> tuple[Matrix, Matrix]:
        # Later points as rows: every function between rows and centers is quick for many rows and few centers.
        distances = between(points[rows.start :], points[rows])
        size = rows.stop - rows.start
        np.fill_diagonal(distances[:size], 0.0)
        return distances.T @ weights[rows.start :], distances[size:] @ weights[rows]

    strips = list(row_chunks(len(points), STRIP))
    sums = np.zeros(weights.shape)
    for rows, (own, later) in zip(strips, in_threads(strip_sums, strips), strict=True):
        sums[rows] += own
        sums[rows.stop :] += later
    return sums
