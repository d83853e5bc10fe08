import numpy as np
import pytest

from fielding.client.drift.drift_test import batch_of, pair_clients
from fielding.client.representation.representation import Seen
from fielding.errors import InputError
from tests.client.drift.batches import batch, simulated


def test_the_samples_of_a_client_stand_together() -> None:
    reference, _ = simulated("none", 3, m=2)

    assert reference.owners.tolist() == [0, 0, 1, 1, 2, 2]
    assert [(one.start, one.stop) for one in reference.clients()] == [(0, 2), (2, 4), (4, 6)]


def test_only_clients_with_samples_on_both_sides_are_paired() -> None:
    first = batch(labels=np.array([0, 1, 2]), sizes=np.array([1, 0, 2]))
    second = batch(labels=np.array([0, 1, 2]), sizes=np.array([0, 1, 2]))

    assert [client for client, _, _ in pair_clients(first, second)] == [2]


def test_lengths_that_differ_are_refused() -> None:
    with pytest.raises(InputError, match="same number of each"):
        batch(labels=np.array([0, 1]), sizes=np.array([3]))


@pytest.mark.parametrize("label", [-2, 4])
def test_labels_outside_the_class_list_are_refused(label: int) -> None:
    with pytest.raises(InputError, match=r"labels go from .* below 4"):
        batch(labels=np.array([label]))


def test_given_errors_take_the_place_of_those_of_the_shared_model() -> None:
    scores = np.eye(2, dtype=np.float32)
    seen = Seen(labels=np.array([0, 0]), features=scores, scores=scores, sizes=np.array([1, 1]))

    assert batch_of(seen).errors.tolist() == [0.0, 1.0]
    assert batch_of(seen, errors=np.array([1.0, 0.0])).errors.tolist() == [1.0, 0.0]
