"""Clients whose loss is the distance of a model, which is one number, to what suits them."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from fielding._typing import Counts, Mask, Matrix, Models
from fielding.federation.clients import Clients


def models_of(*numbers: float) -> Models:
    """Return models of one number each."""
    return np.array(numbers, dtype=np.float32)[:, np.newaxis]


class Tastes:
    """Clients that are asked how models suit them; everything else fails.

    Whoever is not ``fresh`` did not get samples, and whoever is ``silent`` does not answer. Unless they ``keep_aside``
    samples, nobody has any of those: then they are not asked, and not charged, either. What is kept aside is ``off``
    from what suits the newest samples.
    """

    def __init__(self, suits: Sequence[float]) -> None:
        self.suits = np.array(suits, dtype=np.float64)
        self.client_ids = tuple(range(self.suits.size))
        self.fresh_ones: Mask = np.ones(self.suits.size, dtype=np.bool_)
        self.silent: list[int] = []
        self.keep_aside, self.off = True, 0.0
        self.interval = 0
        self.asked: list[list[int]] = []
        self.about: list[str] = []
        self.candidates: list[list[float]] = []

    @property
    def api(self) -> Clients:
        return cast(Clients, self)

    def fresh(self) -> Mask:
        return self.fresh_ones

    def draws(self, _purpose: str, who: Counts) -> Counts:
        return np.asarray(who, dtype=np.uint64)

    def losses(
        self,
        who: Counts,
        models: Models,
        *,
        blocks: Sequence[Counts] | None = None,
        corrected: bool = False,
        aside: bool = False,
    ) -> Matrix:
        assert corrected
        assert aside == (blocks is None), "what they train on tells nothing"
        if blocks is not None:
            assert [block.tolist() for block in blocks] == [[self.interval]] * who.size, "only what just came"
        losses = np.abs(self.suits[who][:, np.newaxis] + self.off * aside - models[:, 0])
        if aside and not self.keep_aside:
            return np.full_like(losses, np.nan)
        self.asked.append(who.tolist())
        self.about.append("aside" if aside else "newest")
        self.candidates.append(models[:, 0].tolist())
        losses[np.isin(who, self.silent)] = np.nan
        return losses
