"""When a client reports again: drift detectors on representations, on samples, and on kinds of drift."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Floats, Mask
from fielding.client.drift import Always, AnyChange, DriftTest, Never, Periodic, Threshold
from fielding.client.drift.drift_test import Batch, SampleTest
from fielding.client.drift.predictions import ConfusionTest
from fielding.client.drift.sample_tests import NONE, OF_ERRORS, either, kinds_of, sample_test_named, signs_of
from fielding.client.drift.two_sample import ClassShift
from fielding.client.report import UNEXPLAINED
from fielding.config.options import check_number, check_whole
from fielding.distance import Metric
from fielding.errors import OptionError, unknown_name

Kinds = npt.NDArray[np.int8]
KINDS_ALPHA = 0.01  # level of the tests that tell kinds apart, unless drift itself is tested at a higher one


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """What some clients know of themselves now and at their last report; all of them have samples now and had then.

    Representations have shape ``(n_clients, n_numbers)``; ``age`` counts rounds since the last report; ``n_now``,
    ``n_fresh`` and ``n_before`` samples that are visible, that came since, and of the report. The functions return
    samples of some of the clients: of the report (``reference``), since then (``fresh``), of the last arrival
    (``newest``), and between the report and that (``earlier``).
    """

    now: Floats
    before: Floats
    age: Counts
    n_now: Counts
    n_fresh: Counts
    n_before: Counts
    reference: Callable[[Counts], Batch]
    fresh: Callable[[Counts], Batch]
    newest: Callable[[Counts], Batch]
    earlier: Callable[[Counts], Batch]

    def has_grown(self, growth: float) -> Mask:
        """Return whose window holds at least so many times the samples of the last report."""
        return np.asarray(self.n_now >= growth * self.n_before)

    def seen_pair(self, some: Counts) -> tuple[Batch, Batch]:
        """Return the samples of the last report of some of the clients, and those since."""
        return self.reference(some), self.fresh(some)

    def served_pair(self, some: Counts) -> tuple[Batch, Batch]:
        """Return the samples since the last report but the newest arrival, and that.

        Samples whose errors are not known (NaN) count as unlabelled, so that a test of errors leaves them out.
        """
        pair = []
        for batch in (self.earlier(some), self.newest(some)):
            is_unknown = np.isnan(batch.errors)
            labels, errors = np.where(is_unknown, -1, batch.labels), np.where(is_unknown, 0.0, batch.errors)
            pair.append(replace(batch, labels=labels, errors=errors))
        return pair[0], pair[1]


class DriftDetector(Protocol):
    """Says who drifted."""

    @property
    def is_timed(self) -> bool:
        """Whether the answer depends on the clock, so that clients without new samples are asked, too."""
        ...

    @property
    def needs_errors(self) -> bool:
        """Whether the errors of the served models are looked at."""
        ...

    @property
    def is_slow(self) -> bool:
        """Whether a window that still holds samples from before a drift may be taken for what comes after it."""
        ...

    def detect(self, comparison: Comparison) -> tuple[Mask, Kinds]:
        """Return who has something to report, and the kind of drift, shape ``(n_clients,)`` each; 0 for none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorDetector:
    """Compares representations as they are: any change, a threshold, or the clock alone.

    ``drift_test`` needs no label counts; a threshold is measured in ``metric``.
    """

    drift_test: DriftTest
    metric: Metric

    needs_errors = False
    is_slow = False

    def __post_init__(self) -> None:
        check_vector_test(self.drift_test)

    @property
    def is_timed(self) -> bool:
        """Whether the test goes by the clock."""
        return self.drift_test.is_timed

    def detect(self, comparison: Comparison) -> tuple[Mask, Kinds]:
        """Return who drifted; of what kind is not known."""
        drifted = compare_vectors(self.drift_test, comparison.now, comparison.before, comparison.age, self.metric)
        return drifted, np.zeros(drifted.size, dtype=np.int8)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleDetector:
    """Compares samples since the last report with those of the report, by a calibrated test.

    Errors of served models are compared among the samples since the report: the newest arrival with those before it.
    What came with the first window was never served a model, and a report often changes the model.

    ``alpha``: false alarms per test; ``least``: fewer fresh samples are not tested; ``growth``: a window that grew by
    this factor is reported again, drift or not: what was said of few samples is worth little (docs/decisions, 8).
    """

    test: SampleTest
    alpha: float = 0.003
    least: int = 10
    growth: float = 2.0
    needs_errors: bool = False

    is_timed = False
    is_slow = True

    def __post_init__(self) -> None:
        _check_rule(self.alpha, self.least, self.growth)

    def detect(self, comparison: Comparison) -> tuple[Mask, Kinds]:
        """Return who drifted."""
        drifted = comparison.has_grown(self.growth)
        asked = np.flatnonzero((comparison.n_fresh >= self.least) & ~drifted)
        if asked.size:
            pair = comparison.served_pair(asked) if self.needs_errors else comparison.seen_pair(asked)
            drifted[asked] = self.test.p_values(*pair) < self.alpha
        return drifted, np.zeros(drifted.size, dtype=np.int8)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindDetector:
    """Lets a client report what no correction can mend: looks or meanings that changed, or errors without a reason.

    A change of the label mix alone stays with the client, which corrects its model for it.

    ``alpha``: false alarms per test of what a label looks like; a fifth of it for errors without a reason. ``errors``:
    the test on the errors of the served model, error-rate or one of river's. The others as of :class:`SampleDetector`.
    """

    alpha: float = 0.005
    least: int = 10
    growth: float = 2.0
    errors: str = "error-rate"

    is_timed = False
    is_slow = True
    needs_errors = True

    def __post_init__(self) -> None:
        _check_rule(self.alpha, self.least, self.growth)
        if self.errors not in OF_ERRORS:
            raise unknown_name("test of errors", self.errors, OF_ERRORS)

    def detect(self, comparison: Comparison) -> tuple[Mask, Kinds]:
        """Return who drifted, and how."""
        drifted = comparison.has_grown(self.growth)
        kinds = np.full(drifted.size, NONE, dtype=np.int8)
        asked = np.flatnonzero((comparison.n_fresh >= self.least) & ~drifted)
        if not asked.size:
            return drifted, kinds
        then, now = comparison.seen_pair(asked)
        surprise = either(ConfusionTest().p_values(then, now), ClassShift().p_values(then, now))
        found = asked[surprise < self.alpha]
        drifted[found] = True
        if found.size:  # the other tests take longer: only for those who report anyway
            kinds[found] = kinds_of(signs_of(*comparison.seen_pair(found)), alpha=max(self.alpha, KINDS_ALPHA))
        rest = asked[surprise >= self.alpha]
        if rest.size:
            worse = sample_test_named(self.errors).p_values(*comparison.served_pair(rest)) < self.alpha / 5.0
            drifted[rest[worse]] = True
            kinds[rest[worse]] = UNEXPLAINED
        return drifted, kinds


def _check_rule(alpha: float, least: int, growth: float) -> None:
    check_number("alpha", alpha, low=0.0, high=1.0)
    check_whole("least", least)
    check_number("growth", growth, low=1.0, high=math.inf)


def check_vector_test(drift_test: DriftTest) -> None:
    """Raise if a test compares label counts, which vectors do not have."""
    if not isinstance(drift_test, (Always, AnyChange, Never, Periodic, Threshold)):
        raise OptionError(
            f"{type(drift_test).__name__} compares label counts, which this representation has not; "
            "take any-change, threshold, periodic, always or never"
        )


def compare_vectors(test: DriftTest, now: Floats, before: Floats, age: Counts, metric: Metric) -> Mask:
    """Apply a drift test that needs no counts to representations."""
    if isinstance(test, AnyChange):
        return np.asarray((now != before).any(axis=1))
    if isinstance(test, Threshold):
        far = [metric.between(one[None], other[None])[0, 0] for one, other in zip(now, before, strict=True)]
        return np.array(far) > test.eps
    if isinstance(test, Periodic):
        return np.asarray(age >= test.rounds)
    return np.full(age.size, isinstance(test, Always))
