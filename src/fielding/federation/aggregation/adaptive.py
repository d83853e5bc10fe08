"""Server optimisers: FedAdagrad, FedAdam and FedYogi (Reddi et al., ICLR 2021; METHODS.md 8.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from fielding._typing import Models
from fielding.federation.aggregation.aggregator import Uploads, check_above_zero, check_below, mean_change, remembered

Rule = Literal["adagrad", "adam", "yogi"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """Takes the mean change of the participants for a gradient, and a step of its own with it.

    With the mean change D: ``m = b1 m + (1 - b1) D``; ``v`` grows by D^2 (Adagrad), forgets exponentially (Adam), or
    moves towards D^2 by a bounded step (Yogi); ``w += eta m / (sqrt(v) + tau)``. No bias correction, ``v`` begins with
    tau^2. Parameters only: buffers take the mean.

    Parameters
    ----------
    rule
        ``"adagrad"``, ``"adam"`` or ``"yogi"``.
    eta
        The server's learning rate.
    beta1, beta2
        How much of the old moments stays.
    tau
        How little adaptivity there is: large values make all coordinates alike.
    """

    rule: Rule = "yogi"
    eta: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3
    needs_start_loss: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("eta", "tau"):
            check_above_zero(name, getattr(self, name))
        for name in ("beta1", "beta2"):
            check_below(name, getattr(self, name), 1.0)

    @property
    def memory(self) -> Mapping[str, float]:
        """Both moments."""
        return {"m": 0.0, "v": self.tau**2}

    def combine(
        self, model: Models, uploads: Uploads, memory: Mapping[str, Models]
    ) -> tuple[Models, dict[str, Models]]:
        """Return the model after a step of the server, and its moments."""
        new, part, start, change = mean_change(model, uploads)
        first = self.beta1 * memory["m"][part] + (1.0 - self.beta1) * change
        before, square = memory["v"][part].astype(np.float64), change**2
        if self.rule == "adagrad":
            second = before + square
        elif self.rule == "adam":
            second = self.beta2 * before + (1.0 - self.beta2) * square
        else:
            second = before - (1.0 - self.beta2) * square * np.sign(before - square)
        new[part] = start + self.eta * first / (np.sqrt(second) + self.tau)
        return new, remembered(memory, part, m=first, v=second)


FEDADAGRAD = partial(Adaptive, rule="adagrad", eta=0.1, beta1=0.0)
FEDADAM = partial(Adaptive, rule="adam")
FEDYOGI = partial(Adaptive, rule="yogi")
