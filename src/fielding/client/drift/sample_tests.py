"""The drift tests on samples, by name.

To add one, write a frozen dataclass with the verb of ``SampleTest`` (drift_test.py) and name it in
``fielding.config.parts``; ``tests/conformance/test_sample_tests.py`` then checks it with all the others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Json, Vector
from fielding.client.drift.drift_test import Batch, SampleTest
from fielding.client.drift.pearson import p_values
from fielding.client.drift.predictions import Bbsd, ConfusionTest
from fielding.client.drift.two_sample import ClassShift, Mmd
from fielding.client.report import DRIFT_KINDS, UNEXPLAINED
from fielding.config.options import check_number
from fielding.config.parts import Family


def either(first: Vector, second: Vector) -> Vector:
    """Return p-values of "one of both moved": twice the smaller one, at most 1 (Bonferroni)."""
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

RIVER_TESTS = ("adwin", "hddm", "kswin", "page-hinkley")  # those that need the extra drift


OF_ERRORS = ("error-rate", *RIVER_TESTS)  # those that look at how served models err; they need no shared model


def sample_test_named(name: str, options: Mapping[str, Json] | None = None) -> SampleTest:
    """Return the sample test of this name.

    Examples
    --------
    >>> sample_test_named("mmd", {"deals": 199})
    Mmd(deals=199, limit=256, seed=0)
    """
    made: SampleTest = SAMPLE_TESTS.make(name, options)
    return made


# ---- kinds of drift ----------------------------------------------------------------------------------------------


KINDS = DRIFT_KINDS[:UNEXPLAINED]  # the kinds of drift; what kinds_of returns are positions in this list
NONE, LABEL, COVARIATE, CONCEPT, MIXED = range(len(KINDS))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Signs:
    """The p-values that tell kinds of drift apart, each of shape ``(n_clients,)``; 1 where nothing can be told.

    Of a change of the label mix; of what the shared model sees, the label not regarded; of what it sees given the
    label; and of what it sees given what it takes the sample for (looks). Inputs that are only called otherwise do not
    move the last, and a new label mix hardly does, as far as the model is right. Ones without features.
    """

    label: Vector
    inputs: Vector
    conditional: Vector
    looks: Vector


def signs_of(reference: Batch, fresh: Batch) -> Signs:
    """Return the p-values of the tests that the measurements in docs/drift-tests.md recommend.

    Without features the counts of predictions speak alone, without labels the inputs.
    """
    return Signs(
        label=p_values(count_labels(fresh), count_labels(reference)),
        inputs=either(Bbsd().p_values(reference, fresh), Mmd().p_values(reference, fresh)),
        conditional=either(ConfusionTest().p_values(reference, fresh), ClassShift().p_values(reference, fresh)),
        looks=ClassShift(within="predicted").p_values(reference, fresh),
    )


def kinds_of(signs: Signs, *, alpha: float = 0.01) -> npt.NDArray[np.int8]:
    """Return the kind of drift of each client, positions in ``KINDS``; ``alpha``: level of each of the four tests.

    * The label mix alone moved: *label*.
    * What a label looks like moved (conditional), inputs did not: *concept*, also where the label mix moved with it, as
      it does when two labels of different shares change places.
    * It moved, and so did the looks of what the model takes for one class, or inputs under an unmoved label mix:
      *covariate*. So is a move of inputs that neither labels nor conditionals explain.
    * Label mix, inputs and conditional all moved: *mixed*.
    * Without labels: *covariate* if looks moved, *label* if only the mix of inputs did.

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
