"""Numbers for concepts that are known by their content: equal content, equal number."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Membership

Contents: TypeAlias = npt.NDArray[np.integer[Any]]
"""What each client has in each interval, shape ``(n_intervals, n_clients, n_values)``."""


def numbered(contents: Contents) -> tuple[Membership, Contents]:
    """Return a number for each distinct content, from 0 in the order of clients, then of intervals.

    Parameters
    ----------
    contents
        Whole numbers of shape ``(n_intervals, n_clients, n_values)``.

    Returns
    -------
    The number of each client in each interval, shape ``(n_intervals, n_clients)``, and the content that each number
    stands for, one row each. More clients at the end do not change the numbers of those before.

    Examples
    --------
    >>> numbers, table = numbered(np.array([[[7, 7], [3, 1]], [[7, 7], [7, 7]]], dtype=np.int32))
    >>> numbers.tolist(), table.tolist()
    ([[0, 1], [0, 0]], [[7, 7], [3, 1]])
    """
    n_intervals, n_clients, width = contents.shape
    rows: Contents = np.ascontiguousarray(contents.transpose(1, 0, 2)).reshape(-1, width)
    # Compared byte by byte: rows as structures, as unique(axis=0) has them, take many times as long.
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * width))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int32)
    rank[np.argsort(first)] = np.arange(first.size, dtype=np.int32)
    return rank[group].reshape(n_clients, n_intervals).T.copy(), rows[np.sort(first)]
