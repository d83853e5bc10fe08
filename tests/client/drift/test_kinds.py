from dataclasses import replace

import numpy as np
import pytest

from fielding.client.drift.sample_tests import KINDS, Signs, count_labels, kinds_of, signs_of
from fielding.errors import OptionError
from tests.client.drift.batches import Drift, batch, simulated


def kind(*, label: float = 0.5, inputs: float = 0.5, conditional: float = 0.5, looks: float = 0.5) -> str:
    one = [np.array([value]) for value in (label, inputs, conditional, looks)]
    return KINDS[kinds_of(Signs(label=one[0], inputs=one[1], conditional=one[2], looks=one[3]))[0]]


def test_kinds_follow_from_what_moved() -> None:
    assert kind() == "none"
    assert kind(label=0.0) == "label"
    assert kind(label=0.0, inputs=0.0) == "label"
    assert kind(conditional=0.0) == "concept"
    assert kind(conditional=0.0, label=0.0) == "concept"
    assert kind(conditional=0.0, looks=0.0) == "covariate"
    assert kind(conditional=0.0, inputs=0.0) == "covariate"
    assert kind(conditional=0.0, inputs=0.0, label=0.0) == "mixed"
    assert kind(inputs=0.0) == "covariate"


def test_without_labels_looks_tell_inputs_from_their_mix() -> None:
    assert kind(label=1.0, conditional=1.0, inputs=0.0) == "label"
    assert kind(label=1.0, conditional=1.0, inputs=0.0, looks=0.0) == "covariate"
    assert kind(label=1.0, conditional=1.0) == "none"


def test_a_level_that_makes_no_sense_is_refused() -> None:
    ones = np.ones(1)
    with pytest.raises(OptionError, match="alpha"):
        kinds_of(Signs(label=ones, inputs=ones, conditional=ones, looks=ones), alpha=2.0)


@pytest.mark.parametrize(
    ("drift", "said"), [("none", "none"), ("label", "label"), ("looks", "covariate"), ("swap", "concept")]
)
def test_simulated_drift_is_called_by_its_name(drift: Drift, said: str) -> None:
    kinds = kinds_of(signs_of(*simulated(drift, 80)))

    assert (kinds == KINDS.index(said)).mean() > 0.75


def test_without_features_counts_tell_the_kinds() -> None:
    for drift, said in (("label", "label"), ("looks", "covariate"), ("swap", "concept")):
        reference, fresh = (
            replace(one, features=one.features[:, :0])
            for one in simulated(drift, 80)  # type: ignore[arg-type]
        )

        assert (kinds_of(signs_of(reference, fresh)) == KINDS.index(said)).mean() > 0.75


def test_without_labels_looks_are_still_seen() -> None:
    reference, fresh = (replace(one, labels=np.full(one.labels.size, -1)) for one in simulated("looks", 40))

    assert (kinds_of(signs_of(reference, fresh)) == KINDS.index("covariate")).mean() > 0.9


def test_unknown_labels_are_not_counted() -> None:
    assert count_labels(batch(labels=np.array([3, -1, 3, 0]))).tolist() == [[1, 0, 0, 2]]
