"""How far two groups of samples lie apart within classes, in units of what sampling alone would make of it.

Each measure is 1 on average if the samples of a class could have been dealt to the two groups the other way round, for
any sizes of the groups and classes, and whatever the label mix does.
"""

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Floats, Mask, Matrix
from fielding.client.drift.chi2 import pearson

Labels = npt.NDArray[np.integer]
"""A class per sample, shape ``(n_samples,)``."""
FEWEST = 3
"""Samples of a class that tell something: of two, the difference is the spread."""
FEWEST_COUNTED = 4
"""Samples that Pearson's statistic needs to have moments."""


def input_shift(features: Floats, classes: Labels, is_second: Mask) -> float | None:
    """Return how far the mean features of classes lie apart between two groups; None if no class tells.

    Parameters
    ----------
    features
        Shape ``(n_samples, n_features)``.
    classes
        The class of each sample, within which groups are compared, shape ``(n_samples,)``.
    is_second
        Which group a sample is of, same shape.

    Returns
    -------
    The squared difference of the means of a class over what chance would make of it, mean over features, then over
    classes, which count by their samples less two. The spread of a class is that of both groups together: the mean of
    the ratio over all ways to deal the samples is 1 exactly, and it is never above the samples of a class less one.

    Examples
    --------
    >>> features, is_second = np.array([[0.0], [0.1], [5.0], [5.1]]), np.array([False, False, True, True])
    >>> round(input_shift(features, np.zeros(4, dtype=np.int64), is_second), 3)
    2.999
    >>> input_shift(features, np.arange(4), is_second) is None
    True
    """
    _, code = np.unique(classes, return_inverse=True)
    first, second = (np.bincount(code[side], minlength=int(code.max()) + 1) for side in (~is_second, is_second))
    told = np.flatnonzero((first > 0) & (second > 0) & (first + second >= FEWEST))
    if told.size == 0:
        return None
    n_first, n_second = (one[told, np.newaxis].astype(np.float64) for one in (first, second))
    total = n_first + n_second
    exact = features - features.mean(axis=0, dtype=np.float64)
    sums, later = (_summed(exact[rows], code[rows], told) for rows in (slice(None), is_second))
    deviation = np.maximum(_summed(exact**2, code, told) - sums**2 / total, 0.0)
    difference = (sums - later) / n_first - later / n_second
    explained = n_first * n_second / total * difference**2 * (total - 1.0)
    # A feature that is the same throughout a class says nothing: as chance would have it.
    ratio = np.divide(explained, deviation, out=np.ones_like(explained), where=deviation > 1e-9 * total)
    return float(np.average(ratio.mean(axis=1), weights=(total - 2.0)[:, 0]))


def _summed(values: Matrix, code: Labels, told: Counts) -> Matrix:
    """Return the sums of some classes, shape ``(n_told, n_features)``."""
    return np.asarray((told[:, np.newaxis] == code).astype(np.float64) @ values)


def count_shift(seen: Labels, classes: Labels, is_second: Mask) -> float | None:
    """Return how far what is seen within classes differs between two groups; None if no class tells.

    Parameters
    ----------
    seen
        What is counted, for example predictions, shape ``(n_samples,)``.
    classes
        Within what it is counted, for example labels, same shape.
    is_second
        Which group a sample is of, same shape.

    Returns
    -------
    Pearson's statistics, summed over classes, over the sum of their exact means over all ways to deal; 1, as chance
    would have it, if within each class all are the same.

    Examples
    --------
    >>> seen, is_second = np.array([0, 0, 0, 1, 1, 1]), np.array([False, False, False, True, True, True])
    >>> count_shift(seen, np.zeros(6, dtype=np.int64), is_second)
    5.0
    """
    values, column = np.unique(seen, return_inverse=True)
    kinds, row = np.unique(classes, return_inverse=True)
    counts = np.zeros((2, kinds.size, values.size), dtype=np.int64)
    np.add.at(counts, (is_second.astype(np.int64), row, column), 1)
    sizes = counts.sum(axis=2)
    told = np.flatnonzero((sizes.min(axis=0) > 0) & (sizes.sum(axis=0) >= FEWEST_COUNTED))
    if told.size == 0:
        return None
    found = pearson(counts[0, told], counts[1, told])
    expected = float(found.mean.sum())
    return float(found.statistic.sum()) / expected if expected > 0.0 else 1.0
