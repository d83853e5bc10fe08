"""Offsets on scores inside the training loss, of every trainer."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.nn import functional  # noqa: E402

from fielding.training.trainer import LocalWork, Sgd  # noqa: E402
from tests.training.jobs import some_offsets, work_of  # noqa: E402
from tests.training.trainers import CLASSES, POOL, gradient_of, module_of, trainer_of  # noqa: E402

every_trainer = pytest.mark.parametrize("kind", ["numpy", "numpy softmax", "stacked", "stacked softmax", "module"])


@every_trainer
def test_a_step_with_offsets_follows_autograd(kind: str) -> None:
    trainer = trainer_of(kind)
    work = work_of(trainer, POOL, sgd=Sgd(learning_rate=0.5), size=(3, 1, 7))
    offsets = some_offsets(work, CLASSES)

    done = trainer.train(replace(work, offsets=offsets))

    for row in range(3):
        x, y = work.gather(work.draws[row, 0])
        module = module_of(trainer.layout, work.models[work.start[row]])
        shifted = module(torch.tensor(x)) + torch.tensor(offsets[row])
        losses = functional.cross_entropy(shifted, torch.tensor(y, dtype=torch.int64), reduction="none")
        losses.mean().backward()  # type: ignore[no-untyped-call]
        gradient = gradient_of(module, trainer.layout.names)
        assert np.allclose(done.models[row], work.models[work.start[row]] - 0.5 * gradient, atol=1e-6)
        assert done.loss[row] == pytest.approx(losses.mean().item(), rel=1e-5)  # with the offsets
        assert done.square_loss[row] == pytest.approx(losses.square().mean().item(), rel=1e-5)


@pytest.mark.parametrize("kind", ["numpy softmax", "stacked softmax"])
def test_from_zero_weights_a_step_goes_to_the_label_against_the_offsets(kind: str) -> None:
    """By hand: the scores are the offsets, log 1, log 2 and log 5, so the shares are 1/8, 2/8 and 5/8."""
    trainer = trainer_of(kind)
    zeros = np.zeros((1, trainer.layout.size), dtype=np.float32)
    x, y = np.array([[2.0, 0.0, 0.0, 0.0]], dtype=np.float32), np.array([1], dtype=np.int32)
    work = LocalWork(
        models=zeros,
        start=np.array([0]),
        draws=np.array([[[0]]]),
        gather=lambda entries: (x[entries], y[entries]),
        sgd=Sgd(learning_rate=1.0),
        offsets=np.log(np.array([[1.0, 2.0, 5.0]], dtype=np.float32)),
    )

    done = trainer.train(work)

    parts = trainer.layout.tensors(done.models[0])
    assert np.allclose(parts["bias"], [-1 / 8, 1 - 2 / 8, -5 / 8], atol=1e-6)
    assert np.allclose(parts["weight"][:, 0], [-2 / 8, 12 / 8, -10 / 8], atol=1e-6)
    assert not parts["weight"][:, 1:].any()
    assert done.loss[0] == pytest.approx(np.log(4.0), rel=1e-5)


@every_trainer
def test_the_same_offset_on_all_classes_changes_nothing(kind: str) -> None:
    trainer = trainer_of(kind)
    work = work_of(trainer, POOL, size=(3, 10, 5))
    flat = np.repeat(np.array([[-3.0], [0.5], [4.0]], dtype=np.float32), CLASSES, axis=1)

    plain, shifted = trainer.train(work), trainer.train(replace(work, offsets=flat))

    assert np.allclose(plain.models, shifted.models, atol=1e-5)
    assert np.allclose(plain.loss, shifted.loss, atol=1e-5)


@every_trainer
def test_balanced_training_on_one_label_learns_less_of_it(kind: str) -> None:
    trainer = trainer_of(kind)
    x = POOL[0]
    only = (x, np.zeros(x.shape[0], dtype=np.int32))
    work = work_of(trainer, only, sgd=Sgd(learning_rate=0.2), size=(1, 20, 10))
    mix = np.array([[0.98, 0.01, 0.01]])

    plain = trainer.train(work).models[0]
    balanced = trainer.train(replace(work, offsets=np.log(mix).astype(np.float32))).models[0]

    # The losses of that label under the models as they are tested: the balanced one did not learn the mix.
    assert trainer.scores(plain, *only)[0].mean() < 0.5 * trainer.scores(balanced, *only)[0].mean()
