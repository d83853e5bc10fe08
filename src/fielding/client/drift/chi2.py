"""Drift beyond sampling noise: Pearson's statistic with its exact conditional moments, in closed form.

The table of chi-square is wrong for the sparse counts of a client: with 10 samples over 100 labels most cells are
empty. Given what both samples sum up to, the mean and variance of the statistic are known exactly (Haldane 1940,
Dawson 1954); a gamma distribution with these two moments takes the place of the table.
"""

import math
from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Mask, Vector
from fielding.client.drift.drift_test import Evidence, check_number, check_whole, judged_in_chunks
from fielding.client.representation.label import shares_of
from fielding.distance import TIE


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyChange:
    """Drift is any difference between the shares now and those last reported (the paper's).

    Examples
    --------
    >>> evidence = Evidence(
    ...     reported=np.array([[1, 1], [1, 1]]),
    ...     current=np.array([[2, 2], [2, 1]]),
    ...     fresh=np.array([[1, 1], [1, 0]]),
    ...     age=np.array([1, 1]),
    ...     arrived=np.array([2, 1]),
    ... )
    >>> AnyChange().drifted(evidence).tolist()
    [False, True]
    """

    @property
    def is_timed(self) -> bool:
        """Nothing changes by waiting."""
        return False

    def drifted(self, evidence: Evidence) -> Mask:
        """Return whose shares differ at all."""
        return judged_in_chunks(evidence, shares_differ)


def shares_differ(evidence: Evidence) -> Mask:
    """Return whose shares now are not those last reported."""
    # Equal fractions are equal floats, since division rounds correctly: 1/3 and 2/6 do not differ.
    return np.asarray((shares_of(evidence.current) != shares_of(evidence.reported)).any(axis=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Drift is an L1 distance above a threshold between the shares now and those last reported.

    Parameters
    ----------
    eps
        The threshold, from 0 (nearly any change) to 2 (never); a distance within 1e-9 of it is not above it.

    Examples
    --------
    >>> evidence = Evidence(
    ...     reported=np.array([[5, 5], [5, 5]]),
    ...     current=np.array([[6, 4], [7, 3]]),
    ...     fresh=np.array([[1, 0], [2, 0]]),
    ...     age=np.array([1, 1]),
    ...     arrived=np.array([1, 2]),
    ... )
    >>> Threshold(eps=0.2).drifted(evidence).tolist()
    [False, True]
    """

    eps: float = 0.2

    def __post_init__(self) -> None:
        check_number("eps", self.eps, low=0.0, high=2.0)

    @property
    def is_timed(self) -> bool:
        """Nothing changes by waiting."""
        return False

    def drifted(self, evidence: Evidence) -> Mask:
        """Return whose shares lie further than ``eps`` from the reported ones."""
        return judged_in_chunks(evidence, self._is_far)

    def _is_far(self, evidence: Evidence) -> Mask:
        distances = np.abs(shares_of(evidence.current) - shares_of(evidence.reported)).sum(axis=1)
        return np.asarray(distances > self.eps + TIE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pearson:
    """Pearson's statistic of pairs of samples, and its moments if both came from one source; shapes ``(n_pairs,)``.

    Parameters
    ----------
    statistic
        The sum of squared deviations, each in units of its expectation.
    mean, variance
        Of the statistic over all ways to deal the pooled samples to two groups of these sizes.
    """

    statistic: Vector
    mean: Vector
    variance: Vector


def pearson(first: Counts, second: Counts) -> Pearson:
    """Return the statistic and its moments for pairs of label counts.

    Parameters
    ----------
    first, second
        Shape ``(n_pairs, n_labels)``; each row has samples, and two paired rows together at least four.

    Examples
    --------
    >>> pair = pearson(np.array([[4, 0]]), np.array([[0, 4]]))
    >>> float(pair.statistic[0]), round(float(pair.mean[0]), 3)
    (8.0, 1.143)
    """
    n, m = first.sum(axis=1).astype(np.float64), second.sum(axis=1).astype(np.float64)
    total = n + m
    pooled = first + second
    n_seen = np.count_nonzero(pooled, axis=1).astype(np.float64)
    inverse = np.divide(1.0, pooled, out=np.zeros(pooled.shape), where=pooled > 0)
    ratio = np.sqrt(m / n)[:, np.newaxis]
    deviations = first * ratio - second / ratio
    # Names as in docs/drift-tests.md: v and w of the sizes of the two samples (1) and of the labels (2).
    v1, w1 = (total - 2) / (total - 1), (total * (1 / n + 1 / m) - 4) / (total - 2)
    v2, w2 = (
        (n_seen - 1) * (total - n_seen) / (total - 1),
        (total * inverse.sum(axis=1) - n_seen**2) / (total - 2),
    )
    return Pearson(
        statistic=np.asarray((deviations**2 * inverse).sum(axis=1)),
        mean=total * (n_seen - 1) / (total - 1),
        variance=2 * total / (total - 3) * (v1 - w1) * (v2 - w2) + total**2 / (total - 1) * w1 * w2,
    )


def told_pearson(first: Counts, second: Counts) -> Pearson:
    """Return the statistic and its moments for any pairs of label counts, zeros where nothing can be told.

    Zeros add nothing, so that the statistics of several independent pairs may be summed, and their moments with them.

    Parameters
    ----------
    first, second
        Label counts of the two samples, shape ``(n_pairs, n_labels)``.

    Examples
    --------
    >>> told_pearson(np.array([[4, 0], [0, 0]]), np.array([[0, 4], [0, 4]])).statistic.tolist()
    [8.0, 0.0]
    """
    sizes = np.stack([first.sum(axis=1), second.sum(axis=1)])
    usable = np.flatnonzero((sizes.min(axis=0) > 0) & (sizes.sum(axis=0) > 3))
    pair = pearson(first[usable], second[usable])
    statistic, mean, variance = np.zeros((3, first.shape[0]))
    statistic[usable], mean[usable], variance[usable] = pair.statistic, pair.mean, pair.variance
    return Pearson(statistic=statistic, mean=mean, variance=variance)


def gamma_p_values(pair: Pearson) -> Vector:
    """Return how probable so large a statistic is under a gamma distribution with its mean and variance.

    Returns
    -------
    Shape ``(n_pairs,)``; 1 where mean or variance is not positive: nothing can be told there.

    Examples
    --------
    >>> one = np.ones(1)
    >>> gamma_p_values(Pearson(statistic=2 * one, mean=one, variance=one)).round(4).tolist()
    [0.1353]
    """
    answers = np.ones(pair.statistic.shape)
    regular = (pair.mean > 0) & (pair.variance > 0)
    if not regular.any():
        return answers
    # Here and not above: scipy costs more than all of Fielding to import.
    from scipy.special import gammaincc

    mean, variance = pair.mean[regular], pair.variance[regular]
    answers[regular] = gammaincc(mean**2 / variance, pair.statistic[regular] / (variance / mean))
    return answers


def p_values(first: Counts, second: Counts) -> Vector:
    """Return how probable so large a difference is if both samples came from one source.

    Parameters
    ----------
    first, second
        Label counts of the two samples, shape ``(n_pairs, n_labels)``.

    Returns
    -------
    Shape ``(n_pairs,)``; 1 where nothing can be told: an empty sample, fewer than four samples in all, or one label.

    Examples
    --------
    >>> p_values(np.array([[10, 0], [5, 5]]), np.array([[10, 10], [10, 10]])).round(4).tolist()
    [0.0061, 1.0]
    """
    return gamma_p_values(told_pearson(first, second))


def expected_l1(first: Counts, second: Counts) -> Vector:
    """Return the L1 distance of shares that sampling noise alone makes, by the normal approximation.

    Parameters
    ----------
    first, second
        Label counts of the two samples, shape ``(n_pairs, n_labels)``; no row is empty.

    Examples
    --------
    >>> expected_l1(np.array([[10, 10]]), np.array([[10, 10]])).round(3).tolist()
    [0.252]
    """
    pooled = shares_of(first + second)
    per_sample = 1.0 / first.sum(axis=1) + 1.0 / second.sum(axis=1)
    return np.asarray(np.sqrt(2.0 / np.pi * per_sample) * np.sqrt(pooled * (1.0 - pooled)).sum(axis=1))


def excess_l1(first: Counts, second: Counts) -> Vector:
    """Return by how much the shares lie further apart than noise explains, not below 0; no row is empty."""
    distances = np.abs(shares_of(first) - shares_of(second)).sum(axis=1)
    return np.asarray(np.maximum(0.0, distances - expected_l1(first, second)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chi2:
    """Drift is a difference that sampling noise does not explain, between what is new and the last report.

    What arrived since the last report is held against the histogram of that report, once per arrival. Both
    must speak: the test (``p < alpha``) and the size of the effect (distance beyond noise ``>= delta_min``).

    Parameters
    ----------
    alpha
        Share of tests that fire without drift, 0 (none ever) to 1.
    delta_min
        Smallest L1 distance beyond noise that is worth a report, 0 to 2.
    min_fresh
        No test before so many samples arrived since the last report, at least 1.
    growth
        Report also, drift or not, once the window holds so many times the samples of the last report and other shares:
        a report of one sample has nothing that a test could hold on to. At least 1; infinity for never.

    Examples
    --------
    >>> evidence = Evidence(
    ...     reported=np.array([[50, 50], [50, 50]]),
    ...     current=np.array([[56, 54], [60, 50]]),
    ...     fresh=np.array([[6, 4], [20, 0]]),
    ...     age=np.array([1, 1]),
    ...     arrived=np.array([10, 20]),
    ... )
    >>> Chi2().drifted(evidence).tolist()
    [False, True]
    """

    alpha: float = 0.001
    delta_min: float = 0.1
    min_fresh: int = 10
    growth: float = 2.0

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, low=0.0, high=1.0)
        check_number("delta_min", self.delta_min, low=0.0, high=2.0)
        check_whole("min_fresh", self.min_fresh)
        check_number("growth", self.growth, low=1.0, high=math.inf)

    @property
    def is_timed(self) -> bool:
        """Without new samples there is no test."""
        return False

    def drifted(self, evidence: Evidence) -> Mask:
        """Return whose new samples differ from the last report by more than noise."""
        return judged_in_chunks(evidence, self._differs_beyond_noise)

    def _differs_beyond_noise(self, evidence: Evidence) -> Mask:
        has_news = evidence.arrived > 0
        tested = np.flatnonzero(has_news & (evidence.fresh.sum(axis=1) >= self.min_fresh))
        fresh, reported = evidence.fresh[tested], evidence.reported[tested]
        drifted = has_news & (evidence.current.sum(axis=1) >= self.growth * evidence.reported.sum(axis=1))
        grown = np.flatnonzero(drifted)
        drifted[grown] = shares_differ(evidence.rows(grown))
        large = excess_l1(fresh, reported) >= self.delta_min
        drifted[tested[large]] |= p_values(fresh[large], reported[large]) < self.alpha
        return np.asarray(drifted)
