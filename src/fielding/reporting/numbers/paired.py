"""Means over seeds with 95 % intervals, and differences between methods that ran on the same seeds, with tests."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Json, Vector
from fielding.errors import InputError

COVERAGE = 0.95
ROUNDING = 1e-9  # differences whose spread is this small a share of them are equal, but for how numbers are rounded


Bounds: TypeAlias = tuple[float, float]
ANY: Bounds = (-math.inf, math.inf)
SHARE: Bounds = (0.0, 1.0)
AMOUNT: Bounds = (0.0, math.inf)
_SHARES = (
    "final_accuracy", "final_newest_accuracy", "final_next_accuracy", "final_prequential_accuracy", "target_accuracy",
    "worst_decile", "best_decile", "client_p10", "client_min", "client_std", "jain_index", "final_purity", "churn",
    "miss_rate", "drift_unrecovered", "recluster_unrecovered",
)  # fmt: skip
_AMOUNTS = (
    "bytes_", "client_seconds", "time_", "rounds_to_", "n_", "moves", "reclusterings", "mean_clusters", "server_ms",
    "adapt_ms", "wall_s", "peak_bytes", "detection_delay", "false_reports", "drift_recovery", "recluster_recovery",
)  # fmt: skip
"""How names of figures begin that are shares, and that no run can have less than nothing of."""


def bounds_of(figure: str) -> Bounds:
    """Return between which numbers a figure of a run lies; t-intervals over few seeds reach beyond and are cut there.

    Examples
    --------
    >>> bounds_of("worst_decile_tuned"), bounds_of("bytes_up"), bounds_of("dip")
    ((0.0, 1.0), (0.0, inf), (-inf, inf))
    """
    return SHARE if figure.startswith(_SHARES) else AMOUNT if figure.startswith(_AMOUNTS) else ANY


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over seeds, with half of its 95 % t-interval; None for a single seed, which tells nothing about others.

    ``bounds``: between which numbers the figure lies; the interval ends there.
    """

    mean: float
    half_width: float | None
    per_seed: tuple[float, ...]
    bounds: Bounds = ANY

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of the interval, None for a single seed."""
        if self.half_width is None:
            return None
        low, high = self.bounds
        # Rounding may put a mean of equal values a last digit beyond a bound.
        return min(self.mean, max(low, self.mean - self.half_width)), max(
            self.mean, min(high, self.mean + self.half_width)
        )

    def record(self) -> dict[str, Json]:
        """Return it for ``summary.json``; ``ci95`` is None for a single seed."""
        return {
            "mean": self.mean,
            "ci95": None if self.ends is None else list(self.ends),
            "per_seed": list(self.per_seed),
        }

    def words(self, places: int = 3, *, sign: str = "") -> str:
        """Return mean and half width; where the interval is cut off at a bound, its ends.

        Examples
        --------
        >>> estimate([0.5, 0.7]).words(), estimate([0.25]).words(2, sign="+"), estimate([0.5, 0.7], SHARE).words(1)
        ('0.600 ± 1.271', '+0.25', '0.6 [0.0, 1.0]')
        """
        mean = f"{self.mean:{sign}.{places}f}"
        if self.half_width is None or self.ends is None:
            return mean
        if self.ends != (self.mean - self.half_width, self.mean + self.half_width):
            return f"{mean} [{', '.join(f'{end:{sign}.{places}f}' for end in self.ends)}]"
        return f"{mean} ± {self.half_width:.{places}f}"


def estimate(values: Sequence[float], bounds: Bounds = ANY) -> Estimate:
    """Return the mean of values of independent seeds with its 95 % t-interval; InputError if there is no value.

    Examples
    --------
    >>> one = estimate([0.9, 0.8, 1.0])
    >>> round(one.mean, 3), round(one.half_width, 4)
    (0.9, 0.2484)
    """
    if not len(values):
        raise InputError("there is no value to take the mean of; give at least one seed")
    center, half_width = t_interval(np.asarray(values, dtype=np.float64))
    width = float(half_width)
    return Estimate(
        mean=float(center),
        half_width=None if np.isnan(width) else width,
        per_seed=tuple(float(one) for one in values),
        bounds=bounds,
    )


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """Return ours minus theirs, seed by seed: what all methods gain or lose by a seed cancels out.

    InputError if there are not equally many.

    Examples
    --------
    >>> gain = paired_difference([0.91, 0.82, 0.73], [0.90, 0.80, 0.70])
    >>> round(gain.mean, 3), round(gain.half_width, 4)
    (0.02, 0.0248)
    """
    if len(ours) != len(theirs):
        raise InputError(f"{len(ours)} values cannot be paired with {len(theirs)}; run all methods on the same seeds")
    return estimate([one - other for one, other in zip(ours, theirs, strict=True)])


def estimate_of(record: Json, bounds: Bounds = ANY) -> Estimate | None:
    """Return the estimate that a record of ``summary.json`` is of; None if no seed has a value.

    Examples
    --------
    >>> estimate_of(estimate([0.5, 0.7]).record()).words(), estimate_of(seed_record([None, None]))
    ('0.600 ± 1.271', None)
    """
    values = record.get("per_seed") if isinstance(record, dict) else None
    known = [float(one) for one in values if isinstance(one, (int, float))] if isinstance(values, list) else []
    return estimate(known, bounds) if known else None


def seed_record(values: Sequence[float | None], bounds: Bounds = ANY) -> dict[str, Json]:
    """Return mean, interval and values for ``summary.json``; seeds without a value are None and do not count.

    ``bounds``: between which numbers the figure lies.

    Examples
    --------
    >>> seed_record([0.5, None])
    {'mean': 0.5, 'ci95': None, 'per_seed': [0.5, None]}
    >>> seed_record([None])
    {'mean': None, 'ci95': None, 'per_seed': [None]}
    """
    known = [value for value in values if value is not None]
    found = estimate(known, bounds).record() if known else {"mean": None, "ci95": None}
    return {**found, "per_seed": list(values)}


def paired_p(differences: Sequence[float]) -> float | None:
    """Return the two-sided p-value of the paired t-test: how likely so large a mean is if there is no difference.

    Differences that are all zero give 1. Those that are all equal but not zero have no spread to judge by and give
    None, as do fewer than two.

    Examples
    --------
    >>> round(paired_p([0.1, 0.2, 0.3]), 4), paired_p([0.1]), paired_p([0.1, 0.1]), paired_p([0.0, 0.0])
    (0.0742, None, None, 1.0)
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.size < 2:
        return None
    if not values.any():
        return 1.0
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))
    if error <= ROUNDING * np.abs(values).max():
        return None
    from scipy.special import stdtr

    return float(2 * stdtr(values.size - 1, -abs(mean / error)))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted for having asked so many questions at once (Holm, 1979), in the same order.

    The smallest counts as often as there are questions, the next once less, and none less than a smaller one before it.
    Questions without an answer (None) do not count.

    Examples
    --------
    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    order = sorted((value, at) for at, value in enumerate(p_values) if value is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (value, at) in enumerate(order):
        largest = max(largest, min(1.0, value * (len(order) - rank)))
        adjusted[at] = largest
    return adjusted


def t_interval(values: npt.NDArray[np.float64]) -> tuple[Vector, Vector]:
    """Return mean and half width of the 95 % t-interval over the first axis; NaN for a single value.

    Examples
    --------
    >>> mean, half_width = t_interval(np.array([[0.0, 1.0], [2.0, 1.0]]))
    >>> mean.tolist(), half_width.round(3).tolist()
    ([1.0, 1.0], [12.706, 0.0])
    """
    n_values, mean = values.shape[0], np.asarray(values.mean(axis=0))
    if n_values < 2:
        return mean, np.full(mean.shape, np.nan)
    from scipy.special import stdtrit  # a third of the time that scipy.stats takes to load

    quantile = float(stdtrit(n_values - 1, 0.5 + COVERAGE / 2))
    return mean, np.asarray(quantile * values.std(axis=0, ddof=1) / np.sqrt(n_values))


FEWEST_PAIRS = 3  # seeds on which both must get there for an interval


def speedup(theirs: Sequence[float | None], ours: Sequence[float | None]) -> dict[str, Json]:
    """Return how many times their time ours is, over the seeds on which both got there.

    It is the geometric mean of the ratios, and its interval the t-interval of their logarithms: with few seeds that
    holds the truth about as often as it says, which a bootstrap does not.

    ``mean``, the ratio; ``ci95``, None for fewer than three seeds; ``per_seed``, the ratio on each; ``n_seeds``, on how
    many both got there. Without such a seed ``mean`` is None too. ``theirs``, ``ours``: times by seed, None where the
    target was never reached.

    Examples
    --------
    >>> found = speedup([10.0, 12.0, None], [5.0, 4.0, 3.0])
    >>> round(found["mean"], 3), found["ci95"], found["per_seed"], found["n_seeds"]
    (2.449, None, [2.0, 3.0, None], 2)
    """
    ratios = [
        other / own if other is not None and own is not None and other > 0 and own > 0 else None
        for other, own in zip(theirs, ours, strict=True)
    ]
    logs = [math.log(one) for one in ratios if one is not None]
    record: dict[str, Json] = {"mean": None, "ci95": None, "per_seed": list[Json](ratios), "n_seeds": len(logs)}
    if not logs:
        return record
    found = estimate(logs)
    record["mean"] = math.exp(found.mean)
    if found.half_width is not None and len(logs) >= FEWEST_PAIRS:
        # Two seeds that agree by chance, with a wild third, have no end that a number can hold.
        ends = [found.mean - found.half_width, found.mean + found.half_width]
        record["ci95"] = [math.exp(end) for end in ends] if ends[1] < math.log(1e300) else None
    return record


BySeed: TypeAlias = Sequence[float | None]
"""A figure on each seed, in the same order for all methods; None where it is not known."""
Pair: TypeAlias = tuple[str, str]
FEWEST_SEEDS = 3  # seeds that two methods must share to be told apart: of two, any spread may be chance


def best(figures: Mapping[str, BySeed], *, lower_is_better: bool = False) -> dict[str, Json]:
    """Return who is best in a figure, as far as seeds can tell.

    Every two methods are compared with each other by a paired t-test on the seeds that both have, if those are three or
    more; p-values are adjusted for the number of pairs (Holm). One *clearly beats* another if its mean over these seeds
    is better and the adjusted p-value below 5 %.

    ``figures``: by method, the figure on each seed.

    Returns
    -------
    ``marked``
        The methods that may be the best: those that none clearly beats and that were compared with the one of them with
        the best mean, and all methods whose mean is as good as the lowest of these; so none is left out that has a
        better mean than one that is marked. Empty if no method is clearly beaten, if these are all methods, or if one
        of them was not compared with the one with the best mean.
    ``winner``
        The one method that clearly beats all others; None without one.
    ``worse``
        Those that another clearly beats.

    Examples
    --------
    >>> found = best({"a": [0.9, 0.8, 0.7], "b": [0.89, 0.81, 0.7], "c": [0.5, 0.39, 0.31]})
    >>> found["marked"], found["winner"], found["worse"]
    (['a', 'b'], None, ['c'])
    """
    sign = -1.0 if lower_is_better else 1.0
    known = {name: [sign * one for one in values if one is not None] for name, values in figures.items()}
    # As tables print them: a difference in the last bits is none.
    means = {name: round(sum(values) / len(values), 12) if values else -math.inf for name, values in known.items()}
    gaps: dict[Pair, list[float]] = {
        (one, other): [
            sign * (ours - theirs)
            for ours, theirs in zip(figures[one], figures[other], strict=True)
            if ours is not None and theirs is not None
        ]
        for one, other in combinations(figures, 2)
    }
    p_values = [paired_p(gap) if len(gap) >= FEWEST_SEEDS else None for gap in gaps.values()]
    tested = {pair: p for pair, p in zip(gaps, holm(p_values), strict=True) if p is not None}
    clear = [pair for pair, p in tested.items() if p < 1 - COVERAGE]
    beats = {pair if sum(gaps[pair]) > 0 else (pair[1], pair[0]) for pair in clear}
    beaten = {other for _, other in beats}
    worse = list[Json](name for name in figures if name in beaten)
    unbeaten = [name for name in figures if name not in beaten and any(name in pair for pair in tested)]
    if not beats or not unbeaten:
        return {"marked": [], "winner": None, "worse": worse}
    first = max(unbeaten, key=lambda name: means[name])
    rivals = {first, *(name for pair in tested if first in pair for name in pair)}
    lowest = min(means[name] for name in unbeaten if name in rivals)
    marked = [name for name in figures if means[name] >= lowest]
    is_told = rivals.issuperset(marked) and len(marked) < len(figures)
    is_winner = all((first, name) in beats for name in figures if name != first)
    return {
        "marked": list[Json](marked) if is_told else [],
        "winner": first if is_winner else None,
        "worse": worse,
    }
