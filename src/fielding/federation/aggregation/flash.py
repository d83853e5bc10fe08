"""Flash: a server optimiser that speeds up where changes are larger than they were (Panchal et al., ICML 2023)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fielding._typing import Models
from fielding.errors import OptionError, echo
from fielding.federation.aggregation.aggregator import (
    Uploads,
    check_above_zero,
    check_below,
    mean_change,
    remembered,
    storable,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flash:
    """Takes Adam's steps at the server, longer ones after drift.

    With the mean change D: ``m = b1 m + (1 - b1) D`` and ``v = b2 v' + (1 - b2) D^2`` as Adam has them;
    ``b3 = v' / (|D^2 - v| + v')``, ``d = b3 d + (1 - b3) (D^2 - v)``, ``w += eta m / (sqrt(v) - d + tau)``. ``v``
    begins with tau^2, ``d`` and ``m`` with 0. Where changes suddenly grow, d rises and the step with it; where they
    shrink, d is negative and brakes. Parameters only: buffers take the mean.

    The paper's divisor may reach zero or fall below it (whenever D^2 is large beside its past, such as D near 1), where
    the step is infinite or backwards; the public codes divide by it unguarded. Here it is at least
    ``(sqrt(v) + tau) / speedup``: never more than ``speedup`` times the step of Adam. d is a square and sqrt(v) is
    not: with changes far below 1 the term is too small to matter, and Flash is FedAdam.

    This is the half of the server. Flash's clients also stop early, once an epoch improves their validation loss by
    less than gamma / epoch; that is no business of an aggregator and is not done here.

    Parameters
    ----------
    eta
        The server's learning rate.
    beta1, beta2
        How much of the old moments stays.
    tau
        How little adaptivity there is: large values make all coordinates alike.
    speedup
        How many times the step of Adam a step may be, at least 1; with 1 it only ever brakes.
    """

    eta: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3
    speedup: float = 10.0
    needs_start_loss: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("eta", "tau", "speedup"):
            check_above_zero(name, getattr(self, name))
        for name in ("beta1", "beta2"):
            check_below(name, getattr(self, name), 1.0)
        if self.speedup < 1.0:
            raise OptionError(f"speedup is {echo(self.speedup)}; give a number from 1")

    @property
    def memory(self) -> Mapping[str, float]:
        """Both moments and the drift term."""
        return {"m": 0.0, "v": self.tau**2, "d": 0.0}

    def combine(
        self, model: Models, uploads: Uploads, memory: Mapping[str, Models]
    ) -> tuple[Models, dict[str, Models]]:
        """Return the model after a step of the server, its moments and its drift term."""
        new, part, start, change = mean_change(model, uploads)
        square, before = change**2, memory["v"][part].astype(np.float64)
        first = self.beta1 * memory["m"][part] + (1.0 - self.beta1) * change
        second = self.beta2 * before + (1.0 - self.beta2) * square
        surprise = square - second
        scale = np.abs(surprise) + before
        stays = np.divide(before, scale, out=np.ones_like(scale), where=scale > 0.0)  # all of it where nothing moved
        drift = stays * memory["d"][part].astype(np.float64) + (1.0 - stays) * surprise
        plain = np.sqrt(second) + self.tau
        new[part] = storable(start + self.eta * first / np.maximum(plain - drift, plain / self.speedup))
        return new, remembered(memory, part, m=storable(first), v=storable(second), d=storable(drift))
