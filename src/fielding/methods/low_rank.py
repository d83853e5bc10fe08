"""Models seen along the few directions in which they differ most."""

import numpy as np

from fielding._typing import Models
from fielding.federation.models import column_chunks
from fielding.methods.gram import products

_NOTHING = 1e-10
"""Share of the largest eigenvalue below which another one is rounding."""


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
    values, vectors = np.linalg.eigh(products(rows, rows))
    directions = np.zeros((rank, rows.shape[1]), dtype=np.float32)
    order = np.argsort(-values, kind="stable")[:rank]
    order = order[(values[order] > 0.0) & (values[order] > _NOTHING * values.max())]
    shares = vectors[:, order].T / np.sqrt(values[order])[:, np.newaxis]
    for part in column_chunks(rows.shape[1]):
        directions[: order.size, part] = shares @ rows[:, part].astype(np.float64)
    return directions
