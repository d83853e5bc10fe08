"""Pearson's statistic with its exact conditional moments, in closed form.

The table of chi-square is wrong for the sparse counts of a client: with 10 samples over 100 labels most cells are
empty. Given what both samples sum up to, the mean and variance of the statistic are known exactly (Haldane 1940,
Dawson 1954); a gamma distribution with these two moments takes the place of the table.
"""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Vector
from fielding.client.representation.label import shares_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pearson:
    """Pearson's statistic of pairs of samples, shape ``(n_pairs,)``.

    Mean and variance are those over all ways to deal the pooled samples to two groups of these sizes.
    """

    statistic: Vector
    mean: Vector
    variance: Vector


def pearson(first: Counts, second: Counts) -> Pearson:
    """Return the statistic and its moments for pairs of label counts.

    Shapes are ``(n_pairs, n_labels)``; each row has samples, and two paired rows together at least four.

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


def pearson_or_zero(first: Counts, second: Counts) -> Pearson:
    """Return the statistic and its moments for any pairs of label counts, zeros where a pair has too few samples.

    Zeros add nothing, so that the statistics of several independent pairs may be summed, and their moments with them.
    """
    sizes = np.stack([first.sum(axis=1), second.sum(axis=1)])
    usable = np.flatnonzero((sizes.min(axis=0) > 0) & (sizes.sum(axis=0) > 3))
    pair = pearson(first[usable], second[usable])
    statistic, mean, variance = np.zeros((3, first.shape[0]))
    statistic[usable], mean[usable], variance[usable] = pair.statistic, pair.mean, pair.variance
    return Pearson(statistic=statistic, mean=mean, variance=variance)


def gamma_p_values(pair: Pearson) -> Vector:
    """Return how probable so large a statistic is under a gamma distribution with its mean and variance.

    Shape ``(n_pairs,)``; 1 where mean or variance is not positive: nothing can be told there.
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

    Label counts have shape ``(n_pairs, n_labels)``. 1 where nothing can be told: an empty sample, fewer than four
    samples in all, or one label.

    Examples
    --------
    >>> p_values(np.array([[10, 0], [5, 5]]), np.array([[10, 10], [10, 10]])).round(4).tolist()
    [0.0061, 1.0]
    """
    return gamma_p_values(pearson_or_zero(first, second))


def expected_l1(first: Counts, second: Counts) -> Vector:
    """Return the L1 distance of shares that noise alone makes, by the normal approximation; no row is empty.

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
