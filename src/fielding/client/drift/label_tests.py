"""The drift tests on label counts: the paper's, thresholds, a calibrated one, and schedules that ignore the data."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fielding._typing import Mask
from fielding.client.drift.drift_test import Evidence, apply_in_chunks
from fielding.client.drift.pearson import excess_l1, p_values
from fielding.client.representation.label import shares_of
from fielding.config.options import check_number, check_whole
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
    ...     before=np.array([[1, 1], [1, 1]]),
    ...     age=np.array([1, 1]),
    ...     arrived=np.array([2, 1]),
    ...     is_mixed=np.array([False, False]),
    ... )
    >>> AnyChange().drifted(evidence).tolist()
    [False, True]
    """

    is_timed: ClassVar[bool] = False

    def drifted(self, evidence: Evidence) -> Mask:
        """Return whose shares differ at all."""
        return apply_in_chunks(evidence, shares_differ)


def shares_differ(evidence: Evidence) -> Mask:
    """Return whose shares now are not those last reported."""
    # Equal fractions are equal floats, since division rounds correctly: 1/3 and 2/6 do not differ.
    return np.asarray((shares_of(evidence.current) != shares_of(evidence.reported)).any(axis=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Drift is an L1 distance above a threshold between the shares now and those last reported.

    ``eps`` goes from 0 (nearly any change) to 2 (never); a distance within 1e-9 of it is not above it.
    """

    is_timed: ClassVar[bool] = False

    eps: float = 0.2

    def __post_init__(self) -> None:
        check_number("eps", self.eps, low=0.0, high=2.0)

    def drifted(self, evidence: Evidence) -> Mask:
        """Return whose shares lie further than ``eps`` from the reported ones."""
        return apply_in_chunks(evidence, self._is_far)

    def _is_far(self, evidence: Evidence) -> Mask:
        distances = np.abs(shares_of(evidence.current) - shares_of(evidence.reported)).sum(axis=1)
        return np.asarray(distances > self.eps + TIE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chi2:
    """Drift is a difference that sampling noise does not explain, between what is new and what was there before.

    What the window holds of the samples since something was noticed last is held against the window of that moment and
    all that came since and left: as long as nothing is noticed, what is known of before grows. One test per arrival. A
    window that was reported with samples from before the drift is reported once more when all of them have left it.

    Parameters
    ----------
    alpha
        Share of tests that fire without drift, 0 (none ever) to 1.
    delta_min
        Smallest L1 distance beyond noise that is worth a report, 0 to 2.
    min_fresh
        No test before so many samples arrived since the last report, at least 1.
    growth
        Report also, drift or not, once the window holds so many times the samples of the last report and other shares:
        a report of one sample has nothing that a test could hold on to. At least 1; infinity for never.
    """

    is_timed: ClassVar[bool] = False

    alpha: float = 0.003
    delta_min: float = 0.0
    min_fresh: int = 10
    growth: float = 2.0

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, low=0.0, high=1.0)
        check_number("delta_min", self.delta_min, low=0.0, high=2.0)
        check_whole("min_fresh", self.min_fresh)
        check_number("growth", self.growth, low=1.0, high=math.inf)

    @property
    def level(self) -> float:
        """Share of clients that report by chance when data arrive, for the roll call."""
        return self.alpha

    def drifted(self, evidence: Evidence) -> Mask:
        """Return whose new samples differ from those before by more than noise."""
        return apply_in_chunks(evidence, self._differs_beyond_noise)

    def _differs_beyond_noise(self, evidence: Evidence) -> Mask:
        n_fresh, n_current = evidence.fresh.sum(axis=1), evidence.current.sum(axis=1)
        has_enough = (evidence.arrived > 0) & (n_fresh >= self.min_fresh)
        has_grown = (evidence.arrived > 0) & (n_current >= self.growth * evidence.reported.sum(axis=1))
        has_turned_over = evidence.is_mixed & has_enough & (n_fresh == n_current)
        drifted = has_grown | has_turned_over
        stale = np.flatnonzero(drifted)
        drifted[stale] = shares_differ(evidence.rows(stale))
        tested = np.flatnonzero(has_enough & ~drifted)
        fresh, before = evidence.fresh[tested], evidence.before[tested]
        if self.delta_min > 0.0:
            large = excess_l1(fresh, before) >= self.delta_min
            tested, fresh, before = tested[large], fresh[large], before[large]
        drifted[tested] = p_values(fresh, before) < self.alpha
        return np.asarray(drifted)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlexcflOriginal:
    """Drift is a change of the sorted label counts; which label has which count does not matter.

    The authors hand the counts to a Wasserstein distance as if they were samples. That compares the largest count now
    with the largest count then, the second with the second, and so on: labels that trade places go unnoticed, and more
    samples of the same mix count as drift. To repeat their results; :class:`Threshold` is what they meant. A client
    with a single label never drifts.

    Parameters
    ----------
    share
        How many counts must differ, as a share of the samples last reported; a difference within 1e-9 of it is not
        above it. The authors take the samples that the client began with, of which a drift test knows nothing here;
        it is the same where windows keep their size.
    """

    is_timed: ClassVar[bool] = False

    share: float = 0.2

    def __post_init__(self) -> None:
        check_number("share", self.share, low=0.0, high=2.0)

    def drifted(self, evidence: Evidence) -> Mask:
        """Return whose sorted counts differ by more than a share of the samples last reported."""
        return apply_in_chunks(evidence, self._is_far)

    def _is_far(self, evidence: Evidence) -> Mask:
        # A mean over labels above share * samples / labels is a sum above share * samples.
        profiles = (np.sort(counts, axis=1) for counts in (evidence.current, evidence.reported))
        distances = np.abs(np.subtract(*profiles)).sum(axis=1)
        has_choice = np.count_nonzero(evidence.current + evidence.reported, axis=1) > 1
        return np.asarray((distances > self.share * evidence.reported.sum(axis=1) + TIE) & has_choice)


@dataclass(frozen=True, slots=True, kw_only=True)
class Periodic:
    """A report every so many rounds, as long as there are samples: a schedule that reveals nothing of the data.

    ``rounds`` between two reports: at least 1.
    """

    is_timed: ClassVar[bool] = True

    rounds: int = 10

    def __post_init__(self) -> None:
        check_whole("rounds", self.rounds)

    def drifted(self, evidence: Evidence) -> Mask:
        """Return whose last report is old enough."""
        return np.asarray((evidence.age >= self.rounds) & evidence.comparable())


@dataclass(frozen=True, slots=True, kw_only=True)
class AlwaysReport:
    """A report at every observation, as long as there are samples: the most that can be known."""

    is_timed: ClassVar[bool] = True

    def drifted(self, evidence: Evidence) -> Mask:
        """Return all clients that have samples."""
        return evidence.comparable()


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverReport:
    """No report but the first, on going silent and on coming back: clusters see no drift."""

    is_timed: ClassVar[bool] = False

    def drifted(self, evidence: Evidence) -> Mask:
        """Return no client."""
        return np.zeros(evidence.n_clients, dtype=np.bool_)
