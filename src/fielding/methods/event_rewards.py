"""What an event brought, told from the training loss of participants: a reward that costs nothing."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fielding._typing import Json
from fielding.federation.clients import Updates

MOST_ROUNDS = 50
"""Rounds on each side of an event that count at most."""
LEAST_LOSS = 1e-6
"""Losses below this are as good as none."""


class EventRewards:
    """Keeps the mean loss of each round since the event before the last one.

    The reward of an event is the logarithm of the loss before over the loss after it: by which share training got
    better from the rounds before the event to those between it and the next, over equally many rounds on both sides. A
    ratio, since losses fall while training goes on; what every event brings alike is the trigger's to subtract.
    """

    def __init__(self) -> None:
        self._before: list[float] = []
        self._after: list[float] = []

    def learn(self, updates: Updates) -> None:
        """Note how a round went; a round without answers says nothing."""
        loss = float(np.mean(updates.loss)) if updates.loss.size else math.nan
        if math.isfinite(loss) and len(self._after) < MOST_ROUNDS:
            self._after.append(loss)

    def close(self) -> float | None:
        """End the stretch of rounds since the last event and return what that event brought; None if nobody knows.

        Examples
        --------
        >>> rewards = EventRewards()
        >>> rewards._before, rewards._after = [9.0, 2.0], [1.0]
        >>> round(rewards.close(), 3)  # log(2 / 1)
        0.693
        """
        n_rounds = min(len(self._before), len(self._after))
        gain = _log_mean(self._before[-n_rounds:]) - _log_mean(self._after[:n_rounds]) if n_rounds else None
        if self._after:
            self._before, self._after = self._after, []
        return gain

    def record(self) -> Json:
        """Return the state, as JSON can hold it."""
        return [list(self._before), list(self._after)]

    @classmethod
    def from_record(cls, values: Mapping[str, Json], key: str) -> "EventRewards":
        """Return the state that was written down under a key; a blank one if there is none."""
        rewards, stored = cls(), values.get(key)
        if isinstance(stored, list) and len(stored) == 2:
            rewards._before, rewards._after = (_losses(side) for side in stored)
        return rewards


def _losses(side: Json) -> list[float]:
    return [float(str(loss)) for loss in side] if isinstance(side, list) else []


def _log_mean(losses: Sequence[float]) -> float:
    return math.log(max(LEAST_LOSS, math.fsum(losses) / len(losses)))
