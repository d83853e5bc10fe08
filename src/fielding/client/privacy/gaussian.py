"""Gaussian noise, drawn from random words: for numbers that are no counts.

It is drawn in double precision, whose last digits could tell something in theory (Mironov, 2012); what carries it is
rounded to single precision before it is sent.
"""

import numpy as np

from fielding._typing import Vector
from fielding.client.privacy.geometric import RandomWords


def draw_normals(n_numbers: int, words: RandomWords) -> Vector:
    """Return independent standard normal numbers, shape ``(n_numbers,)``.

    Examples
    --------
    >>> draw_normals(2, lambda n: np.full(n, 2**63, dtype=np.uint64)).round(6).tolist()
    [0.0, 0.0]
    """
    from scipy.special import ndtri  # most devices need none of it

    uniform = ((words(n_numbers) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return np.asarray(ndtri(uniform))
