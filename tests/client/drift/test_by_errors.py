import numpy as np
import pytest

from fielding.client.drift.drift_test import Batch
from fielding.client.drift.predictions import ErrorRate
from fielding.errors import InputError
from fielding.rng import stream
from tests.client.drift.batches import batch


def served(errors: np.ndarray) -> Batch:
    """Return a batch with the errors of a client in each row."""
    labels, sizes = np.zeros(errors.size, dtype=np.int64), np.full(len(errors), errors.shape[1])
    return batch(labels=labels, errors=errors.ravel().astype(np.float64), sizes=sizes)


def test_it_is_fishers_exact_test() -> None:
    from scipy.stats import fisher_exact

    then, now = np.repeat([1, 0], [4, 26])[np.newaxis], np.repeat([1, 0], [7, 8])[np.newaxis]

    expected = fisher_exact(np.array([[7, 8], [4, 26]]), alternative="greater").pvalue
    assert ErrorRate().p_values(served(then), served(now)) == pytest.approx(np.array([expected]))


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5])
def test_false_alarms_stay_below_the_level(rate: float) -> None:
    rng = stream(1, "errors")
    pair = served(rng.random((2000, 100)) < rate), served(rng.random((2000, 40)) < rate)

    answers = ErrorRate().p_values(*pair)

    assert (answers < 0.05).mean() < 0.06
    assert (answers < 0.3).mean() > 0.1


def test_a_model_that_gets_better_is_no_drift() -> None:
    assert ErrorRate().p_values(served(np.ones((1, 30))), served(np.zeros((1, 30)))).tolist() == [1.0]


def test_unlabelled_samples_are_left_out() -> None:
    then = served(np.zeros((1, 20)))
    now = batch(labels=np.repeat([0, -1], 5), errors=np.repeat([0.0, 1.0], 5))

    assert ErrorRate().p_values(then, now).tolist() == [1.0]


def test_losses_are_refused() -> None:
    with pytest.raises(InputError, match="page-hinkley"):
        ErrorRate().p_values(served(np.zeros((1, 3))), served(np.full((1, 3), 0.7)))
