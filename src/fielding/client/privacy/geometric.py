"""Two-sided geometric noise on whole numbers, drawn exactly from random bits.

No floating-point number takes part in a draw, so that its last digits cannot tell what the noise was added to (Mironov,
2012). The way of drawing is that of Canonne, Kamath and Steinke (2020, algorithms 1 and 2), for many numbers at once.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import exp
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask
from fielding.errors import OptionError, echo

Words: TypeAlias = npt.NDArray[np.uint64]
RandomWords: TypeAlias = Callable[[int], Words]
"""Returns so many independent words of 64 random bits each: the only source of randomness of the noise."""
MOST_TERM = 2**52
"""Largest numerator and denominator of a scale: products with the few trials of a draw then fit 64 bits."""
_ALL_ONES = np.uint64(2**64 - 1)


def secret_words(n_words: int) -> Words:
    """Return words of the system's cryptographic source: what devices use."""
    return np.frombuffer(secrets.token_bytes(8 * n_words), dtype=np.uint64)


def repeatable_words(rng: np.random.Generator) -> RandomWords:
    """Return a source that gives the same words again for the same generator: for simulations, and no secret."""
    return lambda n_words: np.asarray(rng.bit_generator.random_raw(n_words), dtype=np.uint64).reshape(n_words)


def uniform_below(bounds: Words, words: RandomWords) -> Words:
    """Return a whole number from 0 up to, not including, each of some bounds, all equally likely.

    Examples
    --------
    >>> uniform_below(np.array([1, 10], dtype=np.uint64), lambda n: np.full(n, 123, dtype=np.uint64)).tolist()
    [0, 3]
    """
    drawn, left = np.zeros(bounds.size, dtype=np.uint64), np.arange(bounds.size)
    while left.size:
        word, bound = words(left.size), bounds[left]
        # Words beyond the largest multiple of the bound are drawn again: else small numbers would come more often.
        beyond = (_ALL_ONES % bound + np.uint64(1)) % bound
        fits = word <= _ALL_ONES - beyond
        drawn[left[fits]] = word[fits] % bound[fits]
        left = left[~fits]
    return drawn


def decay(parts: Words, whole: int, words: RandomWords) -> Mask:
    """Return true with probability ``exp(-parts / whole)`` for each of some parts, none above the whole.

    Trials succeed with probability ``parts / (whole * k)``, k = 1, 2, ...; the first to fail is an odd one with the
    probability that is wanted: the series of the exponential function.
    """
    trial, going = np.ones(parts.size, dtype=np.uint64), np.arange(parts.size)
    while going.size:
        going = going[uniform_below(np.uint64(whole) * trial[going], words) < parts[going]]
        trial[going] += np.uint64(1)
    return np.asarray(trial % np.uint64(2) == 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSidedGeometric:
    """Noise k on a whole number with probability proportional to ``exp(-|k| / scale)`` (the discrete Laplace).

    Added to each number of a vector that one sample changes by at most ``scale * epsilon`` in L1, it makes any output
    at most ``exp(epsilon)`` times as likely for one value of the sample as for another.

    Examples
    --------
    >>> noise = TwoSidedGeometric(scale=Fraction(2))
    >>> round(noise.probability(1) / noise.probability(0), 6) == round(exp(-1 / 2), 6)
    True
    >>> noise.draw(3, repeatable_words(np.random.default_rng(1))).shape
    (3,)
    """

    scale: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.scale, Fraction) or not 0 < self.scale.numerator <= MOST_TERM >= self.scale.denominator:
            raise OptionError(
                f"scale of the noise is {echo(self.scale)}; give a fraction above 0 of whole numbers up to {MOST_TERM}"
            )

    @property
    def _ratio(self) -> float:
        """How much less likely each further step is."""
        return exp(-1 / self.scale)

    @property
    def variance(self) -> float:
        """Mean squared noise."""
        return 2.0 * self._ratio / (1.0 - self._ratio) ** 2

    def probability(self, noise: int) -> float:
        """Return the probability of a value of the noise."""
        return (1.0 - self._ratio) / (1.0 + self._ratio) * exp(-abs(noise) / self.scale)

    def draw(self, n_numbers: int, words: RandomWords) -> Counts:
        """Return independent noise, shape ``(n_numbers,)``."""
        whole, step = self.scale.numerator, self.scale.denominator
        drawn, left = np.zeros(n_numbers, dtype=np.int64), np.arange(n_numbers)
        while left.size:
            rest = uniform_below(np.full(left.size, whole, dtype=np.uint64), words)
            kept = decay(rest, whole, words)
            at, rest = left[kept], rest[kept]
            n_whole, going = np.zeros(at.size, dtype=np.uint64), np.arange(at.size)
            while going.size:  # as long as true with probability 1/e
                going = going[decay(np.full(going.size, whole, dtype=np.uint64), whole, words)]
                n_whole[going] += np.uint64(1)
            size = (rest + np.uint64(whole) * n_whole) // np.uint64(step)
            is_negative = uniform_below(np.full(at.size, 2, dtype=np.uint64), words) == 1
            is_fine = ~(is_negative & (size == 0))  # zero has no sign, and would come twice as often
            signed = size.astype(np.int64)
            drawn[at[is_fine]] = np.where(is_negative, -signed, signed)[is_fine]
            left = np.setdiff1d(left, at[is_fine], assume_unique=True)
        return drawn
