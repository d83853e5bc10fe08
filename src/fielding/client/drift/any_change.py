"""Reports by the clock, whatever the data do: bounds to compare with, and schedules that reveal nothing."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Mask
from fielding.client.drift.drift_test import Evidence, check_number, check_whole, judged_in_chunks
from fielding.distance import TIE


@dataclass(frozen=True, slots=True, kw_only=True)
class FlexcflOriginal:
    """Drift is a change of the sorted label counts; which label has which count does not matter.

    The authors hand the counts to a Wasserstein distance as if they were samples. That compares the largest count now
    with the largest count then, the second with the second, and so on: labels that trade places go unnoticed, and more
    samples of the same mix count as drift. To repeat their results; :class:`~fielding.client.drift.Threshold` is what
    they meant. A client with a single label never drifts.

    Parameters
    ----------
    share
        How many counts must differ, as a share of the samples last reported; a difference within 1e-9 of it is not
        above it. The authors take the samples that the client began with, of which a drift test knows nothing here;
        it is the same where windows keep their size.

    Examples
    --------
    >>> evidence = Evidence(
    ...     reported=np.array([[9, 1], [9, 1]]),
    ...     current=np.array([[1, 9], [5, 5]]),
    ...     fresh=np.array([[0, 8], [0, 4]]),
    ...     age=np.array([1, 1]),
    ...     arrived=np.array([8, 4]),
    ... )
    >>> FlexcflOriginal().drifted(evidence).tolist()
    [False, True]
    """

    share: float = 0.2

    def __post_init__(self) -> None:
        check_number("share", self.share, low=0.0, high=2.0)

    @property
    def is_timed(self) -> bool:
        """Nothing changes by waiting."""
        return False

    def drifted(self, evidence: Evidence) -> Mask:
        """Return whose sorted counts differ by more than a share of the samples last reported."""
        return judged_in_chunks(evidence, self._is_far)

    def _is_far(self, evidence: Evidence) -> Mask:
        # A mean over labels above share * samples / labels is a sum above share * samples.
        profiles = (np.sort(counts, axis=1) for counts in (evidence.current, evidence.reported))
        distances = np.abs(np.subtract(*profiles)).sum(axis=1)
        has_choice = np.count_nonzero(evidence.current + evidence.reported, axis=1) > 1
        return np.asarray((distances > self.share * evidence.reported.sum(axis=1) + TIE) & has_choice)


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
