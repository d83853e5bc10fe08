"""How far centers move though nothing changed: the shift that sampling alone explains (QUALITY.md D, server side).

A center is the plain mean of its ``m`` members. Members that reported anew from the same data add fresh noise each;
all others add none. So under the null the shift is close to a normal vector of mean zero, whose covariance is

- histograms: ``v (diag(p) - p p')`` with ``p`` the center and ``v = sum (1/n_before + 1/n_after) / m**2`` over the
  members that reported anew. Members that differ among themselves have less noise than that (a variance of shares is
  concave), so the floor then errs on the high side; windows that overlap have less noise, too.
- vectors, for which no formula knows the noise: ``2 r S / m**2`` for ``r`` members that reported anew, with ``S`` their
  scatter around their own mean (of all members if fewer than two did), as if each had drawn its vector afresh.
  Lasting differences between members are counted as noise, so this floor is on the high side.
- shares to which clients added noise (docs/privacy.md): that of histograms, and ``u`` on every coordinate with
  ``u = s sum (1/n_before**2 + 1/n_after**2) / m**2`` for noise of variance ``s`` on a count; the metric is L2.

Every metric is then L1 of such a vector or, to second order, a quadratic form of it; the floor is the 99 % point of the
gamma distribution with the same mean and variance. Moves are no noise: they are the shift that triggers look for.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Mask, Matrix, Vector
from fielding.coordinator.movement import Movement, Resampled

Z = 2.33  # the normal quantile of the floor: 99 %
MOST_FEATURES = 256
"""Correlations are looked at among so many features with the most noise; the noise of others hardly adds to it."""
MOST_MEMBERS = 512  # scatter is taken from so many members at most, evenly spaced
RARE = 2.0  # samples of a label behind a center from which on it counts as frequent
HALF_NORMAL = math.sqrt(2.0 / math.pi)  # mean of the absolute value of a standard normal number


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Mean and variance of a number that is not negative."""

    mean: float
    variance: float

    def quantile(self, z: float = Z) -> float:
        """Return the quantile of the gamma distribution with these moments (Wilson and Hilferty); 0 without noise.

        Examples
        --------
        >>> round(Moments(mean=10.0, variance=20.0).quantile(), 1)  # chi-squared, 10 degrees: 23.21
        23.3
        """
        if self.mean <= 0.0:
            return 0.0
        ninth = self.variance / (9.0 * self.mean**2)
        return self.mean * max(0.0, 1.0 - ninth + z * math.sqrt(ninth)) ** 3

    def scaled(self, factor: float) -> "Moments":
        """Return the moments of a multiple."""
        return Moments(mean=self.mean * factor, variance=self.variance * factor**2)


def noise_floors(movement: Movement, reference: Matrix, resampled: Resampled | None) -> Vector:
    """Return the shift that sampling alone stays below in 99 of 100 events, for each cluster.

    Shape ``(n_clusters,)``; 0 where no client reported anew since the centers of ``reference``, no number of samples is
    known, or the metric is one's own.
    """
    floors = np.zeros(reference.shape[0])
    if resampled is None:
        return floors
    for k in np.flatnonzero(movement.stayed_live).tolist():
        center = (reference[k] + movement.after[k]) / 2.0
        members = np.flatnonzero(movement.membership == k)
        if movement.noise_variance:
            floors[k] = _noised_floor(center, resampled, members, movement.noise_variance)
        elif movement.kind == "histogram":
            floors[k] = _histogram_floor(center, Noise.of(resampled, members), movement.metric.name)
        else:
            floors[k] = _vector_floor(movement, center, members, resampled.stayed)
    return floors


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How much noise there is in the shift of a center of histograms.

    ``factor`` of ``p (1 - p)`` makes it the variance of a share: ``v`` above. ``reported_share``: of the members, anew.
    """

    factor: float
    reported_share: float

    @classmethod
    def of(cls, resampled: Resampled, members: Counts) -> "Noise":
        """Return the noise of a cluster; members that report no number of samples add none."""
        known = resampled.stayed[members] & (resampled.n_before[members] > 0) & (resampled.n_after[members] > 0)
        reported = members[known]
        inverse = 1.0 / resampled.n_before[reported] + 1.0 / resampled.n_after[reported]
        n_members = max(1, members.size)
        return cls(factor=float(inverse.sum()) / n_members**2, reported_share=reported.size / n_members)


def _histogram_floor(center: Vector, noise: Noise, metric: str) -> float:
    shares = center[center > 0.0]
    if noise.factor == 0.0 or metric not in HISTOGRAM_FLOORS or shares.size < 2:
        return 0.0
    return HISTOGRAM_FLOORS[metric](shares / shares.sum(), noise)


def _l1_histogram(shares: Vector, noise: Noise) -> float:
    most = np.sort(np.argsort(-shares, kind="stable")[:MOST_FEATURES])
    top = shares[most]
    covariance = noise.factor * (np.diag(top) - np.outer(top, top))
    return _l1_moments(noise.factor * shares * (1.0 - shares), covariance, most).quantile()


def _l2_histogram(shares: Vector, noise: Noise) -> float:
    square, cube = float((shares**2).sum()), float((shares**3).sum())
    form = Moments(mean=1.0 - square, variance=2.0 * (square - 2.0 * cube + square**2))
    return math.sqrt(form.scaled(noise.factor).quantile())


def _hellinger_histogram(shares: Vector, noise: Noise) -> float:
    return math.sqrt(_relative_moments(shares, noise, most=2.0).scaled(noise.factor / 8.0).quantile())


def _js_histogram(shares: Vector, noise: Noise) -> float:
    moments = _relative_moments(shares, noise, most=2.0 * math.log(2.0))
    return math.sqrt(moments.scaled(noise.factor / (8.0 * math.log(2.0))).quantile())


def _relative_moments(shares: Vector, noise: Noise, *, most: float) -> Moments:
    """Return the moments of what squared Hellinger and Jensen-Shannon distances are multiples of.

    For frequent labels that is ``sum(d**2 / p)``, a chi-squared number times the noise. A label of which a center sees
    a sample or none goes from nothing to something: its part is up to ``most`` times as large, and up to twice that if
    it comes from the few that reported anew. ``RARE`` samples behind a center make it frequent; checked by simulation.
    """
    samples = shares * (2.0 * noise.reported_share / noise.factor)
    parts = np.minimum(2.0 * most / (1.0 + noise.reported_share), 1.0 + RARE / samples)
    return Moments(mean=float(parts.sum()) - 1.0, variance=2.0 * max(float((parts**2).sum()) - 1.0, 0.0))


def _cosine_histogram(shares: Vector, noise: Noise) -> float:
    # One minus the cosine is the squared length of what is orthogonal to p, by twice the squared length of p.
    length = float(shares @ shares)
    unit = shares / math.sqrt(length)
    image = shares * unit - shares * float(shares @ unit)
    along = float(unit @ image)
    square, cube = length, float((shares**3).sum())
    mean = 1.0 - square - along
    trace = square - 2.0 * cube + square**2 - 2.0 * float(image @ image) + along**2
    return Moments(mean=max(mean, 0.0), variance=2.0 * max(trace, 0.0)).scaled(noise.factor / (2.0 * length)).quantile()


HISTOGRAM_FLOORS: dict[str, Callable[[Vector, Noise], float]] = {
    "l1": _l1_histogram,
    "l2": _l2_histogram,
    "hellinger": _hellinger_histogram,
    "js": _js_histogram,
    "cosine": _cosine_histogram,
}
"""The floor of a center of these shares with so much noise, by the name of the metric."""


def _l1_moments(variances: Vector, covariance: Matrix, which: Counts) -> Moments:
    """Return mean and variance of the sum of absolute values of a normal vector, whose parts are correlated.

    ``covariance`` is among the parts ``which``; all others are taken to be independent.
    """
    deviations = np.sqrt(variances)
    outer = np.outer(deviations[which], deviations[which])
    correlation = np.clip(np.divide(covariance, outer, out=np.zeros_like(outer), where=outer > 0.0), -1.0, 1.0)
    together = correlation * np.arcsin(correlation) + np.sqrt(1.0 - correlation**2) - 1.0
    np.fill_diagonal(together, 0.0)
    alone = (1.0 - 2.0 / math.pi) * float(variances.sum())
    return Moments(
        mean=HALF_NORMAL * float(deviations.sum()), variance=alone + 2.0 / math.pi * float((outer * together).sum())
    )


def _noised_floor(center: Vector, resampled: Resampled, members: Counts, noise_variance: float) -> float:
    noise = Noise.of(resampled, members)
    if noise.factor == 0.0:
        return 0.0
    known = resampled.stayed[members] & (resampled.n_before[members] > 0) & (resampled.n_after[members] > 0)
    reported = members[known]
    squares = 1.0 / resampled.n_before[reported].astype(np.float64) ** 2
    squares += 1.0 / resampled.n_after[reported].astype(np.float64) ** 2
    added = noise_variance * float(squares.sum()) / members.size**2
    shares = np.maximum(center, 0.0)
    shares = shares / max(float(shares.sum()), 1e-9)
    square, cube = float((shares**2).sum()), float((shares**3).sum())
    # Of a covariance C = v (diag(p) - p p') + u I: its trace, and twice that of its square.
    v, u = noise.factor, added
    mean = v * (1.0 - square) + u * center.size
    variance = 2.0 * (v**2 * (square - 2.0 * cube + square**2) + 2.0 * v * u * (1.0 - square) + u**2 * center.size)
    return math.sqrt(Moments(mean=mean, variance=variance).quantile())


def _vector_floor(movement: Movement, center: Vector, members: Counts, stayed: Mask) -> float:
    reported = members[stayed[members]]
    chosen = reported if reported.size > 1 else members
    if not reported.size or chosen.size < 2:
        return 0.0
    chosen = chosen[:: 1 + (chosen.size - 1) // MOST_MEMBERS]
    rows = movement.points.take(chosen)
    rows -= rows.mean(axis=0)
    # Scaled so that rows' @ rows is the covariance of the shift.
    rows *= math.sqrt(2.0 * reported.size / (rows.shape[0] - 1)) / members.size
    return VECTOR_FLOORS[movement.metric.name](rows, center) if movement.metric.name in VECTOR_FLOORS else 0.0


def _l1_vector(rows: Matrix, _center: Vector) -> float:
    variances = np.square(rows).sum(axis=0)
    most = np.sort(np.argsort(-variances, kind="stable")[:MOST_FEATURES])
    return _l1_moments(variances, rows[:, most].T @ rows[:, most], most).quantile()


def _l2_vector(rows: Matrix, _center: Vector) -> float:
    return math.sqrt(_square_moments(rows).quantile())


def _cosine_vector(rows: Matrix, center: Vector) -> float:
    # What is orthogonal to the center is no longer than the whole; at a center of no length directions mean nothing.
    length = float(center @ center)
    return min(2.0, _square_moments(rows).scaled(0.5 / length).quantile()) if length > 0.0 else 2.0


def _square_moments(rows: Matrix) -> Moments:
    """Return mean and variance of the squared length of a normal vector with covariance ``rows' @ rows``."""
    gram = rows @ rows.T
    return Moments(mean=float(np.trace(gram)), variance=2.0 * float(np.square(gram).sum()))


VECTOR_FLOORS: dict[str, Callable[[Matrix, Vector], float]] = {
    "l1": _l1_vector,
    "l2": _l2_vector,
    "cosine": _cosine_vector,
}
"""The floor of a center whose shift has the covariance ``rows' @ rows``, by the name of the metric."""
