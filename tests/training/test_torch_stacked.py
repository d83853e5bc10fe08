"""Dense models in PyTorch: the same as in NumPy to rounding, and loadable where users expect."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from fielding.training.factory import ModelRequest, trainer_for  # noqa: E402
from fielding.training.trainer import Sgd, Trainer  # noqa: E402
from tests.training.jobs import FULL_SGD, in_chunks, parts_of, samples, work_of  # noqa: E402

SHAPE, CLASSES = (4, 3), 3
POOL = samples(SHAPE, CLASSES)
SGDS = {"plain": Sgd(learning_rate=0.1), "momentum": Sgd(learning_rate=0.1, momentum=0.9), "full": FULL_SGD}
dense_models = pytest.mark.parametrize("name", ["mlp", "softmax"])


def trainer_of(name: str, kind: str) -> Trainer:
    return trainer_for(ModelRequest(name=name, input_shape=SHAPE, n_classes=CLASSES, hidden=5, trainer=kind))


@dense_models
@pytest.mark.parametrize("sgd", SGDS.values(), ids=SGDS)
def test_both_trainers_learn_the_same(name: str, sgd: Sgd) -> None:
    numpy, pytorch = trainer_of(name, "numpy"), trainer_of(name, "torch")
    work = work_of(numpy, POOL, sgd=sgd, size=(4, 20, 6))

    for one, other in zip(parts_of(numpy.train(work)), parts_of(pytorch.train(work)), strict=True):
        assert np.allclose(one, other, atol=2e-6)


@dense_models
def test_both_trainers_start_and_score_alike(name: str) -> None:
    numpy, pytorch = trainer_of(name, "numpy"), trainer_of(name, "torch")
    model = numpy.initial_model(4)

    assert np.array_equal(model, pytorch.initial_model(4))
    assert numpy.layout == pytorch.layout
    for one, other in zip(numpy.scores(model, *POOL), pytorch.scores(model, *POOL), strict=True):
        assert np.allclose(one, other, atol=1e-6)


@dense_models
def test_two_threads_give_the_bits_of_one(name: str) -> None:
    trainer = trainer_of(name, "torch")
    work = work_of(trainer, POOL, size=(6, 10, 5))

    assert np.array_equal(
        in_chunks(trainer, work, chunk=2, n_workers=1), in_chunks(trainer, work, chunk=2, n_workers=2)
    )


def test_tensors_load_into_the_modules_that_they_are_named_after() -> None:
    trainer = trainer_of("mlp", "numpy")
    model = trainer.initial_model(1)
    module = torch.nn.Sequential(torch.nn.Linear(12, 5), torch.nn.ReLU(), torch.nn.Linear(5, CLASSES))

    module.load_state_dict({name: torch.tensor(part) for name, part in trainer.layout.tensors(model).items()})

    scores = module(torch.tensor(POOL[0]).flatten(1)).detach()
    losses = torch.nn.functional.cross_entropy(scores, torch.tensor(POOL[1], dtype=torch.int64), reduction="none")
    assert np.allclose(losses.numpy(), trainer.scores(model, *POOL)[0], atol=1e-6)
