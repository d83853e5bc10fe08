"""The drift tests on samples, by name.

To add one, write a frozen dataclass with the verb of ``SampleTest`` (drift_test.py) and name it in
``fielding.config.parts``; ``tests/conformance/test_sample_tests.py`` then checks it with all the others.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Floats, Json, Mask, Vector
from fielding.client.drift import Always, AnyChange, DriftTest, Never, Periodic, Threshold
from fielding.client.drift.drift_test import Batch, SampleTest
from fielding.client.drift.pearson import p_values
from fielding.client.drift.predictions import Bbsd, ConfusionTest
from fielding.client.drift.two_sample import ClassShift, Mmd
from fielding.client.report import DRIFT_KINDS, UNEXPLAINED
from fielding.config.options import check_number, check_whole
from fielding.config.parts import Family
from fielding.distance import Metric
from fielding.errors import OptionError, unknown_name


def either(first: Vector, second: Vector) -> Vector:
    """Return p-values of "one of both moved": twice the smaller one, at most 1 (Bonferroni).

    Examples
    --------
    >>> either(np.array([0.01, 1.0]), np.array([0.5, 1.0])).tolist()
    [0.02, 1.0]
    """
    return np.asarray(np.minimum(1.0, 2.0 * np.minimum(first, second)))


def count_labels(batch: Batch) -> Counts:
    """Return how often each client has each label, shape ``(n_clients, n_classes)``; unknown ones are left out."""
    known = batch.labels >= 0
    n_clients = batch.sizes.size
    cells = batch.owners[known] * batch.n_classes + batch.labels[known]
    return np.bincount(cells, minlength=n_clients * batch.n_classes).reshape(n_clients, batch.n_classes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """Drift is a change of labels or of what they look like: of the label mix, or of mean features within classes.

    For representations that see both; :func:`either` of the two tests.
    """

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return how probable so large a change of either is, shape ``(n_clients,)``."""
        within = ClassShift().p_values(reference, fresh)
        return either(p_values(count_labels(fresh), count_labels(reference)), within)


SAMPLE_TESTS: Family[Callable[..., SampleTest]] = Family("sample test")
"""Every drift test on samples, by the name that configs and commands use."""

RIVER_TESTS = ("adwin", "hddm", "kswin", "page-hinkley")
"""Those that need the extra ``drift``."""


OF_ERRORS = ("error-rate", *RIVER_TESTS)
"""Those that look at how served models err; they need no shared model."""


def sample_test_named(name: str, options: Mapping[str, Json] | None = None) -> SampleTest:
    """Return the sample test of this name.

    Parameters
    ----------
    name
        A key of ``SAMPLE_TESTS``.
    options
        Values of the test's options; what is missing keeps its default.

    Examples
    --------
    >>> sample_test_named("mmd", {"deals": 199})
    Mmd(deals=199, limit=256, seed=0)
    >>> sample_test_named("mdd")
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: unknown sample test 'mdd'; did you mean 'mmd'? Known: ...
    """
    made: SampleTest = SAMPLE_TESTS.make(name, options)
    return made


# ---- kinds of drift ----------------------------------------------------------------------------------------------


KINDS = DRIFT_KINDS[:UNEXPLAINED]
"""The kinds of drift; what :func:`kinds_of` returns are positions in this list."""
NONE, LABEL, COVARIATE, CONCEPT, MIXED = range(len(KINDS))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Signs:
    """The p-values that tell kinds of drift apart, each of shape ``(n_clients,)``; 1 where nothing can be told.

    Parameters
    ----------
    label
        Of a change of the label mix.
    inputs
        Of a change of what the shared model sees, the label not regarded.
    conditional
        Of a change of what it sees given the label.
    looks
        Of a change of what it sees given what it takes the sample for. Inputs that are only called otherwise do not
        move it, and a new label mix hardly does, as far as the model is right. Ones without features.
    """

    label: Vector
    inputs: Vector
    conditional: Vector
    looks: Vector


def signs_of(reference: Batch, fresh: Batch) -> Signs:
    """Return the p-values of the tests that the measurements in docs/drift-tests.md recommend.

    Parameters
    ----------
    reference, fresh
        As for every ``SampleTest``; without features the counts of predictions speak
        alone, without labels the inputs.
    """
    return Signs(
        label=p_values(count_labels(fresh), count_labels(reference)),
        inputs=either(Bbsd().p_values(reference, fresh), Mmd().p_values(reference, fresh)),
        conditional=either(ConfusionTest().p_values(reference, fresh), ClassShift().p_values(reference, fresh)),
        looks=ClassShift(within="predicted").p_values(reference, fresh),
    )


def kinds_of(signs: Signs, *, alpha: float = 0.01) -> npt.NDArray[np.int8]:
    """Return the kind of drift of each client.

    * The label mix alone moved: *label*.
    * What a label looks like moved (conditional), inputs did not: *concept*, also where the label mix moved with it, as
      it does when two labels of different shares change places.
    * It moved, and so did the looks of what the model takes for one class, or inputs under an unmoved label mix:
      *covariate*. So is a move of inputs that neither labels nor conditionals explain.
    * Label mix, inputs and conditional all moved: *mixed*.
    * Without labels: *covariate* if looks moved, *label* if only the mix of inputs did.

    Parameters
    ----------
    alpha
        Level of each of the four tests.

    Returns
    -------
    Positions in ``KINDS``, shape ``(n_clients,)``.

    Examples
    --------
    >>> signs = Signs(
    ...     label=np.array([0.5, 0.0, 0.5, 0.5]),
    ...     inputs=np.array([0.5, 0.0, 0.0, 0.5]),
    ...     conditional=np.array([0.5, 0.5, 0.0, 0.0]),
    ...     looks=np.array([0.5, 0.5, 0.0, 0.5]),
    ... )
    >>> [KINDS[kind] for kind in kinds_of(signs)]
    ['none', 'label', 'covariate', 'concept']
    """
    check_number("alpha", alpha, low=0.0, high=1.0)
    label, inputs, conditional = signs.label < alpha, signs.inputs < alpha, signs.conditional < alpha
    looks = signs.looks < alpha
    is_labelled = (signs.label < 1.0) | (signs.conditional < 1.0)
    # The first that holds wins.
    rules = (
        (conditional & label & inputs, MIXED),
        (conditional & (looks | (inputs & ~label)), COVARIATE),
        (conditional, CONCEPT),
        (label, LABEL),
        (looks | (inputs & is_labelled), COVARIATE),
        (inputs, LABEL),
    )
    chosen = np.select([rule for rule, _ in rules], [kind for _, kind in rules], default=NONE)
    return np.asarray(chosen, dtype=np.int8)


# ---- when a client reports ---------------------------------------------------------------------------------------


Kinds = npt.NDArray[np.int8]
KINDS_ALPHA = 0.01
"""Level of the tests that tell kinds apart, unless drift itself is told at a higher one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """What some clients know of themselves now and at their last report; all of them have samples now and had then.

    Parameters
    ----------
    now, before
        Their representations, shape ``(n_clients, n_numbers)``.
    age
        Rounds since the last report, shape ``(n_clients,)``.
    n_now, n_fresh, n_before
        Samples that are visible, those of them that came since then, and samples of the report, same shape.
    reference, fresh
        Return the samples of the report, and those that came since, of some of the clients.
    newest, earlier
        Likewise of the last arrival, and of what came between the report and that.
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


class Judge(Protocol):
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

    def judged(self, comparison: Comparison) -> tuple[Mask, Kinds]:
        """Return who has something to report, and the kind of drift, shape ``(n_clients,)`` each; 0 for none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ByVector:
    """Compares representations as they are: any change, a threshold, or the clock alone.

    Parameters
    ----------
    drift_test
        Any that needs no label counts.
    metric
        The distance that a threshold is measured in.
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

    def judged(self, comparison: Comparison) -> tuple[Mask, Kinds]:
        """Return who drifted; of what kind is not known."""
        drifted = vectors_drifted(self.drift_test, comparison.now, comparison.before, comparison.age, self.metric)
        return drifted, np.zeros(drifted.size, dtype=np.int8)


@dataclass(frozen=True, slots=True, kw_only=True)
class BySamples:
    """Compares samples since the last report with those of the report, by a calibrated test.

    Errors of served models are compared among the samples since the report: the newest arrival with those before it.
    What came with the first window was never judged, and a report often changes the model.

    Parameters
    ----------
    test
        Gives p-values.
    alpha
        False alarms per test.
    least
        Fewer fresh samples are not tested.
    growth
        A window that grew by this factor is reported again, drift or not: what was said of few samples is worth little
        (docs/decisions/0008).
    needs_errors
        Whether the test looks at how served models err.
    """

    test: SampleTest
    alpha: float = 0.001
    least: int = 10
    growth: float = 2.0
    needs_errors: bool = False

    is_timed = False
    is_slow = True

    def __post_init__(self) -> None:
        _check_rule(self.alpha, self.least, self.growth)

    def judged(self, comparison: Comparison) -> tuple[Mask, Kinds]:
        """Return who drifted."""
        drifted = comparison.has_grown(self.growth)
        asked = np.flatnonzero((comparison.n_fresh >= self.least) & ~drifted)
        if asked.size:
            pair = comparison.served_pair(asked) if self.needs_errors else comparison.seen_pair(asked)
            drifted[asked] = self.test.p_values(*pair) < self.alpha
        return drifted, np.zeros(drifted.size, dtype=np.int8)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByKind:
    """Lets a client report what no correction can mend: looks or meanings that changed, or errors without a reason.

    A change of the label mix alone stays with the client, which corrects its model for it.

    Parameters
    ----------
    alpha
        False alarms per test of what a label looks like; a fifth of it for errors without a reason.
    least, growth
        As of :class:`BySamples`.
    errors
        The test on the errors of the served model: error-rate, or one of river's.
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

    def judged(self, comparison: Comparison) -> tuple[Mask, Kinds]:
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


def vectors_drifted(test: DriftTest, now: Floats, before: Floats, age: Counts, metric: Metric) -> Mask:
    """Apply a drift test that needs no counts to representations."""
    if isinstance(test, AnyChange):
        return np.asarray((now != before).any(axis=1))
    if isinstance(test, Threshold):
        far = [metric.between(one[None], other[None])[0, 0] for one, other in zip(now, before, strict=True)]
        return np.array(far) > test.eps
    if isinstance(test, Periodic):
        return np.asarray(age >= test.rounds)
    return np.full(age.size, isinstance(test, Always))
