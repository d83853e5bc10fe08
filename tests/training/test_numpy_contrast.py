"""The contrastive part of the loss in NumPy against differences of the loss, and where it must be nothing."""

from dataclasses import replace

import numpy as np
import pytest

from fielding._typing import Features, Models
from fielding.errors import OptionError
from fielding.training.numpy_models import (
    Dense,
    StackedContrast,
    StackedNetwork,
    from_work_order,
    hidden_contrast,
    reference_layers,
    to_work_order,
)
from fielding.training.numpy_trainer import NumpyTrainer
from fielding.training.trainer import Contrast, LocalWork, Sgd
from tests.training.by_differences import Double, contrastive_loss, cosines, features, slopes
from tests.training.jobs import parts_of, samples, some_contrast, work_of

DENSE = Dense(n_inputs=4, n_hidden=5, n_classes=3)
TRAINER = NumpyTrainer(DENSE)
POOL = samples((4,), 3)


def doubled(x: Features) -> Double:
    return x.astype(np.float64)


def term_slopes(work: LocalWork, contrast: Contrast, model: Double, x: Double) -> Double:
    """Return the gradient of the first participant's mean term by differences."""
    start, previous = (
        features(DENSE, other.astype(np.float64), x) for other in (work.models[work.start[0]], contrast.previous[0])
    )

    def term(at: Double) -> float:
        return contrast.mu * contrastive_loss((features(DENSE, at, x), start, previous), contrast.temperature)

    return slopes(term, model)


def gradients(work: LocalWork, contrast: Contrast | None, models: Models, x: Features) -> Models:
    """Return the gradient of each participant's mean loss at models that are not those it started from."""
    n_participants, _, batch_size = work.draws.shape
    term = None if contrast is None else StackedContrast(DENSE, work, contrast)
    network = StackedNetwork(DENSE, n_participants=n_participants, batch_size=batch_size, contrast=term)
    network.weights[:] = to_work_order(DENSE, models)
    scale = np.full((n_participants, 1), 1 / batch_size, dtype=np.float32)
    y = np.zeros((n_participants, batch_size), dtype=np.int32)
    network.backpropagate(x, y, scale=scale, losses=np.empty(y.shape, dtype=np.float32))
    return from_work_order(DENSE, network.gradient)


def elsewhere(work: LocalWork) -> Models:
    """Return models near those that participants start from."""
    noise = np.random.default_rng(3).normal(scale=0.3, size=(work.start.size, DENSE.layout.size))
    return (work.models[work.start] + noise).astype(np.float32)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 3.0])
def test_gradients_are_the_slopes_of_the_loss(temperature: float) -> None:
    work = work_of(TRAINER, POOL, size=(2, 1, 7))
    contrast, models = some_contrast(work, mu=1.7, temperature=temperature), elsewhere(work)
    x = POOL[0][:14].reshape(2, 7, 4)

    found = gradients(work, contrast, models, x) - gradients(work, None, models, x)

    for row in range(2):
        rows = slice(row, row + 1)
        wanted = term_slopes(work.part(rows), contrast.part(rows), models[row].astype(np.float64), doubled(x[row]))
        assert np.abs(wanted).max() > 0.02  # there is something to find
        assert np.abs(found[row] - wanted).max() < 2e-6


def gradient_by_hand(active: tuple[float, float]) -> Models:
    """Return the gradient of two activations, with mu 1, temperature 1, start (1, 0) and previous (0, 1)."""
    dense = Dense(n_inputs=1, n_hidden=2, n_classes=1)
    start, previous = (np.array([[*hidden, 0, 0, 0, 0, 0]], dtype=np.float32) for hidden in ((1, 0), (0, 1)))
    contrast = Contrast(mu=1.0, temperature=1.0, previous=previous, has_previous=np.array([True]))
    work = replace(work_of(TRAINER, POOL, size=(1, 1, 1)), models=start)
    x, scale = np.ones((1, 1, 1), dtype=np.float32), np.ones((1, 1), dtype=np.float32)
    return StackedContrast(dense, work, contrast).gradient(x, np.array([[active]], dtype=np.float32), scale=scale)[0, 0]


def test_the_term_asks_for_the_direction_of_the_start_and_away_from_the_previous() -> None:
    """By hand: two hidden units, features (1, 1), start (1, 0), previous (0, 1), temperature 1, mu 1.

    Both cosines are 1 / sqrt(2), so half of the share is the previous model's; the gradient of the first cosine is
    (1, -1) / (2 sqrt(2)) and that of the second its opposite, so the term's is (-1, 1) / (2 sqrt(2)).
    """
    found = gradient_by_hand(active=(1.0, 1.0))

    assert np.allclose(found, np.array([-1, 1]) / (2 * np.sqrt(2)))


@pytest.mark.parametrize("size", [0.0, 1e-9])
def test_activations_that_count_as_zero_get_no_gradient(size: float) -> None:
    """Whether or not ReLU would stop it anyway."""
    assert gradient_by_hand(active=(size, size)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("which", ["trained", "start", "previous", "all"])
def test_features_that_are_all_zero_have_a_cosine_and_a_gradient_of_zero(which: str) -> None:
    work = work_of(TRAINER, POOL, size=(1, 1, 7))
    dead = np.zeros((1, DENSE.layout.size), dtype=np.float32)
    models, contrast = elsewhere(work), some_contrast(work)
    if which in ("trained", "all"):
        models = dead
    if which in ("start", "all"):
        work = replace(work, models=dead)
    if which in ("previous", "all"):
        contrast = replace(contrast, previous=dead)
    x = POOL[0][:7].reshape(1, 7, 4)

    term = gradients(work, contrast, models, x)[0] - gradients(work, None, models, x)[0]

    wanted = term_slopes(work, contrast, models[0].astype(np.float64), doubled(x[0]))
    if which in ("trained", "all"):
        assert not term.any()  # the slopes do not exist here
    else:
        assert np.abs(wanted).max() > 0.01
        assert np.abs(term - wanted).max() < 2e-6


def test_the_hidden_layers_of_both_models_stand_side_by_side() -> None:
    dense = Dense(n_inputs=2, n_hidden=1, n_classes=1)
    models = np.array([[1, 2, 3, 4, 5]], dtype=np.float32)
    previous = np.array([[10, 20, 30, 40, 50], [np.nan] * 5], dtype=np.float32)
    contrast = Contrast(mu=1.0, temperature=1.0, previous=previous, has_previous=np.array([True, False]))
    work = replace(work_of(TRAINER, POOL, size=(2, 1, 1)), models=models, start=np.array([0, 0]))

    weight, bias = reference_layers(dense, work, contrast)

    assert weight.tolist() == [[[10, 1], [20, 2]], [[1, 1], [2, 2]]]
    assert bias.tolist() == [[[30, 3]], [[3, 3]]]


def test_who_has_no_previous_model_learns_what_plain_training_teaches_bit_for_bit() -> None:
    work = work_of(TRAINER, POOL, size=(6, 8, 5))

    plain, contrasted = TRAINER.train(work), TRAINER.train(replace(work, contrast=some_contrast(work)))

    is_equal = (plain.models == contrasted.models).all(axis=1)
    assert is_equal.tolist() == [False, False, True] * 2


@pytest.mark.parametrize("changes", [{"mu": 0.0}, {"has_previous": np.zeros(3, dtype=np.bool_)}])
def test_a_contrast_that_does_not_matter_changes_no_bit(changes: dict[str, float]) -> None:
    work = work_of(TRAINER, POOL)
    contrast = replace(some_contrast(work), **changes)  # type: ignore[arg-type]

    assert hidden_contrast(DENSE, replace(work, contrast=contrast)) is None
    for one, other in zip(
        parts_of(TRAINER.train(work)), parts_of(TRAINER.train(replace(work, contrast=contrast))), strict=True
    ):
        assert np.array_equal(one, other)


def test_reported_losses_are_without_the_term() -> None:
    work = work_of(TRAINER, POOL, size=(2, 1, 8))

    plain, contrasted = TRAINER.train(work), TRAINER.train(replace(work, contrast=some_contrast(work, mu=1e3)))

    assert np.array_equal(plain.loss, contrasted.loss)


def test_a_strong_contrast_keeps_features_nearer_to_those_of_the_start() -> None:
    work = work_of(TRAINER, POOL, sgd=Sgd(learning_rate=0.1), size=(2, 60, 20))
    contrast = some_contrast(work, mu=3.0)
    x = doubled(POOL[0])

    def lean(asked: LocalWork, row: int) -> float:
        models = (TRAINER.train(asked).models[row], contrast.previous[row], work.models[work.start[row]])
        z, previous, start = (features(DENSE, model.astype(np.float64), x) for model in models)
        return float((cosines(z, previous) - cosines(z, start)).mean())

    for row in range(2):
        assert lean(replace(work, contrast=contrast), row) < lean(work, row) - 0.02


def test_a_tiny_temperature_overflows_nothing() -> None:
    work = work_of(TRAINER, POOL)
    contrast = some_contrast(work, mu=1e-4, temperature=1e-3)

    assert np.isfinite(TRAINER.train(replace(work, contrast=contrast)).models).all()


def test_softmax_regression_has_no_features_to_contrast() -> None:
    trainer = NumpyTrainer(Dense(n_inputs=4, n_hidden=0, n_classes=3))
    work = work_of(trainer, POOL)
    nobody = replace(some_contrast(work), has_previous=np.zeros(3, dtype=np.bool_))

    with pytest.raises(
        OptionError, match="contrast needs a hidden layer and softmax has none; use model mlp, or leave"
    ):
        trainer.train(replace(work, contrast=nobody))
