"""Losses and right answers by the scores of all classes."""

import numpy as np
import pytest

from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.head import score_samples


@pytest.mark.parametrize("trainer", ["numpy", "torch"])
def test_judging_scores_says_what_a_trainer_says(trainer: str) -> None:
    if trainer == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    one = trainer_for(ModelRequest(name="mlp", hidden=5, input_shape=(3,), n_classes=4, trainer=trainer))
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((50, 3)).astype(np.float32), rng.integers(0, 4, 50).astype(np.int32)
    model = 3.0 * one.initial_model(1)

    losses, right = score_samples(one.features(model, x)[1], y)

    wanted_losses, wanted_right = one.scores(model, x, y)
    assert losses == pytest.approx(wanted_losses, rel=1e-5, abs=1e-6)
    assert right.tolist() == wanted_right.tolist()


def test_of_equal_scores_the_lowest_class_counts() -> None:
    assert score_samples(np.zeros((2, 3), dtype=np.float32), np.array([0, 1], dtype=np.int32))[1].tolist() == [
        True,
        False,
    ]


def test_large_scores_have_finite_losses_and_what_is_not_finite_has_none() -> None:
    scores = np.array([[1e4, -1e4], [np.nan, 0.0], [np.inf, 0.0]], dtype=np.float32)

    losses, _ = score_samples(scores, np.array([1, 1, 0], dtype=np.int32))

    assert losses[0] == pytest.approx(2e4)
    assert np.isnan(losses[1:]).all()


def test_no_samples_have_no_losses() -> None:
    losses, right = score_samples(np.empty((0, 3), dtype=np.float32), np.empty(0, dtype=np.int32))

    assert losses.size == right.size == 0
