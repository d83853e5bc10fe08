"""Features measured in their own spreads, and a word of warning where they should be."""

from dataclasses import dataclass, replace

import numpy as np

from fielding._typing import Counts, Vector
from fielding.traces.pool import Pool, Scaling

LARGE = 10.0
"""Features beyond this, or a mean so many spreads away from 0, keep plain gradient steps from learning."""
UNEQUAL = 100.0
"""Spreads that differ by more: the smaller features drown."""
_CHUNK = 1 << 22
_NOTED_ROWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spread:
    """Where features lie.

    Parameters
    ----------
    mean, spread
        Mean and standard deviation of each feature, in the shape of a sample; of images one per channel.
    """

    mean: Vector
    spread: Vector


def standardized(pool: Pool, samples: Counts) -> Pool:
    """Return the pool with features minus their mean over their spread, both measured on some samples.

    Parameters
    ----------
    pool
        The samples; the scaling that it has is replaced.
    samples
        The rows that may be looked at, shape ``(n,)``; without any the pool stays as it is.

    Returns
    -------
    A pool of the same raw features. A feature that is constant in these rows is only shifted (spread 1); of images all
    pixels of a channel are measured together, so that a turned image is still an image.

    Examples
    --------
    >>> x = np.array([[80.0, 1.0], [100.0, 1.0], [120.0, 2.0]])
    >>> pool = Pool(x=x, y=np.zeros(3, dtype=np.int32), classes=("a",))
    >>> standardized(pool, np.array([0, 1])).features(np.arange(3)).tolist()
    [[-1.0, 0.0], [1.0, 0.0], [3.0, 1.0]]
    """
    if not samples.size:
        return pool
    found = spread_of(pool, samples)
    safe = np.where(found.spread > 0.0, found.spread, 1.0)
    return replace(pool, scaling=Scaling(shift=found.mean, factor=1.0 / safe))


def spread_of(pool: Pool, samples: Counts) -> Spread:
    """Return where the raw features of some samples lie, at least one; read piece by piece, so maps stay on disk."""
    axes = (0, 1, 2) if pool.is_image else (0,)
    size = max(1, _CHUNK // int(np.prod(pool.shape)))
    parts = [samples[start : start + size] for start in range(0, samples.size, size)]
    # Measured from the first sample, so that what is constant has a spread of exactly 0.
    pivot = np.asarray(pool.x[samples[0]][0, 0] if pool.is_image else pool.x[samples[0]], dtype=np.float64)
    n_values = samples.size * (pool.shape[0] * pool.shape[1] if pool.is_image else 1)

    def mean(center: Vector, power: int) -> Vector:
        sums = [((pool.x[part].astype(np.float64) - center) ** power).sum(axis=axes) for part in parts]
        return np.asarray(np.sum(sums, axis=0) / n_values)

    center = np.asarray(pivot + mean(pivot, 1))
    return Spread(mean=center, spread=np.sqrt(mean(center, 2)))


def scale_note(pool: Pool, samples: Counts) -> str | None:
    """Return what to tell a user whose features lie on scales that models do not learn from; None if all is well.

    Parameters
    ----------
    pool
        The samples. Only vectors of raw numbers are looked at: bytes and images have a scale of their own.
    samples
        The rows to look at, shape ``(n,)``; of more than 10,000 as many are taken.

    Examples
    --------
    >>> x = np.array([[80.0, 1.0], [90.0, 2.0], [100.0, 1.5]])
    >>> pool = Pool(x=x, y=np.zeros(3, dtype=np.int32), classes=("a",))
    >>> print(scale_note(pool, np.arange(3)).partition(";")[0])
    features differ in scale: feature 1 of 2 lies around 90 with a spread of 8.16, feature 2 around 1.5 with 0.408
    """
    scaling = pool.scaling or Scaling()
    is_raw = np.all(scaling.shift == 0.0) and np.all(scaling.factor == 1.0)
    if pool.is_image or not is_raw or not samples.size:
        return None
    rows = samples[:: -(-samples.size // _NOTED_ROWS)]
    found = spread_of(pool, rows)
    # Words and flags are mostly 0: that some are rarer than others is no matter of scale.
    dense = (np.count_nonzero(pool.x[rows], axis=0) * 2 > rows.size) & (found.spread > 0.0)
    if not dense.any() or not _is_odd(found.mean[dense], found.spread[dense]):
        return None
    at = np.flatnonzero(dense)
    first = int(at[np.argmax((np.abs(found.mean) + found.spread)[at])])
    told = f"feature {first + 1} of {pool.shape[0]} lies around {found.mean[first]:.3g} with a spread of "
    told += f"{found.spread[first]:.3g}"
    last = int(at[np.argmin(found.spread[at])])
    if last != first:
        told += f", feature {last + 1} around {found.mean[last]:.3g} with {found.spread[last]:.3g}"
    return f"features differ in scale: {told}; models learn little from such numbers, set trace.standardize = true"


def _is_odd(mean: Vector, spread: Vector) -> bool:
    """Return whether numbers are large, far from 0 for their spread, or of very different spreads."""
    distances = np.abs(mean)
    is_large = (distances + spread > LARGE).any() or (distances > LARGE * spread).any()
    return bool(is_large or spread.max() > UNEQUAL * spread.min())
