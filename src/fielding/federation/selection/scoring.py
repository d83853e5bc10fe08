"""The formulas of Oort (Lai et al., OSDI 2021; METHODS.md 9.2), each a function of arrays."""

import numpy as np

from fielding._typing import Counts, Vector
from fielding.rng import Hashes

_LEAST_RANGE = 1e-4
_BELOW_LEAST = 0.999


def utilities(n_samples: Counts, square_loss: Vector, n_train_samples: int) -> Vector:
    """Return what each answer was worth: the samples it could train on, times the root of the mean square loss.

    An answer whose loss is no finite number is worth the mean of the others, nothing if there are none.

    Examples
    --------
    >>> utilities(np.array([100, 3]), np.array([4.0, 1.0]), 50).tolist()
    [100.0, 3.0]
    """
    with np.errstate(invalid="ignore"):
        worth = np.minimum(n_samples, n_train_samples) * np.sqrt(square_loss)
    sound = np.isfinite(worth)
    return np.where(sound, worth, worth[sound].mean() if sound.any() else 0.0)


def preferred_seconds(seconds: Vector, percentile: float) -> float:
    """Return the duration that a share of the clients keeps to; infinite at 100 or if no duration is known.

    Parameters
    ----------
    seconds
        The duration of each client's last participation, NaN where unknown.
    percentile
        From 0 to 100.
    """
    known = np.sort(seconds[np.isfinite(seconds)])
    if percentile >= 100.0 or not known.size:
        return float("inf")
    return float(known[min(int(known.size * percentile / 100.0), known.size - 1)])


def speed_factors(seconds: Vector, preferred: float, penalty: float) -> Vector:
    """Return by how much scores shrink: ``(T / t)^penalty`` for clients slower than preferred, else 1.

    Examples
    --------
    >>> speed_factors(np.array([1.0, 4.0, np.nan]), 2.0, 2.0).tolist()
    [1.0, 0.25, 1.0]
    """
    factors = np.ones(seconds.size)
    is_slow = seconds > preferred
    factors[is_slow] = (preferred / seconds[is_slow]) ** penalty
    return factors


def statistical_scores(utility: Vector, clip: float) -> Vector:
    """Return utilities between the least and the greatest as numbers from about 0 to 1, the greatest clipped.

    Parameters
    ----------
    utility
        Of the clients that were tried, at least one.
    clip
        The quantile above which a utility counts no more.
    """
    # The least is lowered a little, so that nobody is left without a chance.
    least, greatest = utility.min() * _BELOW_LEAST, utility.max()
    highest = np.sort(utility)[min(int(utility.size * clip), utility.size - 1)]
    return np.asarray((np.minimum(utility, highest) - least) / max(greatest - least, _LEAST_RANGE))


def staleness_bonus(last_round: Vector, round_now: int, uncertainty: float) -> Vector:
    """Return ``sqrt(uncertainty * ln(now) / last)``: the longer ago a client took part, the more.

    Parameters
    ----------
    last_round
        When each took part last, counted from 1; 0 for never, which counts as the first round.
    round_now
        Counted from 1.
    uncertainty
        How much this weighs beside utility.
    """
    return np.asarray(np.sqrt(uncertainty * np.log(round_now) / np.maximum(last_round, 1.0)))


def exploitation_chances(scores: Vector, n_slots: int, *, cutoff: float, pool: float) -> Vector:
    """Return each client's chance to be the first that is drawn: by score, among the best; sums to 1.

    Parameters
    ----------
    scores
        Not negative, shape ``(n_tried,)``, at least one.
    n_slots
        How many will be drawn.
    cutoff
        The best are those whose score reaches this share of the score at rank ``n_slots``.
    pool
        They are at least this many for each slot (ties in).
    """
    ranked = np.sort(scores)[::-1]
    cut = ranked[min(n_slots, ranked.size - 1)] * cutoff
    widest = ranked[min(max(n_slots, int(np.ceil(pool * n_slots))), ranked.size) - 1] if n_slots else cut
    weights = np.where(scores >= min(cut, widest), scores, 0.0)
    if not weights.any():
        weights = np.ones(scores.size)
    return np.asarray(weights / weights.sum())


def exploration_chances(rewards: Vector, draws: Hashes, n_pool: int) -> Vector:
    """Return each untried client's chance to be the first that is drawn: by reward, among the best; sums to 1.

    Parameters
    ----------
    rewards
        What is expected of each before it was tried, not negative, shape ``(n_untried,)``, at least one.
    draws
        A random number for each, which breaks ties, same shape.
    n_pool
        How many of the best have a chance.
    """
    weights = np.zeros(rewards.size)
    best = np.lexsort((draws, -rewards))[: max(1, n_pool)]
    weights[best] = rewards[best] if rewards[best].any() else 1.0
    return np.asarray(weights / weights.sum())
