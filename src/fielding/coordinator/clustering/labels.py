"""Labels of points: the nearest of a few centers, with the tie rule that all clustering shares, and renumbered."""

import numpy as np

from fielding._typing import Matrix, Membership
from fielding.distance import TIE


def nearest_center(distances: Matrix) -> Membership:
    """Return the index of the nearest center; among centers that are equally near, the lowest index.

    Closer than 1e-9 is equal; there is at least one center.

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


def leads_over(distances: Matrix, labels: Membership) -> Matrix:
    """Return by how much every other center is farther than the labelled one, shape ``(n_centers, n_rows)``."""
    rows = np.arange(len(labels))
    leads = distances.T - distances[rows, labels]
    leads[labels, rows] = np.inf
    return np.asarray(leads)


def without_gaps(labels: Membership) -> Membership:
    """Return the labels numbered from 0 without gaps, in the same order."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)


def in_order_of_appearance(labels: Membership) -> Membership:
    """Return the labels numbered from 0 without gaps, in the order in which they first appear."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int32)
