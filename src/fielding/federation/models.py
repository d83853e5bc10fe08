"""Models as rows of one matrix: mixtures (a warm start is a matrix product), means, and whether they are finite."""

from collections.abc import Iterator

import numpy as np

from fielding._typing import Mask, Matrix, Membership, Models, Vector
from fielding.client.report import row_chunks
from fielding.errors import InputError

COLUMNS = 1 << 16  # numbers of each model that are taken at a time, so that float64 copies of large models never exist


def column_chunks(n_numbers: int) -> Iterator[slice]:
    """Yield slices over the numbers of a model, in order."""
    yield from row_chunks(n_numbers, COLUMNS)


def mix_models(models: Models, mixing: Matrix) -> Models:
    """Return new models as shares of old ones.

    float32, shape ``(n_after, n_numbers)``, summed in float64; under the identity the models themselves, bit for bit.
    ``models``: float32, shape ``(n_before, n_numbers)``. ``mixing``: share of each old model in each new one, shape
    ``(n_after, n_before)``, rows sum to 1.

    Examples
    --------
    >>> models = np.array([[0.0, 2.0], [4.0, 4.0]], dtype=np.float32)
    >>> mix_models(models, np.array([[0.5, 0.5]])).tolist()
    [[2.0, 3.0]]
    """
    if mixing.shape[1] != models.shape[0]:
        raise InputError(f"mixing has {mixing.shape[1]} columns but there are {models.shape[0]} models; give one each")
    new = np.empty((mixing.shape[0], models.shape[1]), dtype=np.float32)
    for part in column_chunks(models.shape[1]):
        new[:, part] = mixing @ models[:, part].astype(np.float64)
    return new


def mean_model(models: Models, weights: Vector | None = None) -> Models:
    """Return the weighted mean of models, summed in float64 in the order of rows; all weigh the same by default."""
    shares = np.ones(models.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
    mean = np.empty(models.shape[1], dtype=np.float32)
    for part in column_chunks(models.shape[1]):
        total = np.zeros(mean[part].size)
        for share, model in zip(shares.tolist(), models[:, part], strict=True):
            total += share * model.astype(np.float64) if share != 1.0 else model
        mean[part] = total / shares.sum()
    return mean


def mean_by_members(models: Models, membership: Membership) -> Models:
    """Return the mean of cluster models by their numbers of clients: what serves a client without a cluster.

    ``membership``: the row of each client, -1 for none; if no client has one, all models weigh the same.

    Examples
    --------
    >>> mean_by_members(np.array([[0.0], [3.0]], dtype=np.float32), np.array([0, 1, 0, -1])).tolist()
    [1.0]
    """
    heads = np.bincount(membership[membership >= 0], minlength=models.shape[0]).astype(np.float64)
    return mean_model(models, heads if heads.any() else None)


def finite_rows(models: Models) -> Mask:
    """Return which models are finite, shape ``(n_models,)``."""
    # One sum per model instead of a mask of all numbers; in float64 it cannot overflow.
    with np.errstate(invalid="ignore"):  # inf - inf
        return np.asarray(np.isfinite(models.sum(axis=1, dtype=np.float64)))


def is_finite(model: Models) -> bool:
    """Return whether all numbers of one model are finite.

    Examples
    --------
    >>> is_finite(np.array([1.0, 2.0], dtype=np.float32)), is_finite(np.array([np.nan], dtype=np.float32))
    (True, False)
    """
    return bool(finite_rows(model[np.newaxis])[0])
