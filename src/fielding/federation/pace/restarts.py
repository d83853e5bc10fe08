"""Master-FL as a wrapper: the older a stretch, the slower; worse than before, start over (METHODS 10)."""

from dataclasses import dataclass
from math import isfinite

import numpy as np

from fielding._typing import Floats, Mask
from fielding.config.options import check_flag
from fielding.errors import OptionError, echo
from fielding.federation.aggregation.aggregator import check_above_zero
from fielding.federation.pace.pace import Memory, PaceStep
from fielding.rng import hashed

FEWEST_ROUNDS = 8  # rounds that an instance must have seen before its mean loss may be called a minimum
LARGEST_LOSS = 1e30  # losses beyond it count as this much, so that their squares stay finite

_ROUNDING = 1e-9
_LOWS = ("count", "mean", "spread")
_SUMS = (*_LOWS, *(f"low_{name}" for name in _LOWS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """Slows down with the square root of the horizon, and starts over when the loss says that the world has changed.

    After Ganguly and Aggarwal (ToN 2024), who take the scheme from Wei and Luo (COLT 2021); no code is public, so this
    is a reconstruction. Time, in rounds that the cluster trained, is cut into blocks of 1, 2, 4, ... ``longest``,
    ``longest``, ... rounds. In a block of 2^m an instance of horizon 2^m lives throughout, and at every multiple of
    2^n < 2^m one of horizon 2^n is born with probability 2^(-(m-n)/2). The shortest instance alive acts:
    ``factor = 1 / sqrt(horizon)``. All share the cluster's model, and all see every loss while they live. If the mean
    loss of any lies more than ``errors`` standard errors above the smallest that the same instance ever had (over at
    least 8 rounds), all end and time begins anew with a block of 1 round, at full rate.

    Parameters
    ----------
    longest
        Rounds of the longest horizon, a power of two.
    errors
        How many standard errors are a change. That of the difference of both means, as if they were independent, with
        the deviation of the losses up to the minimum.
    reset_model
        Whether the cluster's model starts over too, from the initial one.
    seed
        Of the run; horizons are placed by it and by the index of the round.
    """

    longest: int = 64
    errors: float = 2.0
    reset_model: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_above_zero("errors", self.errors)
        is_whole = isinstance(self.longest, int) and not isinstance(self.longest, bool)
        if not is_whole or not 1 <= self.longest <= 2**20 or self.longest & (self.longest - 1):
            raise OptionError(f"longest is {echo(self.longest)}; give a power of two from 1 to {2**20}")
        check_flag("reset_model", self.reset_model)

    def memory(self, n_numbers: int) -> dict[str, Floats]:  # noqa: ARG002
        """Return one instance of horizon 1, alone in its block."""
        n_orders = self.longest.bit_length()
        left = np.zeros(n_orders)
        left[0] = 1.0
        sums = {name: np.zeros(n_orders) for name in _SUMS}
        return {"block": np.zeros(2), "left": left, "restarted": np.zeros(1), **sums}

    def factor(self, memory: Memory) -> float:
        """Return one over the square root of the shortest horizon alive."""
        return float(2.0 ** (-0.5 * int(np.argmax(memory["left"] > 0.0))))

    def restarts(self, memory: Memory) -> bool:
        """Return whether the last round raised the alarm, if that concerns the model at all."""
        return self.reset_model and bool(memory["restarted"][0])

    def observe(self, step: PaceStep, memory: Memory) -> dict[str, Floats]:
        """Return the instances that live in the next round, or the first state if one of them raised the alarm."""
        after: dict[str, Floats] = {**memory}
        lives = memory["left"] > 0.0
        if isfinite(step.loss):  # means and sums of squared deviations with one more loss for all that live (Welford)
            count = memory["count"] + lives
            gap = np.where(lives, float(np.clip(step.loss, -LARGEST_LOSS, LARGEST_LOSS)) - memory["mean"], 0.0)
            after["count"], after["mean"] = count, memory["mean"] + gap / np.maximum(count, 1.0)
            after["spread"] = memory["spread"] + gap * (gap - gap / np.maximum(count, 1.0))
        if self._has_risen(after).any():
            return {**self.memory(step.after.size), "restarted": np.ones(1)}
        is_lowest = (after["low_count"] == 0.0) | (after["mean"] < after["low_mean"])
        is_lowest &= lives & (after["count"] >= FEWEST_ROUNDS)
        for name in _LOWS:
            after[f"low_{name}"] = np.where(is_lowest, after[name], after[f"low_{name}"])
        # Time moves on, and instances begin: those whose horizon divides it, by lot.
        order, position = int(memory["block"][0]), int(memory["block"][1]) + 1
        if position == 2**order:
            order, position = min(order + 1, lives.size - 1), 0
        orders = np.arange(lives.size)
        bits = hashed(self.seed, "master-fl", step.round_index, orders.astype(np.uint64))
        lots = (bits >> np.uint64(11)).astype(np.float64) / 2.0**53
        is_born = (orders <= order) & (position % 2**orders == 0) & (lots < 2.0 ** (-0.5 * (order - orders)))
        for name in _SUMS:
            after[name] = np.where(is_born, 0.0, after[name])
        after["left"] = np.where(is_born, 2.0**orders, np.maximum(memory["left"] - 1.0, 0.0))
        return {**after, "restarted": np.zeros(1), "block": np.array([order, position], dtype=np.float64)}

    def _has_risen(self, memory: Memory) -> Mask:
        """Return whose mean lies above its minimum by more than chance and rounding."""
        low_count, low_mean = memory["low_count"], memory["low_mean"]
        has_low = (memory["left"] > 0.0) & (low_count > 0.0)
        variance = memory["low_spread"] / np.maximum(low_count - 1.0, 1.0)
        error = np.sqrt(variance * (1.0 / np.maximum(low_count, 1.0) + 1.0 / np.maximum(memory["count"], 1.0)))
        rounding = _ROUNDING * np.maximum(np.abs(low_mean), np.abs(memory["mean"]))
        return np.asarray(has_low & (memory["mean"] - low_mean > self.errors * error + rounding))
