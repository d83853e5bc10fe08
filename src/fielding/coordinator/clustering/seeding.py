"""Starts for k-means: greedy k-means++ for many restarts and every K at once."""

import numpy as np

from fielding._typing import Counts, Floats


def seed_rows(squares: Floats, n_seeds: int, *, n_restarts: int, rng: np.random.Generator) -> Counts:
    """Return rows to start k-means from; the first k of a restart are a start for k clusters.

    Each seed after the first is the best of a few rows drawn with a chance in proportion to their squared distance
    from the seeds so far (Arthur and Vassilvitskii 2007, section 7: greedy k-means++).

    Parameters
    ----------
    squares
        Squared distances between all rows, shape ``(n_rows, n_rows)``, zero on the diagonal.
    n_seeds
        How many rows per restart.
    n_restarts
        How many independent restarts.
    rng
        Where chance comes from.

    Returns
    -------
    Row numbers, shape ``(n_restarts, n_seeds)``; once every row is a seed or equals one, the last row repeats.

    Examples
    --------
    >>> squares = np.array([[0.0, 0.0, 9.0], [0.0, 0.0, 9.0], [9.0, 9.0, 0.0]])
    >>> seeds = seed_rows(squares, 2, n_restarts=5, rng=np.random.default_rng(1))
    >>> bool(np.all((seeds == 2).sum(axis=1) == 1))
    True
    """
    n_trials = 2 + int(np.log(n_seeds))
    restarts = np.arange(n_restarts)
    seeds = np.empty((n_restarts, n_seeds), dtype=np.int64)
    seeds[:, 0] = rng.integers(len(squares), size=n_restarts)
    nearest = squares[seeds[:, 0]]
    for at in range(1, n_seeds):
        trials = drawn_rows(nearest, n_trials, rng=rng)
        after = np.minimum(squares[trials], nearest[:, None, :])
        best = after.sum(axis=2).argmin(axis=1)
        seeds[:, at] = trials[restarts, best]
        nearest = after[restarts, best]
    return seeds


def drawn_rows(masses: Floats, n_drawn: int, *, rng: np.random.Generator) -> Counts:
    """Return numbers drawn with a chance in proportion to mass, so many for every row of masses.

    Parameters
    ----------
    masses
        Not negative, shape ``(n_restarts, n_rows)``.
    n_drawn
        How many numbers per restart.
    rng
        Where chance comes from.

    Returns
    -------
    Shape ``(n_restarts, n_drawn)``; the last number where there is no mass at all.

    Examples
    --------
    >>> drawn_rows(np.array([[0.0, 2.0, 0.0]]), 3, rng=np.random.default_rng(1)).tolist()
    [[1, 1, 1]]
    """
    until = np.cumsum(masses, axis=1, dtype=np.float64)
    draws = rng.random((len(until), n_drawn)) * until[:, -1:]
    drawn = [np.searchsorted(row, draw, side="right") for row, draw in zip(until, draws, strict=True)]
    return np.asarray(np.minimum(np.stack(drawn), masses.shape[1] - 1))
