import numpy as np
import pytest

from fielding.client.drift.two_sample import ClassShift
from fielding.errors import OptionError
from fielding.rng import stream
from tests.client.drift.batches import Drift, batch, simulated


def found(sample_test: ClassShift, drift: Drift, alpha: float = 0.05) -> float:
    return float((sample_test.p_values(*simulated(drift, 250)) < alpha).mean())


@pytest.mark.parametrize("deals", [0, 99])
def test_it_is_blind_to_the_label_mix(deals: int) -> None:
    assert 0.02 < found(ClassShift(deals=deals), "label") < 0.09


def test_within_labels_it_sees_looks_and_meanings() -> None:
    assert found(ClassShift(), "looks", 0.001) > 0.95
    assert found(ClassShift(), "swap", 0.001) > 0.95


def test_within_predictions_it_sees_looks_but_no_meanings() -> None:
    sample_test = ClassShift(within="predicted")

    assert found(sample_test, "looks", 0.001) > 0.95
    assert 0.02 < found(sample_test, "swap") < 0.09


def test_it_sees_shifts_that_cancel_over_classes() -> None:
    rng = stream(1, "cancel")
    labels = np.repeat([0, 1], 20)
    then = batch(labels=labels, features=rng.standard_normal((40, 1)))
    now = batch(labels=labels, features=rng.standard_normal((40, 1)) + np.where(labels == 0, 2.0, -2.0)[:, np.newaxis])

    assert ClassShift().p_values(then, now)[0] < 1e-4


def test_matched_and_drawn_p_values_agree() -> None:
    pair = simulated("none", 30)

    assert ClassShift().p_values(*pair) == pytest.approx(ClassShift(deals=499).p_values(*pair), abs=0.12)


def test_the_unit_of_a_feature_does_not_matter() -> None:
    reference, fresh = simulated("none", 5)
    scaled = [
        batch(labels=one.labels, features=one.features * np.array([1, 10, 100, 1, 1, 0.01]), sizes=one.sizes)
        for one in (reference, fresh)
    ]

    assert ClassShift().p_values(*scaled) == pytest.approx(ClassShift().p_values(reference, fresh), rel=1e-3)


def test_what_it_looks_within_must_be_known() -> None:
    with pytest.raises(OptionError, match="'label' or 'predicted'"):
        ClassShift(within="labels")  # type: ignore[arg-type]
