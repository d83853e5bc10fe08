"""How surprising a quadratic form of "who is fresh" is over all ways to deal the pooled samples again, within strata.

Two samples of one source could have been dealt the other way round. A form ``z' K z`` of the 0/1 vector of the fresh
samples (between-group sums of squares and kernel distances are such forms) is held against what other deals give: drawn
deals, or a gamma distribution with the exact mean and variance over all deals.
"""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Mask, Matrix, Vector
from fielding.client.drift.chi2 import Pearson, gamma_p_values
from fielding.rng import stream

SLACK = 1e-9
"""A deal that comes this close to the observed one, relative to its size, is as extreme: sums round."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deal:
    """The pooled samples of one client, dealt to a reference and a fresh group.

    Parameters
    ----------
    is_fresh
        Shape ``(n_samples,)``.
    strata
        Samples are dealt again within their stratum only, so that each keeps its numbers of both; a whole number from 0
        on, without gaps, shape ``(n_samples,)``.
    """

    is_fresh: Mask
    strata: Counts

    @property
    def totals(self) -> Vector:
        """Samples of each stratum, shape ``(n_strata,)``."""
        return np.bincount(self.strata).astype(np.float64)

    @property
    def n_fresh(self) -> Vector:
        """Fresh samples of each stratum, shape ``(n_strata,)``."""
        return np.bincount(self.strata, weights=self.is_fresh).astype(np.float64)


def other_deals(deal: Deal, n_deals: int, *, seed: int) -> Matrix:
    """Return random deals as zeros and ones, shape ``(n_deals, n_samples)``; the same for the same deal and seed.

    Examples
    --------
    >>> deal = Deal(is_fresh=np.array([False, True, True]), strata=np.array([0, 1, 0]))
    >>> other_deals(deal, 5, seed=1)[:, 1].tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    n_samples = deal.strata.size
    # Integers plus fractions sort by stratum, and at random within: one sort deals all strata.
    keys = deal.strata + stream(seed, "drift-deals", n_samples).random((n_deals, n_samples))
    order = np.argsort(keys, axis=1)
    strata = np.sort(deal.strata)
    place = np.arange(n_samples) - np.searchsorted(strata, strata)
    dealt = np.zeros((n_deals, n_samples))
    np.put_along_axis(dealt, order, np.broadcast_to(place < deal.n_fresh[strata], dealt.shape).astype(float), axis=1)
    return dealt


def drawn_p_value(form: Matrix, deal: Deal, *, n_deals: int, seed: int) -> float:
    """Return the share of random deals, the observed one among them, whose form is at least as large.

    Parameters
    ----------
    form
        Symmetric, shape ``(n_samples, n_samples)``.
    """
    observed = float(deal.is_fresh @ form @ deal.is_fresh)
    dealt = other_deals(deal, n_deals, seed=seed)
    others = ((dealt @ form) * dealt).sum(axis=1)
    n_larger = int(np.count_nonzero(others >= observed - SLACK * abs(observed)))
    return (1 + n_larger) / (1 + n_deals)


def matched_p_value(form: Matrix, deal: Deal) -> float:
    """Return the tail of the gamma distribution with the mean and variance of the form over all deals.

    Parameters
    ----------
    form
        Symmetric, shape ``(n_samples, n_samples)``; zero between strata, and rows sum to 0.

    Examples
    --------
    >>> centered = np.eye(6) - 1 / 6
    >>> round(matched_p_value(centered, Deal(is_fresh=np.arange(6) < 3, strata=np.zeros(6, dtype=int))), 3)
    1.0
    """
    mean, variance = moments(form, deal)
    observed = float(deal.is_fresh @ form @ deal.is_fresh)
    if variance <= SLACK * mean**2:  # every deal gives the same
        return 1.0
    pair = Pearson(statistic=np.array([observed]), mean=np.array([mean]), variance=np.array([variance]))
    return float(gamma_p_values(pair)[0])


def moments(form: Matrix, deal: Deal) -> tuple[float, float]:
    """Return mean and variance of the form over all deals; see :func:`matched_p_value` for what it must be like.

    The mean of a product of up to four entries of ``z`` depends on how many of them differ; docs/drift-tests.md has the
    sums. For a form that counts labels these are the moments of Pearson's statistic.
    """
    n_strata = deal.totals.size
    diagonal = np.diagonal(form)
    trace = np.bincount(deal.strata, weights=diagonal, minlength=n_strata)
    quads = np.bincount(deal.strata, weights=diagonal**2, minlength=n_strata)
    squares = np.bincount(deal.strata, weights=(form**2).sum(axis=1), minlength=n_strata)
    one, two, three, four = _chances(deal.n_fresh, deal.totals)
    mean = trace * (one - two)
    second = (
        one * quads
        + two * (trace**2 + 2 * squares - 7 * quads)
        + three * (-2 * trace**2 + 12 * quads - 4 * squares)
        + four * (trace**2 - 6 * quads + 2 * squares)
    )
    return float(mean.sum()), float(np.maximum(second - mean**2, 0.0).sum())


def _chances(n_fresh: Vector, totals: Vector) -> list[Vector]:
    """Return the probability that one, two, three, four given samples of a stratum are all fresh."""
    chances = [np.ones(totals.shape)]
    for taken in range(4):
        share = np.divide(n_fresh - taken, totals - taken, out=np.zeros(totals.shape), where=totals > taken)
        chances.append(chances[-1] * np.maximum(share, 0.0))
    return chances[1:]
