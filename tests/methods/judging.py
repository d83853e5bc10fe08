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

    Clients that are not ``fresh`` did not get samples, and those that are ``silent`` do not answer.
    """

    def __init__(self, suits: Sequence[float]) -> None:
        self.suits = np.array(suits, dtype=np.float64)
        self.client_ids = tuple(range(self.suits.size))
        self.fresh_ones: Mask = np.ones(self.suits.size, dtype=np.bool_)
        self.silent: list[int] = []
        self.interval = 0
        self.asked: list[list[int]] = []
        self.candidates: list[list[float]] = []

    @property
    def api(self) -> Clients:
        return cast(Clients, self)

    def fresh(self) -> Mask:
        return self.fresh_ones

    def draws(self, _purpose: str, who: Counts) -> Counts:
        return np.asarray(who, dtype=np.uint64)

    def losses(self, who: Counts, models: Models, *, blocks: Sequence[Counts], corrected: bool = False) -> Matrix:
        assert corrected
        assert [block.tolist() for block in blocks] == [[self.interval]] * who.size, "only what just came"
        losses = np.abs(self.suits[who][:, np.newaxis] - models[:, 0])
        self.asked.append(who.tolist())
        self.candidates.append(models[:, 0].tolist())
        losses[np.isin(who, self.silent)] = np.nan
        return losses
