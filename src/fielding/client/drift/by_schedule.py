"""Reports by the clock, whatever the data do: bounds to compare with, and schedules that reveal nothing."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Mask
from fielding.client.drift.evidence import Evidence
from fielding.client.drift.options import check_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Periodic:
    """A report every so many rounds, as long as there are samples.

    Parameters
    ----------
    rounds
        Rounds between two reports, at least 1.

    Examples
    --------
    >>> ones = np.ones((2, 1), dtype=np.int64)
    >>> evidence = Evidence(
    ...     reported=ones, current=ones, fresh=ones, age=np.array([9, 10]), arrived=np.array([0, 0])
    ... )
    >>> Periodic(rounds=10).drifted(evidence).tolist()
    [False, True]
    """

    rounds: int = 10

    def __post_init__(self) -> None:
        check_whole("rounds", self.rounds)

    @property
    def is_timed(self) -> bool:
        """Waiting is all it takes."""
        return True

    def drifted(self, evidence: Evidence) -> Mask:
        """Return whose last report is old enough."""
        return np.asarray((evidence.age >= self.rounds) & evidence.comparable())


@dataclass(frozen=True, slots=True, kw_only=True)
class Always:
    """A report at every observation, as long as there are samples: the most that can be known."""

    @property
    def is_timed(self) -> bool:
        """Waiting is all it takes."""
        return True

    def drifted(self, evidence: Evidence) -> Mask:
        """Return everyone who has samples."""
        return evidence.comparable()


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """No report but the first, on going silent and on coming back: clusters see no drift."""

    @property
    def is_timed(self) -> bool:
        """Nothing changes by waiting."""
        return False

    def drifted(self, evidence: Evidence) -> Mask:
        """Return no one."""
        return np.zeros(evidence.n_clients, dtype=np.bool_)
