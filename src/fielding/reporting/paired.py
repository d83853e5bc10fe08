"""Means over seeds with 95 % intervals, and differences between methods that ran on the same seeds, with tests."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fielding._typing import Json, Vector
from fielding.errors import InputError

COVERAGE = 0.95
ROUNDING = 1e-9
"""Differences whose spread is this small a share of them are equal, but for how numbers are rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over seeds.

    Parameters
    ----------
    mean
        The mean.
    half_width
        Half of its 95 % t-interval; None for a single seed, which tells nothing about others.
    per_seed
        What it is the mean of.
    """

    mean: float
    half_width: float | None
    per_seed: tuple[float, ...]

    def record(self) -> dict[str, Json]:
        """Return it for ``summary.json``; ``ci95`` is None for a single seed."""
        ends: Json = None if self.half_width is None else [self.mean - self.half_width, self.mean + self.half_width]
        return {"mean": self.mean, "ci95": ends, "per_seed": list(self.per_seed)}

    def words(self, places: int = 3, *, sign: str = "") -> str:
        """Return mean and half width.

        Examples
        --------
        >>> estimate([0.5, 0.7]).words(), estimate([0.25]).words(2, sign="+")
        ('0.600 ± 1.271', '+0.25')
        """
        mean = f"{self.mean:{sign}.{places}f}"
        return mean if self.half_width is None else f"{mean} ± {self.half_width:.{places}f}"


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of values of independent seeds with its 95 % t-interval.

    Raises
    ------
    InputError
        If there is no value.

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
        mean=float(center), half_width=None if np.isnan(width) else width, per_seed=tuple(float(one) for one in values)
    )


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """Return ours minus theirs, seed by seed: what all methods gain or lose by a seed cancels out.

    Raises
    ------
    InputError
        If there are not equally many.

    Examples
    --------
    >>> gain = paired_difference([0.91, 0.82, 0.73], [0.90, 0.80, 0.70])
    >>> round(gain.mean, 3), round(gain.half_width, 4)
    (0.02, 0.0248)
    """
    if len(ours) != len(theirs):
        raise InputError(f"{len(ours)} values cannot be paired with {len(theirs)}; run all methods on the same seeds")
    return estimate([one - other for one, other in zip(ours, theirs, strict=True)])


def estimate_of(record: Json) -> Estimate | None:
    """Return the estimate that a record of ``summary.json`` is of; None if no seed has a value.

    Examples
    --------
    >>> estimate_of(estimate([0.5, 0.7]).record()).words(), estimate_of(seed_record([None, None]))
    ('0.600 ± 1.271', None)
    """
    values = record.get("per_seed") if isinstance(record, dict) else None
    known = [float(one) for one in values if isinstance(one, (int, float))] if isinstance(values, list) else []
    return estimate(known) if known else None


def seed_record(values: Sequence[float | None]) -> dict[str, Json]:
    """Return mean, interval and values for ``summary.json``; seeds without a value are None and do not count.

    Examples
    --------
    >>> seed_record([0.5, None])
    {'mean': 0.5, 'ci95': None, 'per_seed': [0.5, None]}
    >>> seed_record([None])
    {'mean': None, 'ci95': None, 'per_seed': [None]}
    """
    known = [value for value in values if value is not None]
    found = estimate(known).record() if known else {"mean": None, "ci95": None}
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
