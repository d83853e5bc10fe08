"""What every trainer must keep with every model: each test runs over all of them, on tiny samples."""

from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pytest

from fielding._typing import Codes, Features
from fielding._version import __version__
from fielding.simulation.ray_workers import TrainingActor, lighten
from fielding.training.factory import DENSE, TORCH_ONLY, ModelRequest, trainer_for
from fielding.training.trainer import LocalWork, Sgd, Trainer
from tests.training.jobs import FULL_SGD, in_chunks, parts_of, samples, with_all_asked, work_of

HAS_TORCH = find_spec("torch") is not None


@dataclass(frozen=True)
class Case:
    trainer: str
    model: str
    shape: tuple[int, ...] = (8, 8, 1)
    n_classes: int = 3

    def __str__(self) -> str:
        return f"{self.trainer}-{self.model}-{self.shape}-{self.n_classes}"


LARGE = ("resnet18", "shufflenet-v2", "vit-b16")
"""Models that take a second or more; among the slow tests."""
CASES = [
    *(Case(kind, name) for kind in ("numpy", "torch") for name in DENSE),
    *(Case("torch", name, shape=(4, 4, 1)) for name in TORCH_ONLY),
    *(Case("torch", f"tests.training.modules:{name}") for name in ("normalised", "convolved", "dropped", "lazy")),
    *(Case(kind, "mlp", shape=(5,), n_classes=1) for kind in ("numpy", "torch")),
    *(Case(kind, "softmax", shape=(1,), n_classes=2) for kind in ("numpy", "torch")),
    Case("torch", "cnn", shape=(5, 7, 3), n_classes=1),
]


def marked(case: Case) -> object:
    marks = [pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")] if case.trainer == "torch" else []
    if case.model in LARGE:
        marks.append(pytest.mark.slow)
    return pytest.param(case, id=str(case), marks=marks)


every_case = pytest.mark.parametrize("case", [marked(case) for case in CASES])


@lru_cache(maxsize=1)  # a large model at a time
def trainer_of(case: Case) -> Trainer:
    return trainer_for(
        ModelRequest(name=case.model, input_shape=case.shape, n_classes=case.n_classes, trainer=case.trainer)
    )


@cache
def pool_of(case: Case) -> tuple[Features, Codes]:
    x, y = samples(case.shape, case.n_classes)
    x.setflags(write=False)
    y.setflags(write=False)
    return x, y


def work_for(case: Case, *, sgd: Sgd = FULL_SGD, size: tuple[int, int, int] = (2, 2, 4)) -> LocalWork:
    return work_of(trainer_of(case), pool_of(case), sgd=sgd, size=size)


@every_case
def test_work_that_is_sent_elsewhere_gives_the_same_bits(case: Case) -> None:
    trainer, work = trainer_of(case), work_for(case)
    here = [trainer.train(work.part(slice(at, at + 1))) for at in (1, 0)]
    windows = SimpleNamespace(gather=work.gather)
    actor = TrainingActor(__version__, *cloudpickle.loads(cloudpickle.dumps((trainer, windows))))

    for at, one in zip((1, 0), here, strict=True):
        light, rows = lighten(work.part(slice(at, at + 1)))
        there = actor.train(cloudpickle.loads(cloudpickle.dumps(light)), *(work.models[row] for row in rows))

        assert all(np.array_equal(*pair) for pair in zip(parts_of(one), parts_of(there), strict=True))


def test_all_that_work_asks_for_is_sent() -> None:
    case = Case("numpy", "mlp")
    trainer = trainer_of(case)
    work = with_all_asked(work_for(case, size=(4, 2, 4)), trainer.layout, n_classes=case.n_classes)
    windows = SimpleNamespace(gather=work.gather)

    for some in (slice(0, 1), slice(1, 4)):
        light, rows = lighten(work.part(some))
        there = TrainingActor(__version__, trainer, windows).train(light, *(work.models[row] for row in rows))  # type: ignore[arg-type]

        assert light.models.size == 0
        assert light.pull is not None
        assert light.pull.anchors.shape[0] == np.unique(work.part(some).pull.row).size  # type: ignore[union-attr]
        assert np.array_equal(there.models, trainer.train(work.part(some)).models)


@every_case
def test_shapes_and_types_are_those_of_the_protocol(case: Case) -> None:
    trainer = trainer_of(case)
    done = trainer.train(work_for(case))

    assert done.models.shape == (2, trainer.layout.size)
    assert done.models.dtype == np.float32
    assert done.loss.shape == done.square_loss.shape == (2,)
    assert done.loss.dtype == done.square_loss.dtype == np.float64
    assert trainer.initial_model(0).shape == (trainer.layout.size,)
    assert trainer.initial_model(0).dtype == np.float32
    assert 0 < trainer.layout.n_parameters <= len(trainer.layout.names)


@every_case
def test_everything_is_finite_and_losses_fit_their_squares(case: Case) -> None:
    done = trainer_of(case).train(work_for(case))

    for part in parts_of(done):
        assert np.isfinite(part).all()
    assert (done.square_loss >= np.square(done.loss) * (1 - 1e-9)).all()


@every_case
def test_training_edits_nothing_that_it_is_given(case: Case) -> None:
    work = work_for(case)
    given: list[np.ndarray] = [work.models, work.start, work.draws]
    before = [array.copy() for array in given]
    for array in given:
        array.setflags(write=False)

    done = trainer_of(case).train(work)

    for array, old in zip(given, before, strict=True):
        assert np.array_equal(array, old)
    assert not np.shares_memory(done.models, work.models)
    assert done.models.flags.writeable


@every_case
def test_training_twice_gives_the_same_bits(case: Case) -> None:
    trainer, work = trainer_of(case), work_for(case)

    for first, again in zip(parts_of(trainer.train(work)), parts_of(trainer.train(work)), strict=True):
        assert np.array_equal(first, again)


@every_case
def test_a_new_trainer_gives_the_same_bits(case: Case) -> None:
    trainer, work = trainer_of(case), work_for(case)
    other = trainer_of.__wrapped__(case)

    assert np.array_equal(trainer.initial_model(1), other.initial_model(1))
    assert trainer.path == other.path
    assert np.array_equal(trainer.train(work).models, other.train(work).models)


@every_case
def test_a_result_is_not_overwritten_by_the_next(case: Case) -> None:
    trainer, work = trainer_of(case), work_for(case)
    first = trainer.train(work)
    kept = first.models.copy()

    trainer.train(work_for(case, size=(2, 3, 4)))

    assert np.array_equal(first.models, kept)


@every_case
def test_participants_do_not_learn_from_each_other(case: Case) -> None:
    trainer, work = trainer_of(case), work_for(case, size=(3, 2, 4))

    together = trainer.train(work).models

    assert np.allclose(together, in_chunks(trainer, work, chunk=1, n_workers=1), atol=1e-5)


@every_case
def test_two_threads_give_the_bits_of_one(case: Case) -> None:
    trainer, work = trainer_of(case), work_for(case, size=(4, 2, 4))

    assert np.array_equal(
        in_chunks(trainer, work, chunk=1, n_workers=1), in_chunks(trainer, work, chunk=1, n_workers=2)
    )


@every_case
def test_a_learning_rate_of_zero_leaves_the_parameters(case: Case) -> None:
    trainer, work = trainer_of(case), work_for(case, sgd=Sgd(learning_rate=0.0))
    end = trainer.layout.parameter_size

    assert np.array_equal(trainer.train(work).models[:, :end], work.models[work.start][:, :end])


@every_case
def test_a_batch_of_one_sample_over_and_over_is_a_batch(case: Case) -> None:
    work = work_for(case)
    work.draws[:] = 7

    assert np.isfinite(trainer_of(case).train(work).models).all()


@every_case
def test_scores_are_pure_and_say_which_class_is_likely(case: Case) -> None:
    trainer, (x, y) = trainer_of(case), pool_of(case)
    model = trainer.initial_model(1)
    model.setflags(write=False)

    losses, is_right = trainer.scores(model, x, y)
    again, _ = trainer.scores(model, x, y)

    assert losses.shape == is_right.shape == y.shape
    assert losses.dtype == np.float32
    assert is_right.dtype == np.bool_
    assert np.isfinite(losses).all()
    assert np.array_equal(losses, again)
    # A class that is right has at least an even share, one that is wrong less than half.
    assert (losses[is_right] <= np.log(case.n_classes) + 1e-6).all()
    assert (losses[~is_right] >= np.log(2) - 1e-6).all()


@every_case
def test_one_sample_can_be_scored_alone(case: Case) -> None:
    trainer, (x, y) = trainer_of(case), pool_of(case)
    model = trainer.initial_model(1)

    assert np.allclose(trainer.scores(model, x[:1], y[:1])[0], trainer.scores(model, x, y)[0][:1], atol=1e-5)
