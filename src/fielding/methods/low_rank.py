"""Models seen along the few directions in which they differ most."""

import numpy as np

from fielding._typing import Matrix, Models
from fielding.federation.models import COLUMNS
from fielding.methods.gram import gram_matrix

_NOTHING = 1e-10


def principal_directions(rows: Models, rank: int) -> Models:
    """Return the directions of unit length along which rows spread most, from their inner products.

    Parameters
    ----------
    rows
        Deviations from a common origin, float32, shape ``(n_rows, n_numbers)``.
    rank
        How many directions; where rows span fewer, the last are 0.

    Returns
    -------
    float32, shape ``(rank, n_numbers)``, the first spreads most; O(n_rows^2 n_numbers).

    Examples
    --------
    >>> rows = np.array([[3.0, 0.0, 0.0], [-3.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype=np.float32)
    >>> np.abs(principal_directions(rows, 3)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    values, vectors = np.linalg.eigh(gram_matrix(rows))
    directions = np.zeros((rank, rows.shape[1]), dtype=np.float32)
    order = np.argsort(-values, kind="stable")[:rank]
    order = order[(values[order] > 0.0) & (values[order] > _NOTHING * values.max())]
    shares = vectors[:, order].T / np.sqrt(values[order])[:, np.newaxis]
    for start in range(0, rows.shape[1], COLUMNS):
        part = slice(start, start + COLUMNS)
        directions[: order.size, part] = shares @ rows[:, part].astype(np.float64)
    return directions


def unit_rows(rows: Matrix) -> Matrix:
    """Return rows at length 1; those of length 0 stay.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0.0))
