"""Local training in NumPy: what SGD, FedProx and chunks must keep."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Models
from fielding.training.numpy_models import Dense
from fielding.training.numpy_trainer import NumpyTrainer, stacked_path
from fielding.training.trainer import LocalWork, Sgd
from tests.training.jobs import FULL_SGD, in_chunks, parts_of, samples, work_of

MLP = NumpyTrainer(Dense(n_inputs=6, n_hidden=5, n_classes=3))
SOFTMAX = NumpyTrainer(Dense(n_inputs=6, n_hidden=0, n_classes=3))
POOL = samples((6,), 3)
both = pytest.mark.parametrize("trainer", [MLP, SOFTMAX], ids=["mlp", "softmax"])


def distance_from_start(trainer: NumpyTrainer, sgd: Sgd, *, n_steps: int = 20) -> float:
    work = work_of(trainer, POOL, sgd=sgd, size=(2, n_steps, 5))
    return float(np.abs(trainer.train(work).models - work.models[work.start]).max())


@both
def test_a_prox_of_zero_is_plain_sgd_bit_for_bit(trainer: NumpyTrainer) -> None:
    plain = work_of(trainer, POOL, sgd=Sgd(learning_rate=0.1, momentum=0.9))
    prox = replace(plain, sgd=replace(plain.sgd, prox=0.0))

    for one, other in zip(parts_of(trainer.train(plain)), parts_of(trainer.train(prox)), strict=True):
        assert np.array_equal(one, other)


@both
def test_a_huge_prox_keeps_the_model_at_its_start(trainer: NumpyTrainer) -> None:
    # The pull is stable only while learning rate times prox is below 2.
    free = distance_from_start(trainer, Sgd(learning_rate=1e-3))
    held = distance_from_start(trainer, Sgd(learning_rate=1e-3, prox=1e3))

    assert free > 5 * held > 0


def constant_loss_work(sgd: Sgd) -> LocalWork:
    """Return two steps: the first kicks the model away, the second has no loss gradient, as there is one class left.

    Softmax regression on one input with two classes; the features of the second step are zero, and its two labels
    cancel each other at equal biases.
    """
    x = np.array([[1.0], [-1.0], [0.0], [0.0]], dtype=np.float32)
    y = np.array([0, 1, 0, 1], dtype=np.int32)
    return LocalWork(
        models=np.zeros((1, 4), dtype=np.float32),
        start=np.array([0]),
        draws=np.array([[[0, 1], [2, 3]]]),
        gather=lambda entries: (x[entries], y[entries]),
        sgd=sgd,
    )


def test_without_a_loss_gradient_prox_pulls_toward_the_start() -> None:
    """The sign test: FedScale's reversed sign would push the model away."""
    trainer = NumpyTrainer(Dense(n_inputs=1, n_hidden=0, n_classes=2))
    learning_rate, prox = 0.5, 0.1

    free = trainer.train(constant_loss_work(Sgd(learning_rate=learning_rate))).models[0]
    pulled = trainer.train(constant_loss_work(Sgd(learning_rate=learning_rate, prox=prox))).models[0]

    assert free.tolist() == [0.25, -0.25, 0.0, 0.0]  # the kick; the second step left it alone
    assert np.allclose(pulled, free * (1 - learning_rate * prox), rtol=1e-6)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_a_prox_below_zero_pushes_away_from_the_start_also_where_weight_decay_cancels_it(weight_decay: float) -> None:
    trainer = NumpyTrainer(Dense(n_inputs=1, n_hidden=0, n_classes=2))
    sgd = Sgd(learning_rate=0.5, prox=-0.1, weight_decay=weight_decay)
    work = replace(constant_loss_work(sgd), models=np.array([[1.0, 1.0, 0.0, 0.0]], dtype=np.float32))

    done = trainer.train(work).models[0]

    kick = np.array([0.25, -0.25])
    first = 1.0 - 0.5 * weight_decay + kick
    assert np.allclose(done[:2], first - 0.5 * weight_decay * first + 0.5 * 0.1 * (first - 1.0), rtol=1e-6)


def test_weight_decay_pulls_toward_zero_and_prox_toward_the_start() -> None:
    trainer = NumpyTrainer(Dense(n_inputs=1, n_hidden=0, n_classes=2))
    kick_free = constant_loss_work(Sgd(learning_rate=0.5, weight_decay=0.2, prox=0.1))
    started = np.array([[1.0, 1.0, 2.0, 2.0]], dtype=np.float32)
    zero_gradient = replace(kick_free, models=started, draws=np.array([[[2, 3]]]))

    done = trainer.train(zero_gradient).models

    assert np.allclose(done, started * (1 - 0.5 * 0.2))


def test_momentum_repeats_the_last_step() -> None:
    trainer = NumpyTrainer(Dense(n_inputs=1, n_hidden=0, n_classes=2))

    done = trainer.train(constant_loss_work(Sgd(learning_rate=0.5, momentum=0.5))).models[0]

    assert done.tolist() == [0.375, -0.375, 0.0, 0.0]  # 0.25, and half of it again


@both
def test_losses_are_those_before_each_step(trainer: NumpyTrainer) -> None:
    work = work_of(trainer, POOL, size=(2, 1, 8))

    done = trainer.train(work)

    for row in range(2):
        x, y = work.gather(work.draws[row, 0])
        losses, _ = trainer.scores(work.models[work.start[row]], x, y)
        assert done.loss[row] == pytest.approx(losses.mean(), rel=1e-6)
        assert done.square_loss[row] == pytest.approx(np.square(losses).mean(), rel=1e-6)


@both
def test_training_lowers_the_loss(trainer: NumpyTrainer) -> None:
    work = work_of(trainer, POOL, sgd=Sgd(learning_rate=0.2, momentum=0.9), size=(1, 60, 20))

    before, _ = trainer.scores(work.models[0], *POOL)
    after, is_right = trainer.scores(trainer.train(work).models[0], *POOL)

    assert after.mean() < 0.5 * before.mean()
    assert is_right.mean() > 0.9


@both
def test_participants_together_learn_what_each_learns_alone(trainer: NumpyTrainer) -> None:
    work = work_of(trainer, POOL, size=(7, 10, 5))

    together = trainer.train(work).models

    assert np.allclose(together, in_chunks(trainer, work, chunk=1, n_workers=1), atol=1e-6)


@both
def test_two_threads_give_the_bits_of_one(trainer: NumpyTrainer) -> None:
    work = work_of(trainer, POOL, size=(9, 10, 5))

    assert np.array_equal(
        in_chunks(trainer, work, chunk=2, n_workers=1), in_chunks(trainer, work, chunk=2, n_workers=2)
    )


@given(offset=st.integers(0, 15))
def test_where_arrays_lie_in_memory_changes_no_bit(offset: int) -> None:
    work = work_of(MLP, POOL)

    def moved(models: Models) -> Models:
        room = np.empty(models.size + 16, dtype=np.float32)
        part = room[offset : offset + models.size].reshape(models.shape)
        part[:] = models
        return part

    def gather(entries: np.ndarray) -> tuple[Models, np.ndarray]:
        x, y = work.gather(entries)
        return moved(x), y

    elsewhere = replace(work, models=moved(work.models), gather=gather)

    assert np.array_equal(MLP.train(work).models, MLP.train(elsewhere).models)


def test_a_divergence_shows_in_the_loss_and_raises_nothing() -> None:
    work = work_of(MLP, POOL, sgd=Sgd(learning_rate=1e30), size=(1, 10, 5))

    assert not np.isfinite(MLP.train(work).loss[0])


def test_ties_between_classes_go_to_the_lowest() -> None:
    x, y = np.zeros((2, 6), dtype=np.float32), np.array([0, 1], dtype=np.int32)

    losses, is_right = SOFTMAX.scores(np.zeros(SOFTMAX.layout.size, dtype=np.float32), x, y)

    assert is_right.tolist() == [True, False]
    assert np.allclose(losses, np.log(3))


def test_features_of_more_dimensions_are_flattened() -> None:
    flat = work_of(MLP, POOL, sgd=FULL_SGD)
    square = work_of(MLP, (POOL[0].reshape(-1, 2, 3), POOL[1]), sgd=FULL_SGD)

    assert np.array_equal(MLP.train(flat).models, MLP.train(square).models)


@pytest.mark.parametrize(
    ("n_hidden", "n_inputs", "chunk"), [(64, 100, 56), (8, 10, 64), (256, 100, 14), (64, 784, 7), (128, 4096, 4)]
)
def test_larger_models_are_trained_in_smaller_chunks(n_hidden: int, n_inputs: int, chunk: int) -> None:
    path = stacked_path(Dense(n_inputs=n_inputs, n_hidden=n_hidden, n_classes=10))

    assert (path.name, path.chunk, path.n_threads) == ("stacked", chunk, 1)
    assert 64 <= path.eval_chunk <= 2048
