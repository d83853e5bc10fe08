"""Updates of clients as directions: how alike they are, in float64 without a float64 copy of all of them."""

from collections.abc import Iterator

import numpy as np

from fielding._typing import Matrix, Membership, Models, Vector
from fielding.coordinator.clustering import KMeans
from fielding.distance import METRICS
from fielding.federation.models import COLUMNS
from fielding.methods.gram import gram_matrix

_ROUNDING = 1e-12
"""Share of the largest eigenvalue below which another one is rounding."""


def products(first: Models, second: Models) -> Matrix:
    """Return the inner product of every row of one matrix with every row of another; time grows with both.

    Parameters
    ----------
    first, second
        float32, shapes ``(n_first, n_numbers)`` and ``(n_second, n_numbers)``.

    Examples
    --------
    >>> products(np.array([[1.0, 2.0]], dtype=np.float32), np.eye(2, dtype=np.float32)).tolist()
    [[1.0, 2.0]]
    """
    total = np.zeros((first.shape[0], second.shape[0]))
    for part in _columns(first.shape[1]):
        total += first[:, part].astype(np.float64) @ second[:, part].astype(np.float64).T
    return total


def norms(updates: Models) -> Vector:
    """Return the Euclidean length of each row."""
    squares = np.zeros(updates.shape[0])
    for part in _columns(updates.shape[1]):
        squares += np.square(updates[:, part], dtype=np.float64).sum(axis=1)
    return np.sqrt(squares)


def cosines(first: Models, second: Models) -> Matrix:
    """Return the cosine between rows of two matrices, shape ``(n_first, n_second)``; 0 where a row is zero.

    Examples
    --------
    >>> first = np.array([[3.0, 0.0], [0.0, 0.0]], dtype=np.float32)
    >>> cosines(first, np.array([[-1.0, 0.0], [0.0, 1.0]], dtype=np.float32)).tolist()
    [[-1.0, 0.0], [0.0, 0.0]]
    """
    lengths = norms(first)[:, np.newaxis] * norms(second)
    found = np.zeros(lengths.shape)
    np.divide(products(first, second), lengths, out=found, where=lengths > 0.0)
    return np.clip(found, -1.0, 1.0)


def unit_rows(updates: Models) -> Models:
    """Return rows of length 1; a row of zeros stays one."""
    lengths = norms(updates)[:, np.newaxis]
    units = np.zeros(updates.shape, dtype=np.float32)
    np.divide(updates, lengths, out=units, where=lengths > 0.0, casting="same_kind")
    return units


def decomposed_cosines(updates: Models, n_directions: int) -> Matrix:
    """Return the cosine of each update with the main directions of all of them (FlexCFL's measure "EDC").

    Parameters
    ----------
    updates
        float32, shape ``(n_updates, n_numbers)``.
    n_directions
        How many singular vectors, largest first; zeros for those that rank does not allow.

    Returns
    -------
    Shape ``(n_updates, n_directions)``; the sign of a column means nothing.

    Examples
    --------
    >>> updates = np.array([[2.0, 0.0], [4.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    >>> np.abs(decomposed_cosines(updates, 2)).round(6).tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """
    # With A = U S V', A V = U S follows from the small matrix A A' alone.
    inner = gram_matrix(updates)
    values, vectors = np.linalg.eigh(inner)
    found = np.zeros((updates.shape[0], n_directions))
    kept = [at for at in range(values.size - 1, -1, -1) if values[at] > _ROUNDING * values[-1]][:n_directions]
    lengths = np.sqrt(np.diag(inner))[:, np.newaxis]
    parts = vectors[:, kept] * np.sqrt(values[kept])
    np.divide(parts, lengths, out=found[:, : len(kept)], where=lengths > 0.0)
    return found


def grouped_by_direction(updates: Models, k: int, *, rng: np.random.Generator) -> Membership:
    """Return the group of each update, numbered in the order in which they first appear; at most ``k`` groups.

    There are fewer groups if there are fewer different directions.
    """
    features = decomposed_cosines(updates, k)
    found = KMeans().partitions(features, [k], metric=METRICS["l2"], rng=rng)[k]
    _, first, labels = np.unique(found, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[labels].astype(np.int32)


def _columns(n_numbers: int) -> Iterator[slice]:
    """Yield slices over the numbers of a model."""
    for start in range(0, n_numbers, COLUMNS):
        yield slice(start, start + COLUMNS)
