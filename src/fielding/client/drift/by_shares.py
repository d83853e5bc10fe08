"""Drift as a distance between the shares now and the shares last reported, blind to sampling noise."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Mask
from fielding.client.drift.evidence import Evidence, judged_in_chunks
from fielding.client.drift.options import check_number
from fielding.client.representation.label import shares_of
from fielding.distance import TIE


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyChange:
    """Drift is any difference between the shares now and those last reported (the paper's).

    Examples
    --------
    >>> evidence = Evidence(
    ...     reported=np.array([[1, 1], [1, 1]]),
    ...     current=np.array([[2, 2], [2, 1]]),
    ...     fresh=np.array([[1, 1], [1, 0]]),
    ...     age=np.array([1, 1]),
    ...     arrived=np.array([2, 1]),
    ... )
    >>> AnyChange().drifted(evidence).tolist()
    [False, True]
    """

    @property
    def is_timed(self) -> bool:
        """Nothing changes by waiting."""
        return False

    def drifted(self, evidence: Evidence) -> Mask:
        """Return whose shares differ at all."""
        return judged_in_chunks(evidence, shares_differ)


def shares_differ(evidence: Evidence) -> Mask:
    """Return whose shares now are not those last reported."""
    # Equal fractions are equal floats, since division rounds correctly: 1/3 and 2/6 do not differ.
    return np.asarray((shares_of(evidence.current) != shares_of(evidence.reported)).any(axis=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Drift is an L1 distance above a threshold between the shares now and those last reported.

    Parameters
    ----------
    eps
        The threshold, from 0 (nearly any change) to 2 (never); a distance within 1e-9 of it is not above it.

    Examples
    --------
    >>> evidence = Evidence(
    ...     reported=np.array([[5, 5], [5, 5]]),
    ...     current=np.array([[6, 4], [7, 3]]),
    ...     fresh=np.array([[1, 0], [2, 0]]),
    ...     age=np.array([1, 1]),
    ...     arrived=np.array([1, 2]),
    ... )
    >>> Threshold(eps=0.2).drifted(evidence).tolist()
    [False, True]
    """

    eps: float = 0.2

    def __post_init__(self) -> None:
        check_number("eps", self.eps, low=0.0, high=2.0)

    @property
    def is_timed(self) -> bool:
        """Nothing changes by waiting."""
        return False

    def drifted(self, evidence: Evidence) -> Mask:
        """Return whose shares lie further than ``eps`` from the reported ones."""
        return judged_in_chunks(evidence, self._is_far)

    def _is_far(self, evidence: Evidence) -> Mask:
        distances = np.abs(shares_of(evidence.current) - shares_of(evidence.reported)).sum(axis=1)
        return np.asarray(distances > self.eps + TIE)
