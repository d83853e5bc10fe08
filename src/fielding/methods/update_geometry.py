"""Differences, inner products and cosines of updates: all that methods need to compare few updates of many numbers."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Floats, Matrix, Membership, Models, Vector
from fielding.coordinator.clustering import KMeans
from fielding.distance import METRICS
from fielding.federation.clients import Updates
from fielding.federation.models import column_chunks

Rows = TypeVar("Rows", npt.NDArray[np.float32], npt.NDArray[np.float64])  # rows in either precision
_MOST = np.finfo(np.float32).max


def subtract(ours: Models, theirs: Models) -> Models:
    """Return ours minus theirs, all finite: two of opposite signs may lie further apart than float32 can say.

    Examples
    --------
    >>> far = np.array([3e38], dtype=np.float32)
    >>> bool(np.isfinite(subtract(far, -far)).all())
    True
    """
    with np.errstate(over="ignore"):
        apart = ours - theirs
    return np.clip(apart, -_MOST, _MOST, out=apart)


def update_deltas(updates: Updates, models: Models) -> Models:
    """Return by how much each answer changed the parameters of its model, a row of ``models``; buffers are left out."""
    size = updates.n_parameters
    return subtract(updates.models[:, :size], models[updates.start, :size])


def products(first: Models, second: Models) -> Matrix:
    """Return the inner product of every row of one matrix with every row of another, summed in float64.

    Of a matrix with itself, the result is symmetric to the last digit; time grows with both numbers of rows.
    """
    total = np.zeros((first.shape[0], second.shape[0]))
    for part in column_chunks(first.shape[1]):
        ours = first[:, part].astype(np.float64)
        # One array, not two equal ones: numpy then computes half of the products and mirrors them.
        theirs = ours if second is first else second[:, part].astype(np.float64)
        total += ours @ theirs.T
    return total


def norms(rows: Floats) -> Vector:
    """Return the Euclidean length of each row, summed in float64."""
    squares = np.zeros(rows.shape[0])
    for part in column_chunks(rows.shape[1]):
        squares += np.square(rows[:, part], dtype=np.float64).sum(axis=1)
    return np.sqrt(squares)


def scale_to_unit(rows: Rows) -> Rows:
    """Return rows at length 1, as precise as they were; a row of zeros stays one."""
    lengths = norms(rows)[:, np.newaxis]
    units = np.zeros_like(rows)
    np.divide(rows, lengths, out=units, where=lengths > 0.0, casting="same_kind")
    return units


def cosines(first: Models, second: Models) -> Matrix:
    """Return the cosine between rows of two matrices, shape ``(n_first, n_second)``; 0 where a row is zero."""
    lengths = norms(first)[:, np.newaxis] * norms(second)
    found = np.zeros(lengths.shape)
    np.divide(products(first, second), lengths, out=found, where=lengths > 0.0)
    return np.clip(found, -1.0, 1.0)


def center_products(inner: Matrix) -> Matrix:
    """Return the inner products of the same rows after their mean is taken off.

    Examples
    --------
    >>> center_products(np.array([[0.0, 0.0], [0.0, 4.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    means = inner.mean(axis=0)
    return np.asarray(inner - means - means[:, np.newaxis] + means.mean())


def cosines_from(inner: Matrix) -> Matrix:
    """Return the cosine of every pair of rows from their inner products; 0 with a row of length 0.

    Examples
    --------
    >>> cosines_from(np.array([[4.0, 0.0, 2.0], [0.0, 0.0, 0.0], [2.0, 0.0, 1.0]])).tolist()
    [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]]
    """
    lengths = np.sqrt(np.maximum(np.diag(inner), 0.0))
    scale = np.outer(lengths, lengths)
    return np.asarray(np.divide(inner, scale, out=np.zeros_like(inner), where=scale > 0.0))


def distances_to_mean(inner: Matrix, members: Counts) -> Vector:
    """Return how far each row lies from the mean of some of them, from their inner products.

    Examples
    --------
    >>> line = np.array([[0.0], [2.0], [7.0]])
    >>> distances_to_mean(line @ line.T, np.array([0, 1])).tolist()
    [1.0, 1.0, 6.0]
    """
    along = inner[:, members].mean(axis=1)
    squares = np.diag(inner) - 2.0 * along + along[members].mean()
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def two_means(inner: Matrix, rng: np.random.Generator) -> Membership:
    """Return the half, 0 or 1, of each row under 2-means with Euclidean distances, from their inner products.

    Examples
    --------
    >>> line = np.array([[-1.0], [-1.1], [1.0], [1.2]])
    >>> halves = two_means(line @ line.T, np.random.default_rng(1))
    >>> bool(halves[0] == halves[1] != halves[2] == halves[3])
    True
    """
    values, vectors = np.linalg.eigh(inner)
    places = vectors * np.sqrt(np.maximum(values, 0.0))
    return KMeans().partitions(places, [2], metric=METRICS["l2"], rng=rng)[2]
