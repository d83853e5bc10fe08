"""Gaussian noise: on whole numbers drawn exactly from random bits, with what sums with it tell in all; and on others.

The way of drawing is that of Canonne, Kamath and Steinke (2020, algorithm 3): a two-sided geometric number is kept
with the probability that makes it Gaussian. A release whose whole numbers one client changes by ``d`` in L2 tells
``rho = d**2 / (2 sigma**2)`` in the measure of concentrated privacy, whatever it depends on that was released before,
and releases add up (their theorems 4 and 14; Bun and Steinke 2016).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import exp, log, log1p, sqrt

import numpy as np

from fielding._typing import Counts, Vector
from fielding.client.privacy.geometric import RandomWords, TwoSidedGeometric, decay
from fielding.errors import OptionError, echo

MOST_SIGMA = 2**25
"""Largest standard deviation: twice its square, of which chances are parts, then fits the words of a draw."""
FINEST_RHO = Fraction(1, 2**40)  # budgets are cut down to multiples of this


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian:
    """Noise k on a whole number with probability proportional to ``exp(-k**2 / (2 sigma**2))``, sigma a whole number.

    Examples
    --------
    >>> from fielding.client.privacy.geometric import repeatable_words
    >>> noise = DiscreteGaussian(sigma=10).draw(1000, repeatable_words(np.random.default_rng(1)))
    >>> round(float(noise.std()))
    10
    """

    sigma: int

    def __post_init__(self) -> None:
        if not isinstance(self.sigma, int) or not 1 <= self.sigma <= MOST_SIGMA:
            raise OptionError(f"sigma of the noise is {echo(self.sigma)}; give a whole number from 1 to {MOST_SIGMA}")

    @property
    def variance(self) -> float:
        """Mean squared noise, at most."""
        return float(self.sigma**2)

    def probability(self, noise: int) -> float:
        """Return the probability of a value of the noise."""
        sizes = np.arange(1, 40 * self.sigma + 40, dtype=np.float64)
        whole = 1.0 + 2.0 * float(np.exp(-(sizes**2) / (2.0 * self.sigma**2)).sum())
        return exp(-(noise**2) / (2.0 * self.sigma**2)) / whole

    def draw(self, n_numbers: int, words: RandomWords) -> Counts:
        """Return independent noise, shape ``(n_numbers,)``."""
        proposal, whole = TwoSidedGeometric(scale=Fraction(self.sigma)), 2 * self.sigma**2
        drawn, left = np.zeros(n_numbers, dtype=np.int64), np.arange(n_numbers)
        while left.size:
            tried = proposal.draw(left.size, words)
            # Kept with probability exp(-(|k| - sigma)**2 / (2 sigma**2)): a geometric number is then Gaussian.
            square = (np.minimum(np.abs(tried), 64 * self.sigma) - self.sigma).astype(np.int64) ** 2
            n_whole, rest = square // whole, (square % whole).astype(np.uint64)
            kept = np.flatnonzero(decay(rest, whole, words))
            while (more := n_whole[kept] > 0).any():
                lives = decay(np.full(int(more.sum()), whole, dtype=np.uint64), whole, words)
                n_whole[kept[more]] -= 1
                kept = np.sort(np.concatenate([kept[~more], kept[more][lives]]))
            drawn[left[kept]] = tried[kept]
            left = np.setdiff1d(left, left[kept], assume_unique=True)
        return drawn


def draw_normals(n_numbers: int, words: RandomWords) -> Vector:
    """Return independent standard normal numbers, shape ``(n_numbers,)``, for what is no count.

    They are drawn in double precision, whose last digits could tell something in theory (Mironov, 2012); what carries
    them is rounded to single precision before it is sent.

    Examples
    --------
    >>> draw_normals(2, lambda n: np.full(n, 2**63, dtype=np.uint64)).round(6).tolist()
    [0.0, 0.0]
    """
    from scipy.special import ndtri  # most devices need none of it

    uniform = ((words(n_numbers) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return np.asarray(ndtri(uniform))


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Return the epsilon that holds with probability ``1 - delta`` of releases that tell ``rho`` in all.

    The least over the orders of Rényi privacy (Canonne, Kamath and Steinke 2020, proposition 12).

    Examples
    --------
    >>> round(epsilon_of_rho(0.5, 1e-5), 4)  # one release with a sigma of 1
    4.7284
    """
    if rho <= 0.0:
        return 0.0

    def at(order: float) -> float:
        return rho * order + log1p(-1.0 / order) - log(delta * order) / (order - 1.0)

    return max(0.0, at(best_order(rho, delta)))


def best_order(rho: float, delta: float) -> float:
    """Return the order of Rényi privacy that gives the least epsilon: where the slope of the bound is zero."""

    def slope(order: float) -> float:
        return rho + log(delta * order) / (order - 1.0) ** 2

    low, high = 1.0 + 1e-9, 2.0 + sqrt(-log(delta) / rho)
    for _ in range(80):  # as far as numbers go
        middle = (low + high) / 2.0
        low, high = (middle, high) if slope(middle) < 0.0 else (low, middle)
    return high


@lru_cache(maxsize=64)
def rho_of(epsilon: float, delta: float) -> Fraction:
    """Return how much releases may tell in all for an epsilon and a delta, cut down to a fraction that files can hold.

    Examples
    --------
    >>> round(float(rho_of(4.7284, 1e-5)), 3)
    0.5
    """
    low, high = 0, int(max(1.0, epsilon) / FINEST_RHO) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if epsilon_of_rho(float(middle * FINEST_RHO), delta) <= epsilon else (low, middle)
    return low * FINEST_RHO
