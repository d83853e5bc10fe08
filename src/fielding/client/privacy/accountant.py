"""What Gaussian noise tells in all: the accountant of steps on samples that are drawn by chance.

Every step draws each sample with probability q and adds noise of sigma times the largest length that one sample adds.
Renyi differential privacy of order a of a step is ``log E[((1 - q) + q exp((2 z - 1) / (2 sigma^2)))^a] / (a - 1)``,
z normal with deviation sigma (Mironov, Talwar and Zhang, 2019); of several steps it is the sum. Neighbours: a sample,
or a blank in its place, which adds nothing.
"""

from functools import cache
from math import exp, expm1, inf, log, log1p, sqrt

import numpy as np

from fielding._typing import Vector
from fielding.errors import OptionError, echo

ORDERS: tuple[float, ...] = (*(1 + one / 10 for one in range(1, 100)), *range(11, 64), 128, 256, 512, 1024)
"""Orders that are tried; each gives a bound that holds, and the least one counts."""
_REACH = 14.0  # standard deviations beyond which the normal density adds nothing
_HIGHEST = 64
_FINEST = 24  # points of the sum that stands for the integral, per standard deviation
MOST_NOISE = 1e4


@cache
def _divergence(rate: float, noise: float, order: float) -> float:
    """Return the Renyi divergence of an order of one step."""
    if rate == 1.0:
        return order / (2.0 * noise**2)
    if order > _HIGHEST and noise < 1.0:  # never the least, and long sums
        return inf
    # The integrand is analytic and dies off at both ends: plain sums are exact to the last digits.
    step = min(noise, noise**2) / _FINEST
    z = np.arange(-_REACH * noise, order + _REACH * noise, step)
    mixed = np.logaddexp(log1p(-rate), log(rate) + (2.0 * z - 1.0) / (2.0 * noise**2))
    logs = order * mixed - z**2 / (2.0 * noise**2)
    top = float(logs.max())
    moment = top + log(float(np.exp(logs - top).sum()) * step / (noise * sqrt(2.0 * np.pi)))
    return max(0.0, moment / (order - 1.0))


def divergences(rate: float, noise: float, n_steps: int = 1) -> Vector:
    """Return the Renyi divergences of some steps, one per order."""
    return np.array([n_steps * _divergence(rate, noise, order) for order in ORDERS])


def epsilon_of_divergences(divergence: Vector, delta: float) -> float:
    """Return the epsilon that divergences of all orders amount to at a delta (Canonne, Kamath and Steinke, 2020).

    Examples
    --------
    >>> round(epsilon_of_divergences(divergences(1.0, 4.0), 1e-5), 3)
    1.013
    """
    least = inf
    for order, found in zip(ORDERS, divergence.tolist(), strict=True):
        if delta**2 + expm1(-found) > 0.0:  # so little that delta alone allows for it
            return 0.0
        least = min(least, found + log1p(-1.0 / order) - log(delta * order) / (order - 1.0))
    return max(0.0, least)


@cache
def noise_for(epsilon: float, delta: float, *, rate: float, n_steps: int) -> float:
    """Return the least noise multiplier, to a thousandth, with which some steps tell at most epsilon at a delta.

    Examples
    --------
    >>> noise = noise_for(2.0, 1e-5, rate=0.1, n_steps=100)
    >>> more, less = (epsilon_of_divergences(divergences(0.1, one, 100), 1e-5) for one in (noise, noise - 0.002))
    >>> more <= 2.0 < less
    True
    """
    if not 0.0 < delta < 1.0:
        raise OptionError(f"delta is {echo(delta)}; give a number between 0 and 1")
    low, high = 0.25, 0.5
    while epsilon_of_divergences(divergences(rate, high, n_steps), delta) > epsilon:
        low, high = high, 2.0 * high
        if high > MOST_NOISE:
            raise OptionError(f"no noise makes {n_steps} steps tell so little as epsilon {epsilon:g}; give more")
    while high - low > 0.0005:
        middle = (low + high) / 2.0
        is_enough = epsilon_of_divergences(divergences(rate, middle, n_steps), delta) <= epsilon
        low, high = (low, middle) if is_enough else (middle, high)
    return float(np.ceil(high * 1000.0) / 1000.0)


def delta_of_gaussian(epsilon: float, noise: float) -> float:
    """Return the delta of one Gaussian release at an epsilon, exactly (Balle and Wang, 2018)."""
    from scipy.special import ndtr

    half, step = 1.0 / (2.0 * noise), epsilon * noise
    return float(ndtr(half - step) - exp(epsilon) * ndtr(-half - step))
