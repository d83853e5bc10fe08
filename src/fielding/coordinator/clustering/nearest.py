"""The nearest of a few centers for many rows, with the tie rule that all clustering shares."""

import numpy as np

from fielding._typing import Matrix, Membership, Vector
from fielding.distance import TIE


def nearest_center(distances: Matrix) -> Membership:
    """Return the index of the nearest center; among centers that are equally near, the lowest index.

    Parameters
    ----------
    distances
        Shape ``(n_rows, n_centers)``, at least one center; closer than 1e-9 is equal.

    Examples
    --------
    >>> nearest_center(np.array([[2.0, 1.0, 1.0], [0.5, 0.5 - 1e-12, 3.0]])).tolist()
    [1, 0]
    """
    # Column by column: numpy is slow at reducing many short rows.
    by_center = np.ascontiguousarray(distances.T)
    equal_below = by_center.min(axis=0) + TIE
    labels = np.empty(distances.shape[0], dtype=np.int32)
    for index in range(len(by_center) - 1, -1, -1):
        labels[by_center[index] <= equal_below] = index
    return labels


def lead_over_others(distances: Matrix, labels: Membership) -> Vector:
    """Return how much farther the nearest center of another index is than the labelled one; inf without others.

    Examples
    --------
    >>> lead_over_others(np.array([[1.0, 3.0, 4.0]]), np.array([0], dtype=np.int32)).tolist()
    [2.0]
    """
    others = np.full(distances.shape[0], np.inf)
    for index, column in enumerate(np.ascontiguousarray(distances.T)):
        np.minimum(others, column, out=others, where=labels != index)
    return np.asarray(others - distances[np.arange(distances.shape[0]), labels])
