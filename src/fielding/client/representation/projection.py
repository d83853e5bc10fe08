"""Fewer numbers for nearly the same distances: seeded projections that every client makes for itself."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fielding._typing import Matrix
from fielding.blas_threads import ONE_BLAS_THREAD
from fielding.rng import hashed, stream

DENSE_NUMBERS = 2**22
"""The largest matrix for gradients, 32 MiB and about a second to make; beyond it numbers are hashed."""

HASHED_AT_ONCE = 2**16  # how many numbers are hashed at a time


@lru_cache(maxsize=4)
def orthonormal(n_numbers: int, n_dims: int, seed: int, purpose: str) -> Matrix:
    """Return a matrix with orthonormal columns that spans a random subspace, shape ``(n_numbers, n_dims)``.

    No vector gets longer by it, so what bounds a sample's part in a sum bounds it afterwards too. With at least as many
    dimensions as numbers nothing needs to be lost: numbers keep their places, and the rest is zero.

    The same seed and purpose give the same matrix; read-only.

    Examples
    --------
    >>> matrix = orthonormal(5, 2, 0, "example")
    >>> bool(np.allclose(matrix.T @ matrix, np.eye(2)))
    True
    """
    if n_dims >= n_numbers:
        matrix = np.eye(n_numbers, n_dims)
    else:
        normal = stream(seed, purpose, n_numbers, n_dims).standard_normal((n_numbers, n_dims))
        with ONE_BLAS_THREAD:
            matrix, triangle = np.linalg.qr(normal)
        # Libraries differ in the signs; with a positive diagonal the result is unique.
        matrix = matrix * np.where(np.diagonal(triangle) < 0.0, -1.0, 1.0)
    matrix.flags.writeable = False
    return matrix


def project_features(features: npt.NDArray[np.float32], n_dims: int, seed: int) -> Matrix:
    """Return features in ``n_dims`` numbers, shape ``(n_samples, n_dims)``; with fewer features the rest is zero."""
    with ONE_BLAS_THREAD:
        return features.astype(np.float64) @ orthonormal(features.shape[1], n_dims, seed, "project features")


def shorten(rows: npt.NDArray[np.floating], n_dims: int, seed: int) -> Matrix:
    """Return rows in at most ``n_dims`` numbers; 0 leaves them as they are.

    Up to ``DENSE_NUMBERS`` by an orthonormal matrix. Gradients of whole networks are longer than that and are hashed
    instead: every number is added to one of ``n_dims`` buckets with a random sign (feature hashing, Weinberger et al.
    2009). This keeps inner products on average and needs no matrix.

    Examples
    --------
    >>> shorten(np.ones((2, 3)), 5, 0).shape, shorten(np.ones((2, 1000)), 5, 0).shape
    ((2, 3), (2, 5))
    """
    n_numbers = rows.shape[1]
    if n_dims == 0 or n_numbers <= n_dims:
        return rows.astype(np.float64)
    if n_numbers * n_dims <= DENSE_NUMBERS:
        with ONE_BLAS_THREAD:
            return rows.astype(np.float64) @ orthonormal(n_numbers, n_dims, seed, "project gradient")
    n_rows = rows.shape[0]
    sums = np.zeros(n_rows * n_dims)
    offsets = np.arange(n_rows)[:, np.newaxis] * n_dims
    for start in range(0, n_numbers, HASHED_AT_ONCE):
        part = rows[:, start : start + HASHED_AT_ONCE]
        positions = np.arange(start, start + part.shape[1], dtype=np.uint64)
        draws = hashed(seed, "hash gradient", n_numbers, n_dims, positions)
        # The sign takes a bit that the bucket leaves: both from one draw.
        signs = np.where(draws >> np.uint64(63), 1.0, -1.0)
        buckets = ((draws & np.uint64(2**62 - 1)) % np.uint64(n_dims)).astype(np.int64)
        sums += np.bincount((offsets + buckets).ravel(), weights=(part * signs).ravel(), minlength=sums.size)
    return sums.reshape(n_rows, n_dims)
