"""Looks: how the same samples appear at another place, in other light, through another lens or sensor."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Features
from fielding.errors import InputError, OptionError, echo
from fielding.traces.pool import Pool, Scaling

Pairs: TypeAlias = npt.NDArray[np.int64]  # which features turn together, shape (n_layers, 2, n_pairs)
MOST_ROWS = 2000  # samples of a pool from which the center and spread of its features are taken
N_LAYERS = 3
LARGEST_ANGLE = np.pi / 2
LARGEST_SHIFT = 0.5
_CHUNK = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """Turns images by multiples of 90 degrees, counterclockwise.

    An odd number of ``quarter_turns`` needs square images, since a look keeps the shape.

    Examples
    --------
    >>> Rotation(quarter_turns=1).apply(np.array([[[1, 2], [3, 4]]], dtype=np.float32)).tolist()
    [[[2.0, 4.0], [1.0, 3.0]]]
    """

    quarter_turns: int

    def apply(self, x: Features) -> Features:
        """Return the turned images, shape ``(n_samples, height, width[, channels])``."""
        check_turns(x.shape[1:], self.quarter_turns)
        return np.rot90(x, k=self.quarter_turns, axes=(1, 2)).copy()


def check_turns(shape: tuple[int, ...], quarter_turns: int) -> None:
    """Raise unless samples of this shape are images that can be turned so often."""
    check_images(shape)
    if quarter_turns % 2 and shape[0] != shape[1]:
        raise InputError(
            f"images of {shape[0]} x {shape[1]} pixels cannot be turned by 90 degrees; crop them to squares, "
            "or choose a scenario or look without rotation"
        )


def check_images(shape: tuple[int, ...]) -> None:
    """Raise unless samples of this shape are images."""
    if len(shape) not in (2, 3):
        raise InputError(f"a sample has shape {shape}; this look needs images (height, width[, channels])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Brightness:
    """Makes images lighter or darker, and cuts off what leaves the range of the pixels.

    ``amount`` is added to every pixel, as a share of the range: from -1 (all black) to 1 (all white). ``low``,
    ``high``: the darkest and the lightest value; see :func:`feature_range` for pixels that do not run from 0 to 1.

    Examples
    --------
    >>> Brightness(amount=0.25).apply(np.array([[[0.0, 0.5], [0.75, 1.0]]], dtype=np.float32)).tolist()
    [[[0.25, 0.75], [1.0, 1.0]]]
    """

    amount: float
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not -1.0 <= self.amount <= 1.0:
            raise OptionError(f"amount is {echo(self.amount)}; give a number from -1 to 1")
        if not self.low <= self.high:
            raise OptionError(f"low is {echo(self.low)} and high {echo(self.high)}; low must not be above high")

    def apply(self, x: Features) -> Features:
        """Return the lighter or darker images."""
        step = np.float32(self.amount * (self.high - self.low))
        return np.asarray(np.clip(x + step, np.float32(self.low), np.float32(self.high)))


def feature_range(pool: Pool) -> tuple[float, float]:
    """Return the lowest and highest scaled feature: for bytes those that could be, else those that are."""
    scaling = pool.scaling or Scaling()
    if pool.x.dtype == np.uint8:
        ends = [np.zeros(pool.shape), np.full(pool.shape, 255.0)]
    else:
        rows = max(1, _CHUNK // int(np.prod(pool.shape)))
        parts = [pool.x[start : start + rows] for start in range(0, len(pool), rows)]
        ends = [
            np.fmin.reduce([np.fmin.reduce(part, axis=0) for part in parts], axis=0),  # gaps lie between
            np.fmax.reduce([np.fmax.reduce(part, axis=0) for part in parts], axis=0),
        ]
    scaled = [(end.astype(np.float64) - scaling.shift) * scaling.factor for end in ends]
    return float(np.min(scaled)), float(np.max(scaled))


@dataclass(frozen=True, slots=True, kw_only=True)
class Blur:
    """Blurs images with a Gaussian, one axis after the other; what lies beyond an edge is its mirror image.

    ``sigma``: standard deviation in pixels, cut off at three of them; 0 leaves images as they are.

    Examples
    --------
    >>> spot = np.array([[[0, 0, 1, 0, 0]]], dtype=np.float32)
    >>> Blur(sigma=0.5).apply(spot).astype(np.float64).round(2).tolist()
    [[[0.0, 0.11, 0.79, 0.11, 0.0]]]
    """

    sigma: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.sigma < np.inf:
            raise OptionError(f"sigma is {echo(self.sigma)}; give a number of pixels, not negative")

    def apply(self, x: Features) -> Features:
        """Return the blurred images, shape ``(n_samples, height, width[, channels])``."""
        check_images(x.shape[1:])
        radius = int(3.0 * self.sigma + 0.5)
        if radius == 0:
            return x.copy()
        weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / self.sigma) ** 2)
        weights = (weights / weights.sum()).astype(np.float32)
        return _smooth(_smooth(x, weights, axis=1), weights, axis=2)


def _smooth(x: Features, weights: Features, *, axis: int) -> Features:
    """Return the weighted sums of each pixel and its neighbors along one axis."""
    radius, size = weights.size // 2, x.shape[axis]
    margins = [(0, 0)] * x.ndim
    margins[axis] = (radius, radius)
    padded = np.moveaxis(np.pad(x, margins, mode="symmetric"), axis, 0)
    # One shift at a time: a matrix product would need the edges written into it.
    sums = np.zeros_like(np.moveaxis(x, axis, 0))
    for shift, weight in enumerate(weights):
        sums += weight * padded[shift : shift + size]
    return np.ascontiguousarray(np.moveaxis(sums, 0, axis))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Affine:
    """Turns vectors about their center in feature space and shifts them: another sensor, or one worn otherwise.

    Features are measured in their own spreads, so that none drowns the others; those without spread stay as they are.
    The turn is a product of rotations of random pairs of features, so it is orthonormal, and cheap for any length.

    Mean ``center`` and standard deviation ``spread`` are per feature. ``pairs``, shape ``(n_layers, 2, n_pairs)``, turn
    together by ``angles`` in radians; ``shift`` is added afterwards, in spreads.
    """

    center: Features
    spread: Features
    pairs: Pairs
    angles: Features
    shift: Features

    def apply(self, x: Features) -> Features:
        """Return the changed vectors, shape ``(n_samples, n_features)``."""
        if x.shape[1:] != self.center.shape:
            raise InputError(f"samples have shape {x.shape[1:]}; this look was made for {self.center.shape}")
        safe = np.where(self.spread > 0.0, self.spread, np.float32(1.0))
        before = (x - self.center) / safe
        after = before.copy()
        for (left, right), angles in zip(self.pairs, self.angles, strict=True):
            one, other = after[:, left], after[:, right]
            after[:, left] = np.cos(angles) * one - np.sin(angles) * other
            after[:, right] = np.sin(angles) * one + np.cos(angles) * other
        # The difference is added, so that angles and shifts of 0 leave every bit as it was.
        return np.asarray(x + self.spread * (after - before + self.shift), dtype=np.float32)


def affine_look(pool: Pool, *, intensity: float, rng: np.random.Generator) -> Affine:
    """Return a random affine look for the vectors of a pool.

    ``intensity`` from 0 (not at all) to 1: pairs of features turn by up to 90 degrees either way, three times, and
    every feature shifts by half a spread (standard deviation of the shifts).
    """
    if pool.is_image:
        raise InputError(f"a sample has shape {pool.shape}; the affine look needs vectors, give images another one")
    rows = np.unique(np.linspace(0, len(pool) - 1, min(len(pool), MOST_ROWS)).astype(np.int64))
    x = pool.features(rows).astype(np.float64)
    n_features = x.shape[1]
    half = n_features // 2
    orders = [rng.permutation(n_features)[: 2 * half].reshape(2, half) for _ in range(N_LAYERS)]
    angles = rng.uniform(-LARGEST_ANGLE, LARGEST_ANGLE, (N_LAYERS, half))
    return Affine(
        center=x.mean(axis=0).astype(np.float32),
        spread=x.std(axis=0).astype(np.float32),
        pairs=np.array(orders, dtype=np.int64),
        angles=(intensity * angles).astype(np.float32),
        shift=np.asarray(intensity * LARGEST_SHIFT * rng.standard_normal(n_features), dtype=np.float32),
    )
