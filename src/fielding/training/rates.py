"""How the learning rate falls over the rounds."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningRate:
    """A rate that is multiplied by ``decay`` every ``every`` rounds and never falls below ``floor``.

    Examples
    --------
    FedScale's schedule:

    >>> rate = LearningRate(initial=0.05, decay=0.98, every=10, floor=5e-5)
    >>> rate.at(9), rate.at(10), rate.at(100_000)
    (0.05, 0.049, 5e-05)
    """

    initial: Annotated[float, Meta(ge=0)]
    decay: Annotated[float, Meta(ge=0)] = 1.0
    every: Annotated[int, Meta(ge=1)] = 10
    floor: Annotated[float, Meta(ge=0)] = 0.0

    def at(self, round_index: int) -> float:
        """Return the rate of a round; a floor above the initial rate has no effect."""
        return max(self.initial * self.decay ** (round_index // self.every), min(self.floor, self.initial))
