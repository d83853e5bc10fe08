"""Whether silhouettes are more than points without any structure would show: the case for one cluster."""

from collections.abc import Callable, Iterable

import numpy as np

from fielding._typing import Matrix
from fielding.distance import TIE

SHARES_TOLERANCE = 1e-3
"""Rows that sum to one within this, and hold nothing negative, are shares."""
LEAST_PRECISION = 1e-3
"""Of shares that differ as much as shares can."""


def without_structure(points: Matrix, rng: np.random.Generator) -> Matrix:
    """Return points with the same values in every feature, dealt anew to the clients, each feature on its own.

    Shares of a row depend on each other by their sum alone if they are independent amounts divided by their sum. So
    rows of shares are made amounts (times a gamma number, as if they came from one Dirichlet distribution), dealt, and
    made shares again; one that got nothing stays zero.

    Examples
    --------
    >>> dealt = without_structure(np.array([[0.0, 5.0], [1.0, 6.0], [2.0, 7.0]]), np.random.default_rng(1))
    >>> np.sort(dealt, axis=0).tolist()
    [[0.0, 5.0], [1.0, 6.0], [2.0, 7.0]]
    """
    if (points < 0.0).any() or (np.abs(points.sum(axis=1) - 1.0) > SHARES_TOLERANCE).any():
        return rng.permuted(points, axis=0)
    amounts = points * rng.gamma(_precision(points), size=(len(points), 1))
    dealt = rng.permuted(amounts, axis=0)
    sums = dealt.sum(axis=1, keepdims=True)
    return np.asarray(dealt / np.where(sums > 0.0, sums, 1.0))


def _precision(shares: Matrix) -> float:
    """Return the sum of the parameters of a Dirichlet distribution with the same means and the same total variance."""
    mean = shares.mean(axis=0)
    variance = float(shares.var(axis=0).sum())
    return max(LEAST_PRECISION, float((mean * (1.0 - mean)).sum()) / variance - 1.0) if variance > 0.0 else 1.0


def beats_null(
    silhouettes: Iterable[float],
    points: Matrix,
    measure: Callable[[Matrix], Iterable[float]],
    *,
    rng: np.random.Generator,
    n_draws: int,
) -> bool:
    """Return whether the best silhouette of some points beats the best of each of some draws without structure.

    The best over all K on both sides: the one that was chosen is the largest of several, and so are those of chance.

    Parameters
    ----------
    silhouettes
        Mean silhouette per number of clusters of the points.
    points
        One representation per row; with a single feature there is no structure to remove, and the answer is no.
    measure
        Returns the same for other points.
    rng
        Where chance comes from.
    n_draws
        How many draws; 19 let structure pass that is not there once in twenty times.
    """
    best = max(silhouettes)
    return all(best > max(measure(without_structure(points, rng))) + TIE for _ in range(n_draws))
