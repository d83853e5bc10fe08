import numpy as np
import pytest

from fielding.client.drift.pearson import p_values
from fielding.client.drift.predictions import Bbsd, ConfusionTest
from tests.client.drift.batches import batch, simulated


def counted(predicted: np.ndarray) -> np.ndarray:
    return np.bincount(predicted, minlength=4)[np.newaxis]


def test_bbsd_is_chi2_on_predicted_labels() -> None:
    reference, fresh = simulated("looks", 1)

    expected = p_values(counted(fresh.predicted), counted(reference.predicted))
    assert Bbsd().p_values(reference, fresh) == pytest.approx(expected)


def test_confusion_of_a_single_label_is_chi2_within_it() -> None:
    then = batch(labels=np.full(12, 2), predicted=np.repeat([2, 1], [10, 2]))
    now = batch(labels=np.full(8, 2), predicted=np.repeat([2, 1], [3, 5]))

    expected = p_values(np.array([[0, 5, 3, 0]]), np.array([[0, 2, 10, 0]]))
    assert ConfusionTest().p_values(then, now) == pytest.approx(expected)
    assert expected[0] < 0.1


def test_confusion_is_blind_to_the_label_mix_and_bbsd_is_not() -> None:
    reference, fresh = simulated("label", 300)

    assert (ConfusionTest().p_values(reference, fresh) < 0.05).mean() < 0.08
    assert (Bbsd().p_values(reference, fresh) < 0.05).mean() > 0.8


def test_confusion_sees_what_inputs_are_called_and_bbsd_does_not() -> None:
    reference, fresh = simulated("swap", 300)

    assert (ConfusionTest().p_values(reference, fresh) < 0.01).mean() > 0.95
    assert (Bbsd().p_values(reference, fresh) < 0.05).mean() < 0.08


def test_labels_that_one_side_lacks_add_nothing() -> None:
    then = batch(labels=np.repeat([0, 1], 6), predicted=np.repeat([0, 1], 6))
    now = batch(labels=np.repeat([2, 3], 6), predicted=np.repeat([0, 1], 6))

    assert ConfusionTest().p_values(then, now).tolist() == [1.0]


@pytest.mark.parametrize("lacking", ["then", "now", "both"])
def test_without_a_labelled_sample_there_is_no_evidence(lacking: str) -> None:
    labels = {"then": np.full(12, 2), "now": np.full(8, 2)}
    labels |= {name: np.full_like(labels[name], -1) for name in labels if lacking in (name, "both")}
    then = batch(labels=labels["then"], predicted=np.repeat([2, 1], [10, 2]))
    now = batch(labels=labels["now"], predicted=np.repeat([2, 1], [3, 5]))

    assert ConfusionTest().p_values(then, now).tolist() == [1.0]


def test_more_rows_than_a_chunk_are_judged_as_few() -> None:
    reference, fresh = simulated("looks", 1500, n=12, m=12)

    few = [one.rows(slice(0, 120), sizes=one.sizes[:10]) for one in (reference, fresh)]
    assert (ConfusionTest().p_values(reference, fresh)[:10] == ConfusionTest().p_values(*few)).all()
