"""Inner products of updates: all that methods need to compare few updates of many numbers."""

import numpy as np

from fielding._typing import Counts, Matrix, Membership, Models, Vector
from fielding.coordinator.clustering import KMeans
from fielding.distance import METRICS
from fielding.federation.models import COLUMNS


def gram_matrix(rows: Models) -> Matrix:
    """Return the inner product of every row with every other, summed in float64; O(n_rows^2 n_numbers).

    Parameters
    ----------
    rows
        float32, shape ``(n_rows, n_numbers)``.

    Examples
    --------
    >>> gram_matrix(np.array([[1.0, 2.0], [3.0, 0.0]], dtype=np.float32)).tolist()
    [[5.0, 3.0], [3.0, 9.0]]
    """
    products = np.zeros((rows.shape[0], rows.shape[0]))
    for start in range(0, rows.shape[1], COLUMNS):
        part = rows[:, start : start + COLUMNS].astype(np.float64)
        products += part @ part.T
    return products


def centered(products: Matrix) -> Matrix:
    """Return the inner products of the same rows after their mean is taken off.

    Examples
    --------
    >>> centered(np.array([[0.0, 0.0], [0.0, 4.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    means = products.mean(axis=0)
    return np.asarray(products - means - means[:, np.newaxis] + means.mean())


def cosines(products: Matrix) -> Matrix:
    """Return the cosine of every pair of rows from their inner products; 0 with a row of length 0.

    Examples
    --------
    >>> cosines(np.array([[4.0, 0.0, 2.0], [0.0, 0.0, 0.0], [2.0, 0.0, 1.0]])).tolist()
    [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]]
    """
    lengths = np.sqrt(np.maximum(np.diag(products), 0.0))
    scale = np.outer(lengths, lengths)
    return np.asarray(np.divide(products, scale, out=np.zeros_like(products), where=scale > 0.0))


def distances_to_mean(products: Matrix, members: Counts) -> Vector:
    """Return how far each row lies from the mean of some of them, from their inner products.

    Examples
    --------
    >>> line = np.array([[0.0], [2.0], [7.0]])
    >>> distances_to_mean(line @ line.T, np.array([0, 1])).tolist()
    [1.0, 1.0, 6.0]
    """
    along = products[:, members].mean(axis=1)
    squares = np.diag(products) - 2.0 * along + along[members].mean()
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def two_means(products: Matrix, rng: np.random.Generator) -> Membership:
    """Return the half, 0 or 1, of each row under 2-means with Euclidean distances, from their inner products.

    Examples
    --------
    >>> line = np.array([[-1.0], [-1.1], [1.0], [1.2]])
    >>> halves = two_means(line @ line.T, np.random.default_rng(1))
    >>> bool(halves[0] == halves[1] != halves[2] == halves[3])
    True
    """
    values, vectors = np.linalg.eigh(products)
    places = vectors * np.sqrt(np.maximum(values, 0.0))
    return KMeans().partitions(places, [2], metric=METRICS["l2"], rng=rng)[2]
