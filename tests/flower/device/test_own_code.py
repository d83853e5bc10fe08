"""What users' own code gives, and how they are told when it cannot be used."""

import numpy as np
import pytest

from fielding.errors import InputError
from fielding.flower.device.own_code import checked_fitted, checked_scored, named_arrays, parameter_names
from fielding.flower.device.samples import Fitted, Scored

MODEL = {"weight": np.ones(2)}


def test_figures_may_be_arrays_of_one_number() -> None:
    scored = checked_scored(Scored(np.int64(4), np.array(3), np.float32(0.5)))  # type: ignore[arg-type]
    fitted = checked_fitted(Fitted(MODEL, 4.0, np.array([2.0])[0]))  # type: ignore[arg-type]
    assert (scored.n_test, scored.correct, scored.loss) == (4, 3, 0.5)
    assert (fitted.n_samples, fitted.loss, fitted.square_loss) == (4, 2.0, 4.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "evaluate gave None; return Scored"),
        (Scored(40, 41, 0.1), "correct = 41 and n_test = 40; give how many"),
        (Scored(40, 0.9, 0.1), "correct = 0.9 and n_test = 40; give how many"),  # type: ignore[arg-type]
        (Scored(40, -1, 0.1), "correct = -1"),
        (Scored(40, 3, None), "loss = None"),  # type: ignore[arg-type]
    ],
)
def test_a_test_that_cannot_be_is_told(given: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked_scored(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((MODEL, 3), "train gave .*; return Fitted"),
        (Fitted(MODEL, 0, 0.1), "n_samples = 0"),
        (Fitted(MODEL, 3, float("nan")), "loss = nan; give the mean loss"),
        (Fitted(MODEL, 3, "low"), "loss = 'low'"),  # type: ignore[arg-type]
        (Fitted(MODEL, 3, 0.1, float("inf")), "square_loss = inf"),
    ],
)
def test_a_training_that_cannot_be_is_told(given: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked_fitted(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "first_model gave None for a model; give arrays by name"),
        ({}, "first_model gave {} for a model"),
        ({"weight": "heavy"}, "'weight' in the model that first_model gave is 'heavy'; give an array of numbers"),
        ({"weight": [[1.0], None]}, "'weight' in the model that first_model gave is"),
    ],
)
def test_what_is_no_model_is_told(given: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        named_arrays(given, "first_model")


def test_torch_modules_and_their_tensors_are_models_also_where_gradients_are_kept() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed; run: pip install 'fielding[torch]'")
    net = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.BatchNorm1d(1))

    whole, trained = named_arrays(net, "train"), named_arrays(dict(net.named_parameters()), "train")

    assert whole["1.num_batches_tracked"].dtype == np.float32
    assert set(whole) - parameter_names(net, whole) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    np.testing.assert_array_equal(whole["0.weight"], trained["0.weight"])
    assert parameter_names(trained, trained) == set(trained)
