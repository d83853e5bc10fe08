"""Gradients in NumPy against differences of the loss."""

from functools import partial

import numpy as np
import pytest

from fielding.training.numpy_models import Dense, StackedNetwork, from_work_order, to_work_order
from tests.training.by_differences import mean_loss, slopes
from tests.training.jobs import samples


@pytest.mark.parametrize("n_classes", [1, 2, 5])
@pytest.mark.parametrize("n_hidden", [0, 1, 4])
def test_gradients_are_the_slopes_of_the_loss(n_hidden: int, n_classes: int) -> None:
    dense = Dense(n_inputs=3, n_hidden=n_hidden, n_classes=n_classes)
    x, y = samples((3,), n_classes, n=14)
    models = np.stack([dense.initial_model(1), dense.initial_model(2)])
    network = StackedNetwork(dense, n_participants=2, batch_size=7)
    network.weights[:] = to_work_order(dense, models)
    losses = np.empty((2, 7), dtype=np.float32)

    network.backpropagate(
        x.reshape(2, 7, 3), y.reshape(2, 7), scale=np.full((2, 1), 1 / 7, dtype=np.float32), losses=losses
    )

    found = from_work_order(dense, network.gradient)
    for row in range(2):
        x_row, y_row = x.astype(np.float64).reshape(2, 7, 3)[row], y.reshape(2, 7)[row]
        model, loss = models[row].astype(np.float64), partial(mean_loss, dense, x=x_row, y=y_row)
        assert np.abs(found[row] - slopes(loss, model)).max() < 1e-6
        assert losses[row].mean() == pytest.approx(loss(model), abs=1e-6)


def test_scores_of_any_size_give_a_finite_loss() -> None:
    dense = Dense(n_inputs=1, n_hidden=0, n_classes=2)
    network = StackedNetwork(dense, n_participants=1, batch_size=1)
    network.weights[:] = np.array([[1e30, -1e30, 0.0, 0.0]], dtype=np.float32)
    losses = np.empty((1, 1), dtype=np.float32)

    network.backpropagate(
        np.ones((1, 1, 1), dtype=np.float32),
        np.array([[1]], dtype=np.int32),
        scale=np.ones((1, 1), dtype=np.float32),
        losses=losses,
    )

    assert losses[0, 0] == pytest.approx(2e30)
    assert network.gradient[0].tolist() == [1.0, -1.0, 1.0, -1.0]


@pytest.mark.parametrize("n_hidden", [0, 2])
def test_work_order_can_be_undone(n_hidden: int) -> None:
    dense = Dense(n_inputs=3, n_hidden=n_hidden, n_classes=2)
    models = np.arange(2 * dense.layout.size, dtype=np.float32).reshape(2, -1)

    turned = to_work_order(dense, models)

    assert np.array_equal(from_work_order(dense, turned), models)
    if n_hidden:
        assert turned[0, :6].tolist() == [0, 3, 1, 4, 2, 5]
