"""A server step that goes where participants agree round after round, and holds back where they only scatter."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fielding._typing import Models
from fielding.federation.aggregation.aggregator import (
    Uploads,
    check_above_zero,
    check_below,
    mean_change,
    remembered,
    storable,
)
from fielding.federation.aggregation.flash import Flash

ENOUGH = 2.0 / 3.0  # of what is known must be carried over to samples that come later for steps of full length


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiener:
    """Momentum, each number shrunk by how much of it is noise, as Wiener's filter would.

    With the mean change D: ``m = b1 m + (1 - b1) D`` and ``v = b2 v + (1 - b2) D^2``, both from 0. What m would be of
    changes around zero has the variance ``n = (v - m^2) (1 - b1) / (1 + b1)``, so that of m^2 no more than m^2 - n is
    signal: ``w += gain m max(m^2 - n, 0) / m^2``. Steps are in proportion to what clients did, whatever the scale of a
    model or of its learning rate; Adam's and Flash's are not. v is behind in the first rounds, so that these are taken
    at full length. Parameters only: buffers take the mean.

    Long steps lead astray where clients learn by heart: rounds agree on what does not hold for the samples that come
    next. Where less than two thirds of what models know is carried over to these, steps are shorter in proportion, down
    to one mean change.

    Parameters
    ----------
    gain
        How many mean changes long a step is where all rounds agree and enough is carried over.
    beta1, beta2
        How much of the old moments stays.
    """

    gain: float = 4.0
    beta1: float = 0.9
    beta2: float = 0.99
    needs_start_loss: ClassVar[bool] = False
    for_heads: ClassVar[Flash] = Flash()
    """What steps the heads of clusters that share a body: one or two participants of a round agree on nothing."""

    def __post_init__(self) -> None:
        check_above_zero("gain", self.gain)
        for name in ("beta1", "beta2"):
            check_below(name, getattr(self, name), 1.0)

    @property
    def memory(self) -> Mapping[str, float]:
        """Both moments."""
        return {"m": 0.0, "v": 0.0}

    def combine(
        self, model: Models, uploads: Uploads, memory: Mapping[str, Models]
    ) -> tuple[Models, dict[str, Models]]:
        """Return the model after a step of the server, and its moments."""
        new, part, start, change = mean_change(model, uploads)
        first = self.beta1 * memory["m"][part] + (1.0 - self.beta1) * change
        second = self.beta2 * memory["v"][part].astype(np.float64) + (1.0 - self.beta2) * change**2
        power = first**2
        noise = np.maximum(second - power, 0.0) * (1.0 - self.beta1) / (1.0 + self.beta1)
        signal = np.divide(np.maximum(power - noise, 0.0), power, out=np.zeros_like(power), where=power > 0.0)
        gain = min(self.gain, max(1.0, self.gain * uploads.carried_over / ENOUGH))
        new[part] = storable(start + gain * first * signal)
        return new, remembered(memory, part, m=storable(first), v=storable(second))
