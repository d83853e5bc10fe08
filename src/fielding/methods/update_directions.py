"""Updates of clients as directions: along which they differ most, and who goes the same way."""

import numpy as np

from fielding._typing import Matrix, Membership, Models
from fielding.coordinator.clustering import KMeans
from fielding.coordinator.clustering.labels import in_order_of_appearance
from fielding.distance import METRICS
from fielding.methods.gram import products

_ROUNDING = 1e-12
"""Share of the largest eigenvalue below which another one is rounding."""


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
    inner = products(updates, updates)
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
    return in_order_of_appearance(found)
