"""Tensors and first weights of the dense models."""

from math import sqrt

import numpy as np
import pytest

from fielding.errors import OptionError
from fielding.training.numpy_models import Dense

MLP = Dense(n_inputs=4, n_hidden=3, n_classes=2)
SOFTMAX = Dense(n_inputs=4, n_hidden=0, n_classes=2)


def test_a_network_has_the_tensors_of_two_linear_layers() -> None:
    assert dict(zip(MLP.layout.names, MLP.layout.shapes, strict=True)) == {
        "0.weight": (3, 4),
        "0.bias": (3,),
        "2.weight": (2, 3),
        "2.bias": (2,),
    }


def test_softmax_regression_has_the_tensors_of_one_linear_layer() -> None:
    assert dict(zip(SOFTMAX.layout.names, SOFTMAX.layout.shapes, strict=True)) == {"weight": (2, 4), "bias": (2,)}


@pytest.mark.parametrize("dense", [MLP, SOFTMAX], ids=["mlp", "softmax"])
def test_every_number_is_a_parameter(dense: Dense) -> None:
    assert dense.layout.parameter_size == dense.layout.size


def test_first_weights_fill_the_range_that_the_inputs_of_their_layer_allow() -> None:
    tensors = Dense(n_inputs=100, n_hidden=400, n_classes=50).layout.tensors(
        Dense(n_inputs=100, n_hidden=400, n_classes=50).initial_model(3)
    )

    for name, fan in (("0.weight", 100), ("0.bias", 100), ("2.weight", 400), ("2.bias", 400)):
        largest = np.abs(tensors[name]).max() * sqrt(fan)
        assert 0.8 < largest <= 1.0 + 1e-6
        assert abs(tensors[name].mean()) * sqrt(fan) < 0.2


def test_the_seed_decides_the_first_weights() -> None:
    assert np.array_equal(MLP.initial_model(1), MLP.initial_model(1))
    assert not np.array_equal(MLP.initial_model(1), MLP.initial_model(2))
    assert MLP.initial_model(1).dtype == np.float32


@pytest.mark.parametrize("wrong", [{"n_inputs": 0}, {"n_hidden": -1}, {"n_classes": 0}, {"n_hidden": 2.5}])
def test_impossible_sizes_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="give a whole number of at least"):
        Dense(**{"n_inputs": 4, "n_hidden": 3, "n_classes": 2, **wrong})
