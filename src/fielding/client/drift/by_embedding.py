"""Drift of what the frozen shared model sees: embeddings of fresh samples against those of the last window."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Features, Matrix, Vector
from fielding.client.drift.batch import Batch, paired
from fielding.client.drift.dealing import Deal, drawn_p_value, matched_p_value
from fielding.client.drift.options import check_whole
from fielding.errors import OptionError, echo
from fielding.rng import stream

TINY = 1e-9
"""Axes along which samples spread by less than this share of the widest spread are noise of arithmetic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ks:
    """Drift is another distribution along one of a few axes: the exact Kolmogorov-Smirnov test, Bonferroni over axes.

    Parameters
    ----------
    axes
        How many, at least 1.
    basis
        ``"pca"``: the principal axes of reference and fresh samples together; those of the reference alone would fit it
        better than the fresh samples, and raise false alarms. ``"seeded"``: random ones, the same for every client.
    limit
        At most so many samples of each, the latest.
    seed
        Of the random axes.
    """

    axes: int = 8
    basis: str = "pca"
    limit: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("axes", self.axes)
        check_whole("limit", self.limit)
        if self.basis not in ("pca", "seeded"):
            raise OptionError(f"basis is {echo(self.basis)}; give 'pca' or 'seeded'")

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return how probable so large a difference along the worst axis is, shape ``(n_clients,)``."""
        answers = np.ones(fresh.sizes.size)
        for client, then, now in paired(reference, fresh):
            pooled, deal = pooled_features(reference.features[then], fresh.features[now], limit=self.limit)
            along = pooled @ self._axes(pooled)
            if along.shape[1]:
                sides = along[~deal.is_fresh], along[deal.is_fresh]
                answers[client] = min(1.0, along.shape[1] * float(ks_p_values(*sides).min()))
        return answers

    def _axes(self, pooled: Matrix) -> Matrix:
        """Return the axes as columns, shape ``(n_features, n_axes)``; none along which nothing spreads."""
        if self.basis == "seeded":
            return stream(self.seed, "ks-axes").standard_normal((self.axes, pooled.shape[1])).T
        spread, axes = np.linalg.svd(pooled - pooled.mean(axis=0), full_matrices=False)[1:]
        return np.asarray(axes[: self.axes][spread[: self.axes] > TINY * (1.0 + np.abs(pooled).max(initial=0.0))].T)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mmd:
    """Drift is a distance between the mean kernels of both samples (maximum mean discrepancy, Gretton et al. 2012).

    A Gaussian kernel whose squared width is the median squared distance of the pooled samples.

    Parameters
    ----------
    deals
        Random ways to deal the pooled samples again that the distance is compared with; 0 compares with a gamma
        distribution of the exact mean and variance over all of them, which is faster and knows p-values below
        ``1 / (deals + 1)``.
    limit
        At most so many samples of each, the latest: work grows with the square.
    seed
        Of the deals.
    """

    deals: int = 0
    limit: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        check_deals(self.deals)
        check_whole("limit", self.limit)

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return how probable so large a distance is, shape ``(n_clients,)``."""
        answers = np.ones(fresh.sizes.size)
        for client, then, now in paired(reference, fresh):
            pooled, deal = pooled_features(reference.features[then], fresh.features[now], limit=self.limit)
            form = centered(_kernel(pooled))
            if form.any():
                answers[client] = form_p_value(form, deal, n_deals=self.deals, seed=self.seed)
        return answers


def check_deals(deals: object) -> None:
    """Raise unless the number of random deals is a whole number, 0 among them."""
    if deals != 0 or isinstance(deals, bool):
        check_whole("deals", deals)


def form_p_value(form: Matrix, deal: Deal, *, n_deals: int, seed: int) -> float:
    """Return the p-value of a quadratic form by random deals, or without any by matched moments."""
    return drawn_p_value(form, deal, n_deals=n_deals, seed=seed) if n_deals else matched_p_value(form, deal)


def pooled_features(reference: Features, fresh: Features, *, limit: int) -> tuple[Matrix, Deal]:
    """Return the latest features of both, reference first, and which of them are fresh; one stratum."""
    sides = reference[-limit:], fresh[-limit:]
    pooled = np.concatenate(sides).astype(np.float64)
    # Seen from one of them, not from their mean, which rounds: equal samples are exact zeros.
    pooled -= pooled[0]
    is_fresh = np.arange(len(pooled)) >= len(sides[0])
    return pooled, Deal(is_fresh=is_fresh, strata=np.zeros(len(pooled), dtype=np.int64))


def centered(kernel: Matrix) -> Matrix:
    """Return the kernel of the samples seen from their mean; rows sum to 0, and equal samples give exact zeros."""
    means = kernel.mean(axis=0)
    seen = kernel - means - means[:, np.newaxis] + means.mean()
    return np.asarray(seen) if np.abs(seen).max() > TINY else np.zeros_like(seen)


def _kernel(samples: Matrix) -> Matrix:
    """Return the Gaussian kernel of all pairs, with the median heuristic."""
    moved = samples - samples.mean(axis=0)
    norms = (moved**2).sum(axis=1)
    squared = np.maximum(norms[:, np.newaxis] + norms - 2.0 * moved @ moved.T, 0.0)
    np.fill_diagonal(squared, 0.0)
    # Of the pairs that differ: with many equal samples the median of all would be 0.
    apart = squared[squared > TINY * squared.max(initial=0.0)]
    return np.asarray(np.exp(-squared / (np.median(apart) if apart.size else 1.0)))


def ks_p_values(first: Matrix, second: Matrix) -> Vector:
    """Return exact two-sided p-values of the Kolmogorov-Smirnov statistic, one per column; ties make them cautious.

    Parameters
    ----------
    first, second
        Shapes ``(n_first, n_axes)`` and ``(n_second, n_axes)``; both have rows.

    Examples
    --------
    >>> ks_p_values(np.array([[1.0], [2.0], [3.0]]), np.array([[4.0], [5.0], [6.0]])).round(3).tolist()
    [0.1]
    """
    n, m = len(first), len(second)
    pooled = np.concatenate([first, second])
    order = np.argsort(pooled, axis=0, kind="stable")
    values = np.take_along_axis(pooled, order, axis=0)
    # Whole numbers: the difference of the two cumulative shares, times n m.
    steps = np.where(order < n, m, -n).cumsum(axis=0)
    is_last = np.concatenate([values[1:] > values[:-1], np.ones((1, values.shape[1]), dtype=np.bool_)])
    return 1.0 - _chance_below(np.abs(np.where(is_last, steps, 0)).max(axis=0), n, m)


def _chance_below(highest: Counts, n: int, m: int) -> Vector:
    """Return the probability that the statistic stays below each of some values, by counting paths.

    Hodges 1958: a path takes n steps of one sample and m of the other in random order, and stays inside a band. Counts
    are kept as shares of all paths to a row, so that nothing overflows.
    """
    columns = np.arange(m + 1) * n
    shares = (columns < highest[:, np.newaxis]).astype(np.float64)
    for row in range(1, n + 1):
        inside = np.abs(row * m - columns) < highest[:, np.newaxis]
        shares = np.where(inside, np.cumsum(np.where(inside, shares, 0.0), axis=1), 0.0) * (row / (row + m))
    return np.asarray(shares[:, -1])
