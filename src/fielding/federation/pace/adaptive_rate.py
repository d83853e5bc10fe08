"""Adaptive-FedAvg: slower while the weights settle, faster when they move (Canonaco et al., IJCNN 2021; METHODS 10)."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fielding._typing import Floats
from fielding.config.options import check_flag
from fielding.errors import OptionError, echo
from fielding.federation.aggregation.aggregator import check_below
from fielding.federation.pace.pace import LEAST_FACTOR, Memory, PaceStep

TimeSteps = Literal["events", "rounds"]
Start = Literal["model", "zero"]

LARGEST_RATIO = 1e6  # of two variances: weights that move after they stood still would divide by zero


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveRate:
    """Sets the learning rate by how the variance of a cluster's weights changes from round to round.

    With the weights w after a round, all three averages exponential and corrected for their start:
    ``mean`` of w (beta1), ``variance`` of the squared deviation of w from the mean before, averaged over all parameters
    (beta2), ``ratio`` of the variance to the one before (beta3, 1 in the first round);
    ``factor = min(1, ratio / t)``. The state holds the averages after their correction, with the weights of what they
    have seen, ``1 - beta^n``.

    Parameters
    ----------
    beta1, beta2, beta3
        How much of the old averages stays.
    time_steps
        What t counts: ``"events"``, rounds before which new data had arrived, plus one; or ``"rounds"`` that
        trained, as the authors have it, whose factor is 1/1000 after 1000 rounds.
    reset
        Whether new data set t back to 1; with ``"events"`` t is then always 1.
    start
        What the first weights deviate from: the ``"model"`` before them, or ``"zero"`` as the authors have it, which
        halves the rate of about the first ten rounds until the length of the weights is forgotten.
    """

    beta1: float = 0.5
    beta2: float = 0.5
    beta3: float = 0.5
    time_steps: TimeSteps = "events"
    reset: bool = False
    start: Start = "model"

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2", "beta3"):
            check_below(name, getattr(self, name), 1.0)
        check_flag("reset", self.reset)
        for name, known in (("time_steps", get_args(TimeSteps)), ("start", get_args(Start))):
            if getattr(self, name) not in known:
                raise OptionError(f"{name} is {echo(getattr(self, name))}; give one of {', '.join(map(repr, known))}")

    def memory(self, n_numbers: int) -> dict[str, Floats]:
        """Return averages of nothing, and t = 1."""
        return {
            "mean": np.zeros(n_numbers, dtype=np.float32),
            "variance": np.zeros(1),
            "ratio": np.ones(1),
            "seen": np.zeros(3),
            "time": np.ones(1),
        }

    def factor(self, memory: Memory) -> float:
        """Return the ratio of variances over time, at most 1."""
        return float(min(1.0, max(LEAST_FACTOR, memory["ratio"][0] / memory["time"][0])))

    def restarts(self, memory: Memory) -> bool:  # noqa: ARG002
        """Return False: it never gives a model up."""
        return False

    def observe(self, step: PaceStep, memory: Memory) -> dict[str, Floats]:
        """Return the averages with one more round in them."""
        betas = np.array([self.beta1, self.beta2, self.beta3])
        seen = betas * memory["seen"] + (1.0 - betas)
        # Shares of the old and the new in averages that are corrected already.
        new = (1.0 - betas) / seen
        is_first = memory["seen"][0] == 0.0
        weights = step.after.astype(np.float64)
        mean = (step.before if is_first and self.start == "model" else memory["mean"]).astype(np.float64)
        variance_before, ratio_before = float(memory["variance"][0]), float(memory["ratio"][0])
        deviation = (weights - mean)[: step.n_parameters]
        variance = (1.0 - new[1]) * variance_before + new[1] * float(np.mean(deviation**2))
        if is_first or (variance >= LARGEST_RATIO * variance_before and variance == 0.0):
            now = 1.0  # there was and is none
        else:
            now = LARGEST_RATIO if variance >= LARGEST_RATIO * variance_before else variance / variance_before
        time = float(memory["time"][0])
        if self.reset and step.has_new_data:
            time = 1.0
        else:
            time += float(step.has_new_data if self.time_steps == "events" else not is_first)
        return {
            "mean": np.asarray((1.0 - new[0]) * mean + new[0] * weights, dtype=np.float32),
            "variance": np.array([variance]),
            "ratio": np.array([(1.0 - new[2]) * ratio_before + new[2] * now]),
            "seen": seen,
            "time": np.array([time]),
        }
