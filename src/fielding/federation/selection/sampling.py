"""Draws without replacement from hashes: vectorised, and independent of the order of clients."""

import numpy as np

from fielding._typing import Counts, Vector
from fielding.rng import Hashes


def uniforms(draws: Hashes) -> Vector:
    """Return numbers strictly between 0 and 1, one for each hash.

    Examples
    --------
    >>> uniforms(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64)).round(6).tolist()
    [0.0, 0.5, 1.0]
    """
    # Half a step off zero, so that the logarithm is finite; 52 bits, so that the last one is still below 1.
    return np.asarray(((draws >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52)


def smallest_draws(draws: Hashes, n_wanted: int) -> Counts:
    """Return the positions of the smallest hashes (ties: the first): a uniform sample."""
    return np.argsort(draws, kind="stable")[: max(0, n_wanted)]


def weighted_sample(weights: Vector, draws: Hashes, n_wanted: int) -> Counts:
    """Return positions drawn one after the other by weight, without replacement.

    With keys ``-log(u) / weight`` the smallest ones are such a sample (Efraimidis and Spirakis, 2006), and no draw
    has to wait for the one before it. Positions without weight are taken last, by their hashes.

    Parameters
    ----------
    weights
        Not negative, shape ``(n_candidates,)``; their sum does not matter.
    draws
        One hash for each, same shape.
    n_wanted
        How many, at most.

    Examples
    --------
    >>> draws = np.array([5, 2**63, 9], dtype=np.uint64)
    >>> weighted_sample(np.array([0.0, 1.0, 0.0]), draws, 2).tolist()
    [1, 0]
    """
    keys = np.full(weights.size, np.inf)
    with np.errstate(over="ignore"):  # next to no weight is as good as none
        np.divide(-np.log(uniforms(draws)), weights, out=keys, where=weights > 0.0)
    return np.lexsort((draws, keys))[: max(0, n_wanted)]
