"""Stage 8: the share of each old model in each new one, so that no cluster starts from nothing."""

from collections.abc import Callable

import numpy as np

from fielding._typing import Matrix, Membership
from fielding.config.parts import Family
from fielding.distance import TIE, Metric
from fielding.errors import unknown_name

Inherit = Callable[[Matrix, Matrix], Matrix]


def head_counts(old: Membership, new: Membership, n_old: int, n_new: int) -> Matrix:
    """Return how many clients of each new cluster come from each old one, shape ``(n_new, n_old)``."""
    flat = np.bincount(new.astype(np.int64) * n_old + old, minlength=n_new * n_old)
    return flat.reshape(n_new, n_old).astype(np.float64)


def by_average(heads: Matrix, _distances: Matrix) -> Matrix:
    """Mix the old models by head count: the mean of the members' old models (the paper's)."""
    return np.asarray(heads / heads.sum(axis=1, keepdims=True))


def by_majority(heads: Matrix, _distances: Matrix) -> Matrix:
    """Take the old model that most members had; a tie goes to the lower one."""
    return np.asarray(np.eye(heads.shape[1])[np.argmax(heads, axis=1)])


def by_nearest(heads: Matrix, distances: Matrix) -> Matrix:
    """Take the model of the old cluster whose center is nearest, dormant ones included; a tie goes to the lower one."""
    is_nearest = distances <= distances.min(axis=1, keepdims=True) + TIE
    return np.asarray(np.eye(heads.shape[1])[np.argmax(is_nearest, axis=1)])


INHERIT: Family[Inherit] = Family("inheritance")


def check_inheritance(name: object) -> None:
    """Raise unless this is a way in which new clusters inherit."""
    if not isinstance(name, str) or name not in INHERIT:
        raise unknown_name("inheritance", name, INHERIT)


def mixing_matrix(heads: Matrix, *, old_centers: Matrix, new_centers: Matrix, metric: Metric, inherit: str) -> Matrix:
    """Return the weight of each old model in each new one.

    ``heads`` are those of the old clusters as they are after individual moves (A16). Shape ``(n_new, n_old)``; rows sum
    to 1. Applied to models as ``mixing @ models``.
    """
    check_inheritance(inherit)
    return INHERIT[inherit](heads, metric.between(new_centers, old_centers))
