"""Sums and means over consecutive segments of values, one per client."""

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Vector


def segment_sums(values: Mask, sizes: Counts) -> Counts:
    """Return how many are true in each segment.

    Examples
    --------
    >>> segment_sums(np.array([True, False, True]), np.array([2, 0, 1])).tolist()
    [1, 0, 1]
    """
    totals = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    ends = np.cumsum(sizes)
    return np.asarray(totals[ends] - totals[ends - sizes])


def segment_means(values: npt.NDArray[np.float32], sizes: Counts) -> Vector:
    """Return the mean of each segment, added up in float64; NaN for an empty one.

    Examples
    --------
    >>> segment_means(np.array([1.0, 3.0, 5.0], dtype=np.float32), np.array([2, 0, 1])).tolist()
    [2.0, nan, 5.0]
    """
    owner = np.repeat(np.arange(sizes.size), sizes)
    sums = np.bincount(owner, weights=values.astype(np.float64), minlength=sizes.size)
    return np.asarray(np.divide(sums, sizes, out=np.full(sizes.size, np.nan), where=sizes > 0))
