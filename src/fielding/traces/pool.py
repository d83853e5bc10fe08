"""A pool: labelled samples with features, held once, from which schedules deal to clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Features, Json, Mask, Vector
from fielding.client.ranges import Positions
from fielding.errors import InputError
from fielding.rng import Hashes, hashed
from fielding.traces.npz_file import Array

TEST_SHARE = 0.2  # share of the samples that are for testing alone
BLOCKS_PER_TEST = 5  # blocks of which one is for testing alone: the same share
_CHUNK = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaling:
    """How raw features become the float32 numbers that models see: ``(raw - shift) * factor``.

    ``shift`` and ``factor``: one number for all features, or arrays that fit the shape of a sample. ``gap``: what takes
    the place of a missing number (NaN) of each feature, NaN for features without gaps; None if there are no gaps.

    Examples
    --------
    >>> scaling = Scaling(shift=1.0, factor=2.0, gap=np.array([3.0, 0.0]))
    >>> scaling.apply(np.array([[5.0, np.nan], [np.nan, 4.0]])).tolist()
    [[8.0, -2.0], [4.0, 6.0]]
    """

    shift: float | Vector = 0.0
    factor: float | Vector = 1.0
    gap: Vector | None = None

    def apply(self, raw: Array) -> Features:
        """Return the scaled features of some samples, in the same shape; the argument may be used up."""
        if self.gap is not None:
            raw = np.where(np.isnan(raw), self.gap, raw)
        if isinstance(self.shift, np.ndarray) or isinstance(self.factor, np.ndarray):
            # In float64: far from 0, float32 would lose what tells samples apart before the shift is taken off.
            return ((raw.astype(np.float64) - self.shift) * self.factor).astype(np.float32)
        rows = raw.astype(np.float32, copy=False)
        if self.shift:
            rows -= np.float32(self.shift)
        if self.factor != 1.0:
            rows *= np.float32(self.factor)
        return rows


def scaling_record(scaling: Scaling) -> dict[str, Json]:
    """Return a scaling as plain values: ``mean`` that is taken off, ``spread`` that is divided by, ``gap`` if any.

    Examples
    --------
    >>> scaling_record(Scaling(shift=np.array([70.0, 0.5]), factor=np.array([0.1, 1.0]), gap=np.array([70.0, np.nan])))
    {'mean': [70.0, 0.5], 'spread': [10.0, 1.0], 'gap': [70.0, None]}
    """
    record: dict[str, Json] = {
        "mean": np.asarray(scaling.shift, dtype=np.float64).tolist(),
        "spread": (1.0 / np.asarray(scaling.factor, dtype=np.float64)).tolist(),
    }
    if scaling.gap is not None:
        record["gap"] = [float(one) if np.isfinite(one) else None for one in scaling.gap]
    return record


def scaling_from(record: Mapping[str, Json]) -> Scaling:
    """Return the scaling of a record; a gap where none was known before becomes the mean that is taken off, if any."""

    def numbers(name: str) -> float | Vector:
        found = np.asarray(record[name], dtype=np.float64)
        return found if found.ndim else float(found)

    shift, gap = numbers("mean"), None
    if "gap" in record or isinstance(shift, np.ndarray):
        known = np.asarray(record.get("gap", np.nan), dtype=np.float64)  # None is NaN
        gap = np.where(np.isnan(known), shift if isinstance(shift, np.ndarray) else np.nan, known)
    return Scaling(shift=shift, factor=1.0 / numbers("spread"), gap=gap)


PIXELS = Scaling(factor=1.0 / 255.0)  # bytes of images as numbers from 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Blocks:
    """In which block of time of which client each sample lies: what is split together.

    ``owner``: key of the client (:func:`fielding.rng.client_key`), ``index``: block since time 0, both of shape
    ``(n_samples,)``. ``fold``: which of five blocks in a row is tested, from 0; over all five folds each is, once.
    """

    owner: Hashes
    index: Counts
    fold: int = 0


def choose_test(n_samples: int, blocks: Blocks | None = None) -> Mask:
    """Return which samples are for testing, shape ``(n_samples,)``: a fifth of them, the same in every run.

    Without blocks by position. With blocks, one of every five blocks of a client, counted from time 0, as a hash of
    client and five and the fold say: nothing else of the data matters, so that a part of a trace is split as all of it.

    Examples
    --------
    >>> hours = Blocks(owner=np.full(10, 7, dtype=np.uint64), index=np.arange(10))
    >>> choose_test(10, hours).reshape(2, 5).sum(axis=1).tolist()
    [1, 1]
    """
    if blocks is None:
        draws = hashed(0, "test", np.arange(n_samples, dtype=np.uint64))
        return np.asarray(draws < np.uint64(int(TEST_SHARE * 2**64)))
    five, place = np.divmod(blocks.index, BLOCKS_PER_TEST)
    draws = hashed(0, "test block", blocks.owner, five.astype(np.uint64))
    tested = (draws + np.uint64(blocks.fold)) % np.uint64(BLOCKS_PER_TEST)
    return np.asarray(place.astype(np.uint64) == tested)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Pool:
    """Labelled samples; which of them are for testing follows from their position, or from their blocks of time.

    Parameters
    ----------
    x
        Raw features, shape ``(n_samples, ...)``: bytes or numbers; may be a memory map. Images are
        ``(n_samples, height, width)`` or ``(n_samples, height, width, channels)``.
    y
        Label of each sample, as a position in ``classes``, shape ``(n_samples,)``.
    scaling
        How raw features become numbers; bytes are taken as pixels by default. NaN is allowed in features for which it
        has a ``gap``.
    blocks
        Of a natural trace: samples of one block are all for training or all for testing. None: each by itself.

    Examples
    --------
    >>> pool = Pool(x=np.array([[0, 255], [51, 0]], dtype=np.uint8), y=np.array([0, 1], dtype=np.int32),
    ...             classes=("cat", "dog"))
    >>> pool.features(np.array([1, 0])).round(3).tolist()
    [[0.20000000298023224, 0.0], [0.0, 1.0]]
    """

    x: Array
    y: Codes
    classes: tuple[str, ...]
    scaling: Scaling | None = None
    blocks: Blocks | None = None

    def __post_init__(self) -> None:
        if self.y.ndim != 1 or self.x.shape[:1] != self.y.shape:
            raise InputError(f"x has shape {self.x.shape} and y {self.y.shape}; give one row of each per sample")
        if not self.y.size:
            raise InputError("the pool holds no samples; at least one is needed")
        if self.x.ndim < 2 or not all(self.x.shape[1:]):
            raise InputError(f"x has shape {self.x.shape}; every sample needs at least one feature")
        if self.x.dtype.kind not in "biuf":
            raise InputError(f"x holds {self.x.dtype}; features must be numbers")
        if int(self.y.min()) < 0 or int(self.y.max()) >= len(self.classes):
            row = int(np.argmax((self.y < 0) | (self.y >= len(self.classes))))
            raise InputError(f"y in row {row} is {int(self.y[row])}; it must lie between 0 and {len(self.classes) - 1}")
        if self.x.dtype.kind == "f":
            _check_finite(self.x, None if self.scaling is None else self.scaling.gap)
        # np.take would copy all of an array that is stored by column, for every batch.
        object.__setattr__(self, "x", self.x if self.x.flags.c_contiguous else np.ascontiguousarray(self.x))
        if self.scaling is None:
            object.__setattr__(self, "scaling", PIXELS if self.x.dtype == np.uint8 else Scaling())

    @classmethod
    def from_arrays(cls, x: npt.ArrayLike, y: npt.ArrayLike, classes: Sequence[str] | None = None) -> "Pool":
        """Return samples that are arrays, or lists, as a pool.

        ``x``: features, one row per sample. ``y``: labels, whole numbers or texts; with ``classes``, positions in them.

        Examples
        --------
        >>> Pool.from_arrays([[0.5, 1.0], [2.0, 3.0]], ["dog", "cat"]).classes
        ('cat', 'dog')
        """
        from fielding.traces.frames import pool_from_arrays

        return pool_from_arrays(x, y, classes)

    @classmethod
    def from_dataset(
        cls, dataset: Any, *, x: str | int | None = None, y: str | int | None = None, n_text_features: int = 512
    ) -> "Pool":
        """Return the samples of a dataset of PyTorch or Hugging Face as a pool, for a scenario to deal.

        Parameters
        ----------
        dataset
            Its items are pairs ``(features, label)`` or mappings; features are arrays, tensors, images or texts, all of
            one shape. Tensors of images have their channels first, as PyTorch has them.
        x, y
            Which of an item are features and label: names of columns, or positions; by default what they are usually
            called, or the first and the second.
        n_text_features
            Features that the words of a text are hashed into.

        Examples
        --------
        >>> Pool.from_dataset([([0.0, 1.0], 7), ([1.0, 0.0], 3)]).classes
        ('3', '7')
        """
        from fielding.traces.frames import pool_from_dataset

        return pool_from_dataset(dataset, x=x, y=y, n_text_features=n_text_features)

    def __repr__(self) -> str:
        """Return how many samples and classes there are."""
        return f"<fielding.Pool: {len(self):,} samples of shape {self.shape}, {len(self.classes):,} classes>"

    def __len__(self) -> int:
        return int(self.y.size)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the features of one sample."""
        return tuple(int(size) for size in self.x.shape[1:])

    @property
    def is_image(self) -> bool:
        """Whether a sample has at least two dimensions."""
        return self.x.ndim >= 3

    def features(self, samples: Positions) -> Features:
        """Return the scaled features of some samples, a new array of shape ``(n, ...)``."""
        return (self.scaling or Scaling()).apply(np.take(self.x, samples, axis=0))

    def is_test(self) -> Mask:
        """Return which samples are for testing, shape ``(n_samples,)``: a fifth of them, the same in every run."""
        return choose_test(len(self), self.blocks)


def _check_finite(x: Array, gap: Vector | None) -> None:
    """Raise if a feature is not finite, and no gap either, looking at a memory map piece by piece."""
    rows = max(1, _CHUNK // max(1, int(np.prod(x.shape[1:]))))
    for start in range(0, x.shape[0], rows):
        part = x[start : start + rows]
        is_known = np.isfinite(part) if gap is None else np.isfinite(part) | (np.isnan(part) & np.isfinite(gap))
        is_finite = is_known.reshape(part.shape[0], -1).all(axis=1)
        if not is_finite.all():
            row = start + int(np.argmin(is_finite))
            raise InputError(f"x in row {row} holds NaN or infinity; every feature must be a finite number")


LARGE = 10.0  # features beyond this, or a mean so many spreads away from 0, keep plain gradient steps from learning
UNEQUAL = 100.0  # spreads that differ by more: the smaller features drown
_NOTED_ROWS = 10_000


def fill_gaps(pool: Pool, samples: Counts) -> Pool:
    """Return the pool with gaps that become the mean of what some samples know of a feature; 0 if they know nothing.

    Examples
    --------
    >>> x, y = np.array([[60.0], [80.0], [np.nan], [500.0]]), np.zeros(4, dtype=np.int32)
    >>> pool = Pool(x=x, y=y, classes=("a",), scaling=Scaling(gap=np.zeros(1)))
    >>> fill_gaps(pool, np.array([0, 1, 2])).features(np.array([2])).tolist()
    [[70.0]]
    """
    scaling = pool.scaling or Scaling()
    if scaling.gap is None:
        return pool
    at = np.flatnonzero(np.isfinite(scaling.gap))
    known = pool.x[np.ix_(samples, at)].astype(np.float64)
    n_known = np.maximum(np.isfinite(known).sum(axis=0), 1)
    gap = np.full(scaling.gap.shape, np.nan)
    gap[at] = np.nansum(known, axis=0) / n_known
    return replace(pool, scaling=replace(scaling, gap=gap))


def standardize(pool: Pool, samples: Counts) -> Pool:
    """Return the pool with features minus their mean over their spread, both measured on some samples.

    The scaling that the pool has is replaced, but for what gaps become; without samples it stays. A feature that is
    constant in these rows is only shifted (spread 1); of images all pixels of a channel are measured together, so that
    a turned image is still an image.

    Examples
    --------
    >>> x = np.array([[80.0, 1.0], [100.0, 1.0], [120.0, 2.0]])
    >>> pool = Pool(x=x, y=np.zeros(3, dtype=np.int32), classes=("a",))
    >>> standardize(pool, np.array([0, 1])).features(np.arange(3)).tolist()
    [[-1.0, 0.0], [1.0, 0.0], [3.0, 1.0]]
    """
    if not samples.size:
        return pool
    mean, spread = measure_spread(pool, samples)
    gap = (pool.scaling or Scaling()).gap
    return replace(pool, scaling=Scaling(shift=mean, factor=1.0 / np.where(spread > 0.0, spread, 1.0), gap=gap))


def measure_spread(pool: Pool, samples: Counts) -> tuple[Vector, Vector]:
    """Return mean and standard deviation of the raw features of some samples, at least one; of images by channel.

    Gaps count as what they become. Samples are read piece by piece, so maps stay on disk.
    """
    axes = (0, 1, 2) if pool.is_image else (0,)
    size = max(1, _CHUNK // int(np.prod(pool.shape)))
    parts = [samples[start : start + size] for start in range(0, samples.size, size)]
    # Measured from the first sample, so that what is constant has a spread of exactly 0.
    first = _raw(pool, samples[:1])[0]
    pivot = np.asarray(first[0, 0] if pool.is_image else first, dtype=np.float64)
    n_values = samples.size * (pool.shape[0] * pool.shape[1] if pool.is_image else 1)

    def mean(center: Vector, power: int) -> Vector:
        sums = [((_raw(pool, part).astype(np.float64) - center) ** power).sum(axis=axes) for part in parts]
        return np.asarray(np.sum(sums, axis=0) / n_values)

    center = np.asarray(pivot + mean(pivot, 1))
    return center, np.sqrt(mean(center, 2))


def _raw(pool: Pool, samples: Counts) -> Array:
    """Return the raw features of some samples, without gaps."""
    gap, raw = (pool.scaling or Scaling()).gap, pool.x[samples]
    return raw if gap is None else np.where(np.isnan(raw), gap, raw)


def scale_note(pool: Pool, samples: Counts) -> str | None:
    """Return what to tell a user whose features lie on scales that models do not learn from; None if all is well.

    Only vectors of raw numbers are looked at: bytes and images have a scale of their own. Of more than 10,000 samples
    as many are taken.

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
    mean, spread = measure_spread(pool, rows)
    # Words and flags are mostly 0: that some are rarer than others is no matter of scale.
    at = np.flatnonzero((np.count_nonzero(_raw(pool, rows), axis=0) * 2 > rows.size) & (spread > 0.0))
    if not at.size:
        return None
    distances, spreads = np.abs(mean[at]), spread[at]
    is_large = (distances + spreads > LARGE).any() or (distances > LARGE * spreads).any()
    if not (is_large or spreads.max() > UNEQUAL * spreads.min()):
        return None
    first, last = int(at[np.argmax(distances + spreads)]), int(at[np.argmin(spreads)])
    words = f"feature {first + 1} of {pool.shape[0]} lies around {mean[first]:.3g} with a spread of {spread[first]:.3g}"
    if last != first:
        words += f", feature {last + 1} around {mean[last]:.3g} with {spread[last]:.3g}"
    return f"features differ in scale: {words}; models learn little from such numbers, set trace.standardize = true"
