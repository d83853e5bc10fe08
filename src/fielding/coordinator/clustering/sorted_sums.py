"""Sums of L1 distances without a single pairwise distance: sort every feature, then work with ranks.

Along one feature the points are put in order and cut into blocks. What lies in lower blocks is lower, what lies in
higher ones is higher, so its distances are a count times the value minus a sum; only inside a block are differences
taken one by one. Time is linear in points, features and columns (but for the sorting), memory too.
"""

import numpy as np

from fielding._typing import Counts, Matrix, Vector
from fielding.blas_threads import in_threads

BLOCK = 32
"""Points in a block: small enough to waste no work, large enough for the matrix product."""
N_GROUPS = 8
"""Features are handled in so many groups, fixed so that sums do not depend on the number of threads."""


def l1_sums(points: Matrix, weights: Matrix) -> Matrix:
    """Return the sums over all points of weight times L1 distance.

    Parameters
    ----------
    points
        Shape ``(n_points, n_features)``.
    weights
        One row per point, shape ``(n_points, n_columns)``.

    Returns
    -------
    Shape ``(n_points, n_columns)``, not negative for weights that are not negative.

    Examples
    --------
    >>> l1_sums(np.array([[0.0], [1.0], [5.0]]), np.ones((3, 1))).ravel().tolist()
    [6.0, 5.0, 9.0]
    """
    groups = [part for part in np.array_split(np.arange(points.shape[1]), N_GROUPS) if part.size]
    sums = np.zeros(weights.shape)
    for part in in_threads(lambda features: _sums_along(points, weights, features), groups):
        sums += part
    return np.asarray(np.maximum(sums, 0.0))


def _sums_along(points: Matrix, weights: Matrix, features: Counts) -> Matrix:
    n_points, n_columns = weights.shape
    n_blocks = -(-n_points // BLOCK)
    # The last block is filled up with points of weight zero.
    padded = np.vstack([weights, np.zeros((1, n_columns))])
    order = np.full(n_blocks * BLOCK, n_points)
    values, rank = np.empty(n_blocks * BLOCK), np.empty(n_points, dtype=np.int64)
    left, right = np.ones((n_blocks, BLOCK, BLOCK + 2)), np.empty((n_blocks, BLOCK + 2, n_columns))
    sums = np.zeros(weights.shape)
    for feature in features:
        column = np.ascontiguousarray(points[:, feature])
        # From the middle of the values, so that little is lost when sums are subtracted.
        column -= np.median(column[:: 1 + n_points // 256])
        order[:n_points] = np.argsort(column, kind="stable")
        rank[order[:n_points]] = np.arange(n_points)
        values[:n_points] = column[order[:n_points]]
        values[n_points:] = values[n_points - 1]
        right[:, :BLOCK] = padded[order].reshape(n_blocks, BLOCK, n_columns)
        _fill(values.reshape(n_blocks, BLOCK), left, right)
        sums += np.matmul(left, right).reshape(-1, n_columns)[rank]
    return sums


def _fill(values: Vector, left: Matrix, right: Matrix) -> None:
    """Write differences inside blocks, and what all lower and higher blocks weigh together, into the two factors."""
    lines = np.ones((len(values), 2, BLOCK))
    lines[:, 1] = values
    totals = np.matmul(lines, right[:, :BLOCK])
    until = np.cumsum(totals, axis=0)
    lower, higher = until - totals, until[-1] - until
    right[:, BLOCK] = lower[:, 0] - higher[:, 0]
    right[:, BLOCK + 1] = higher[:, 1] - lower[:, 1]
    inside = left[:, :, :BLOCK]
    np.subtract(values[:, :, None], values[:, None, :], out=inside)
    np.abs(inside, out=inside)
    left[:, :, BLOCK] = values
