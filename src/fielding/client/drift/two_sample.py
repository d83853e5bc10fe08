"""Drift of what the frozen shared model sees: embeddings of fresh samples against those of the last window."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fielding._typing import Counts, Features, Mask, Matrix, Vector
from fielding.client.drift.drift_test import Batch, pair_clients
from fielding.client.drift.pearson import Pearson, gamma_p_values
from fielding.config.options import check_whole
from fielding.errors import OptionError, echo
from fielding.rng import stream

SLACK = 1e-9  # a deal that comes this close to the observed one, relative to its size, is as extreme: sums round
TINY = 1e-9  # axes along which samples spread by less than this share of the widest spread are noise of arithmetic


# ---- permutation tests of a quadratic form -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deal:
    """The pooled samples of one client, dealt to a reference and a fresh group.

    Samples are dealt again within their stratum only, so that each keeps its numbers of both. ``strata``: whole numbers
    from 0 on, without gaps, shape ``(n_samples,)``.
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
    """Return random deals as zeros and ones, shape ``(n_deals, n_samples)``; the same for the same deal and seed."""
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

    The form is symmetric, shape ``(n_samples, n_samples)``.
    """
    observed = float(deal.is_fresh @ form @ deal.is_fresh)
    dealt = other_deals(deal, n_deals, seed=seed)
    others = ((dealt @ form) * dealt).sum(axis=1)
    n_larger = int(np.count_nonzero(others >= observed - SLACK * abs(observed)))
    return (1 + n_larger) / (1 + n_deals)


def matched_p_value(form: Matrix, deal: Deal) -> float:
    """Return the tail of the gamma distribution with the mean and variance of the form over all deals.

    The form is symmetric, shape ``(n_samples, n_samples)``, zero between strata, and its rows sum to 0.
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
    # The probability that one, two, three, four given samples of a stratum are all fresh.
    chances = [np.ones(n_strata)]
    for taken in range(4):
        left = deal.totals - taken
        share = np.divide(deal.n_fresh - taken, left, out=np.zeros(n_strata), where=left > 0)
        chances.append(chances[-1] * np.maximum(share, 0.0))
    _, one, two, three, four = chances
    mean = trace * (one - two)
    second = (
        one * quads
        + two * (trace**2 + 2 * squares - 7 * quads)
        + three * (-2 * trace**2 + 12 * quads - 4 * squares)
        + four * (trace**2 - 6 * quads + 2 * squares)
    )
    return float(mean.sum()), float(np.maximum(second - mean**2, 0.0).sum())


def _form_p_value(form: Matrix, deal: Deal, *, n_deals: int, seed: int) -> float:
    """Return the p-value of a quadratic form by random deals, or without any by matched moments."""
    return drawn_p_value(form, deal, n_deals=n_deals, seed=seed) if n_deals else matched_p_value(form, deal)


def _check_deals(deals: object) -> None:
    """Raise unless the number of random deals is a whole number, 0 among them."""
    if deals != 0 or isinstance(deals, bool):
        check_whole("deals", deals)


# ---- the tests ---------------------------------------------------------------------------------------------------


def _pool_features(reference: Features, fresh: Features, *, limit: int) -> tuple[Matrix, Deal]:
    """Return the latest features of both, reference first, and which of them are fresh; one stratum."""
    sides = reference[-limit:], fresh[-limit:]
    pooled = np.concatenate(sides).astype(np.float64)
    # Seen from one of them, not from their mean, which rounds: equal samples are exact zeros.
    pooled -= pooled[0]
    is_fresh = np.arange(len(pooled)) >= len(sides[0])
    return pooled, Deal(is_fresh=is_fresh, strata=np.zeros(len(pooled), dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ks:
    """Drift is another distribution along one of a few axes: the exact Kolmogorov-Smirnov test, Bonferroni over axes.

    Parameters
    ----------
    basis
        ``"pca"``: the principal axes of reference and fresh samples together; those of the reference alone would fit it
        better than the fresh samples, and raise false alarms. ``"seeded"``: random ones, the same for every client.
    limit
        At most so many samples of each, the latest.
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
        for client, then, now in pair_clients(reference, fresh):
            pooled, deal = _pool_features(reference.features[then], fresh.features[now], limit=self.limit)
            if self.basis == "seeded":
                axes = stream(self.seed, "ks-axes").standard_normal((self.axes, pooled.shape[1])).T
            else:  # none along which nothing spreads
                spread, found = np.linalg.svd(pooled - pooled.mean(axis=0), full_matrices=False)[1:]
                least = TINY * (1.0 + np.abs(pooled).max(initial=0.0))
                axes = np.asarray(found[: self.axes][spread[: self.axes] > least].T)
            along = pooled @ axes
            if along.shape[1]:
                sides = along[~deal.is_fresh], along[deal.is_fresh]
                answers[client] = min(1.0, along.shape[1] * float(ks_p_values(*sides).min()))
        return answers


def ks_p_values(first: Matrix, second: Matrix) -> Vector:
    """Return exact two-sided p-values of the Kolmogorov-Smirnov statistic, one per column; ties make them cautious."""
    n, m = len(first), len(second)
    pooled = np.concatenate([first, second])
    order = np.argsort(pooled, axis=0, kind="stable")
    values = np.take_along_axis(pooled, order, axis=0)
    # Whole numbers: the difference of the two cumulative shares, times n m.
    steps = np.where(order < n, m, -n).cumsum(axis=0)
    is_last = np.concatenate([values[1:] > values[:-1], np.ones((1, values.shape[1]), dtype=np.bool_)])
    highest = np.abs(np.where(is_last, steps, 0)).max(axis=0)
    # Hodges 1958: a path takes n steps of one sample and m of the other in random order; count those that stay inside a
    # band, as shares of all paths to a row, so that nothing overflows.
    columns = np.arange(m + 1) * n
    shares = (columns < highest[:, np.newaxis]).astype(np.float64)
    for row in range(1, n + 1):
        inside = np.abs(row * m - columns) < highest[:, np.newaxis]
        shares = np.where(inside, np.cumsum(np.where(inside, shares, 0.0), axis=1), 0.0) * (row / (row + m))
    return np.asarray(1.0 - shares[:, -1])


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
    """

    deals: int = 0
    limit: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        _check_deals(self.deals)
        check_whole("limit", self.limit)

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return how probable so large a distance is, shape ``(n_clients,)``."""
        answers = np.ones(fresh.sizes.size)
        for client, then, now in pair_clients(reference, fresh):
            pooled, deal = _pool_features(reference.features[then], fresh.features[now], limit=self.limit)
            # The Gaussian kernel of all pairs, with the median heuristic.
            moved = pooled - pooled.mean(axis=0)
            norms = (moved**2).sum(axis=1)
            squared = np.maximum(norms[:, np.newaxis] + norms - 2.0 * moved @ moved.T, 0.0)
            np.fill_diagonal(squared, 0.0)
            # Of the pairs that differ: with many equal samples the median of all would be 0.
            apart = squared[squared > TINY * squared.max(initial=0.0)]
            kernel = np.exp(-squared / (np.median(apart) if apart.size else 1.0))
            # Seen from the mean of the samples: rows sum to 0, and equal samples give zeros.
            means = kernel.mean(axis=0)
            form = np.asarray(kernel - means - means[:, np.newaxis] + means.mean())
            if np.abs(form).max() > TINY:
                answers[client] = _form_p_value(form, deal, n_deals=self.deals, seed=self.seed)
        return answers


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassShift:
    """Drift is a shift of mean features within classes: of looks or meanings, exactly blind to the label mix.

    The squared shift of each class mean, in units of the spread within classes and weighted by the samples behind it,
    is summed over features and classes. Without drift the fresh and reference samples *of a label* could have been
    dealt the other way round, however the label mix moved: that is what the sum is compared with.

    Parameters
    ----------
    within
        ``"label"``: of a true label: sees looks and meanings. ``"predicted"``: of what the shared model takes samples
        for: needs no labels, sees looks, and is blind to meanings, since inputs that are only called otherwise stay
        where they are. :func:`~fielding.client.drift.sample_tests.kinds_of` tells the two apart by it.
    deals, limit, seed
        As in :class:`~fielding.client.drift.two_sample.Mmd`.
    """

    within: Literal["label", "predicted"] = "label"
    deals: int = 0
    limit: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        if self.within not in ("label", "predicted"):
            raise OptionError(f"within is {echo(self.within)}; give 'label' or 'predicted'")
        _check_deals(self.deals)
        check_whole("limit", self.limit)

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return how probable so large shifts are, shape ``(n_clients,)``; classes that one side lacks are left out."""
        answers = np.ones(fresh.sizes.size)
        for client, then, now in pair_clients(reference, fresh):
            latest = [
                (batch, slice(max(which.start, which.stop - self.limit), which.stop))
                for batch, which in ((reference, then), (fresh, now))
            ]
            before, after = (
                (batch.labels if self.within == "label" else batch.predicted)[which] for batch, which in latest
            )
            classes = np.concatenate([before, after])
            common = np.isin(classes, np.intersect1d(before, after)) & (classes >= 0)
            if np.count_nonzero(common) < 3:
                continue
            is_fresh = np.arange(classes.size) >= before.size
            deal = Deal(is_fresh=is_fresh[common], strata=np.unique(classes[common], return_inverse=True)[1])
            features = np.concatenate([batch.features[which] for batch, which in latest])
            form = _class_shift_form(features[common].astype(np.float64), deal)
            if form.any():
                answers[client] = _form_p_value(form, deal, n_deals=self.deals, seed=self.seed)
        return answers


def _class_shift_form(features: Matrix, deal: Deal) -> Matrix:
    """Return the matrix K for which ``z' K z`` is the sum of squared shifts, ``z`` being 1 for fresh samples."""
    totals, n_fresh = deal.totals, deal.n_fresh
    means = np.zeros((totals.size, features.shape[1]))
    np.add.at(means, deal.strata, features)
    inner = features - (means / totals[:, np.newaxis])[deal.strata]
    spread = np.sqrt((inner**2).mean(axis=0))
    moves = spread > TINY * (1.0 + np.abs(features).max(axis=0, initial=0.0))
    scaled = inner[:, moves] / spread[moves]
    # From the pooled mean of a class the fresh and reference sums are opposite: one of them tells the shift.
    weight = totals / np.maximum(n_fresh * (totals - n_fresh), 1.0)
    return np.where(deal.strata[:, np.newaxis] == deal.strata, scaled @ scaled.T, 0.0) * weight[deal.strata]
