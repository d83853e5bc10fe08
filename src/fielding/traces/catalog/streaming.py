"""Recorded samples cut into intervals by their order, as the paper does where data have no common clock."""

import numpy as np

from fielding._typing import Codes, Counts, Vector

N_INTERVALS = 10
"""Intervals that the paper cuts the samples of each client into."""


def ranks_within(groups: Codes) -> tuple[Counts, Counts]:
    """Return the position of each row among the rows of its group, and how many rows its group has.

    Examples
    --------
    >>> ranks, sizes = ranks_within(np.array([1, 0, 1, 1], dtype=np.int32))
    >>> ranks.tolist(), sizes.tolist()
    ([0, 0, 1, 2], [3, 1, 3, 3])
    """
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    begins = np.cumsum(sizes) - sizes
    ranks = np.empty(groups.size, dtype=np.int64)
    ranks[order] = np.arange(groups.size) - begins[groups[order]]
    return ranks, sizes[groups].astype(np.int64)


def interval_times(client: Codes, n_intervals: int = N_INTERVALS) -> Vector:
    """Return the interval of each row as its time: every client's rows, in their order, in equal parts.

    Parameters
    ----------
    client
        Whose sample a row is; rows of a client stand in the order in which they were recorded, shape ``(n_rows,)``.
    n_intervals
        How many parts; a client with fewer samples leaves some empty.

    Examples
    --------
    >>> interval_times(np.array([0, 0, 0, 0, 1, 1], dtype=np.int32), 2).tolist()
    [0.0, 0.0, 1.0, 1.0, 0.0, 1.0]
    """
    ranks, sizes = ranks_within(client)
    return (ranks * n_intervals // sizes).astype(np.float64)
