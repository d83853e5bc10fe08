"""Oort's pacer: how slow a client may be before it counts for less, adjusted to how useful the clients are."""

import numpy as np

from fielding._typing import Mask, Vector


def paced_percentiles(
    percentile: Vector, before: Vector, now: Vector, *, delta: float, bounds: tuple[float, float]
) -> Vector:
    """Return the percentiles of preferred durations after a comparison of two stretches of rounds, one per cluster.

    Where the utility of exploited clients stays about the same, there is nothing more to get from fast clients: the
    percentile grows. Where it changes sharply, it shrinks. A first stretch without utility says nothing.

    Parameters
    ----------
    percentile
        As it was, shape ``(n_clusters,)``.
    before, now
        Summed utility of the two stretches, same shape.
    delta
        The step, and the least percentile; 100 is the most.
    bounds
        A change up to the first multiple of ``before`` is flat, one from the second on is sharp.

    Examples
    --------
    >>> before, now = np.array([100.0, 100.0, 100.0]), np.array([95.0, 150.0, 600.0])
    >>> paced_percentiles(np.full(3, 30.0), before, now, delta=5.0, bounds=(0.1, 5.0)).tolist()
    [35.0, 30.0, 25.0]
    """
    change, says_something = np.abs(now - before), before > 0.0
    is_flat: Mask = says_something & (change <= bounds[0] * before)
    is_sharp: Mask = says_something & ~is_flat & (change >= bounds[1] * before)
    moved = percentile + delta * is_flat - delta * is_sharp
    return np.where(is_flat | is_sharp, np.clip(moved, delta, 100.0), percentile)
