"""What local training can be asked for, of every trainer: rates, a pull, a contrast, offsets, and none of them.

Three trainers train the same network of one hidden layer: in NumPy, in PyTorch by hand, in PyTorch by autograd.
"""

from dataclasses import replace
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest

from fielding._typing import Models
from fielding.federation.clients import Pull
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.numpy_models import Dense
from fielding.training.trainer import LocalWork, Sgd, Trainer
from tests.rotation import some_of
from tests.training.by_differences import trained_model
from tests.training.jobs import (
    FULL_SGD,
    in_chunks,
    parts_of,
    samples,
    some_contrast,
    some_factors,
    some_mixes,
    some_pull,
    with_all_asked,
    work_of,
)

MLP = Dense(n_inputs=4, n_hidden=5, n_classes=3)
POOL = samples((4,), 3)
REQUESTS = {
    "numpy": ModelRequest(name="mlp", input_shape=(4,), n_classes=3, hidden=5),
    "stacked": ModelRequest(name="mlp", input_shape=(4,), n_classes=3, hidden=5, trainer="torch"),
    "module": ModelRequest(name="tests.training.modules:hidden_layer", input_shape=(4,), n_classes=3, trainer="torch"),
}
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
every_trainer = pytest.mark.parametrize(
    "kind", ["numpy", pytest.param("stacked", marks=needs_torch), pytest.param("module", marks=needs_torch)]
)
SGDS = {"plain": Sgd(learning_rate=0.1), "full": FULL_SGD}
every_sgd = pytest.mark.parametrize("sgd", SGDS.values(), ids=SGDS)


@cache
def trainer_of(kind: str) -> Trainer:
    return trainer_for(REQUESTS[kind])


def plain_work(*, sgd: Sgd = FULL_SGD, size: tuple[int, int, int] = (4, 5, 6)) -> LocalWork:
    """Return the same work for every trainer."""
    return work_of(trainer_of("numpy"), POOL, sgd=sgd, size=size)


ASKS = ("rate_factors", "pull", "contrast", "offsets", "all")


def asked(work: LocalWork, ask: str) -> LocalWork:
    """Return work that asks for one thing, or for all."""
    everything = with_all_asked(work, MLP.layout, n_classes=MLP.n_classes)
    nothing = {name: None for name in ASKS[:4] if ask not in (name, "all")}
    return replace(everything, **nothing)  # type: ignore[arg-type]


@every_trainer
@pytest.mark.parametrize(
    ("name", "ask"), some_of([(name, ask) for name in SGDS for ask in ASKS], len(ASKS), always=[("full", "all")])
)
def test_steps_follow_the_slopes_of_the_loss(kind: str, name: str, ask: str) -> None:
    sgd = SGDS[name]
    work = asked(plain_work(sgd=sgd), ask)

    done = trainer_of(kind).train(work).models

    for row in range(work.start.size):
        assert np.abs(done[row] - trained_model(MLP, work, row)).max() < 5e-6


@needs_torch
@every_sgd
@pytest.mark.parametrize("ask", ASKS)
def test_all_trainers_learn_the_same(sgd: Sgd, ask: str) -> None:
    work = asked(plain_work(sgd=sgd, size=(4, 30, 6)), ask)

    wanted = trainer_of("numpy").train(work)

    assert np.abs(wanted.models - trainer_of("numpy").train(plain_work(sgd=sgd, size=(4, 30, 6))).models).max() > 0.05
    for kind in ("stacked", "module"):
        for one, other in zip(parts_of(wanted), parts_of(trainer_of(kind).train(work)), strict=True):
            assert np.allclose(one, other, atol=1e-4)


@every_trainer
@every_sgd
def test_asking_for_nothing_new_is_plain_training(kind: str, sgd: Sgd) -> None:
    """To the last bit, but that the stacked PyTorch trainer may round a product with a rate per row otherwise."""
    trainer, work = trainer_of(kind), plain_work(sgd=sgd)
    pull = some_pull(work, MLP.layout)
    wanted = parts_of(trainer.train(work))
    tolerance = 1e-6 if kind == "stacked" else 0.0

    for changes in (
        {"rate_factors": np.ones(work.start.size)},
        {"pull": replace(pull, strength=np.zeros(MLP.layout.size))},
        {"contrast": some_contrast(work, mu=0.0)},
        {"offsets": np.zeros((work.start.size, MLP.n_classes), dtype=np.float32)},
        {"mixes": some_mixes(work, MLP.n_classes)},
    ):
        found = parts_of(trainer.train(replace(work, **changes)))
        for one, other in zip(found, wanted, strict=True):
            assert np.allclose(one, other, rtol=0, atol=tolerance)


@every_trainer
@every_sgd
def test_a_factor_is_a_learning_rate_of_its_own(kind: str, sgd: Sgd) -> None:
    trainer, work = trainer_of(kind), plain_work(sgd=sgd)
    factors = some_factors(work)

    together = trainer.train(replace(work, rate_factors=factors)).models

    for row, factor in enumerate(factors):
        alone = replace(work, sgd=replace(sgd, learning_rate=factor * sgd.learning_rate)).part(slice(row, row + 1))
        assert np.allclose(together[row], trainer.train(alone).models[0], atol=1e-6)


@every_trainer
def test_a_factor_of_zero_leaves_a_participant_where_it_is(kind: str) -> None:
    work = replace(plain_work(), rate_factors=np.array([1.0, 0.0, 1.0, 0.0]))

    is_same = (trainer_of(kind).train(work).models == work.models[work.start]).all(axis=1)

    assert is_same.tolist() == [False, True, False, True]


@every_trainer
def test_a_pull_toward_the_start_is_fedprox(kind: str) -> None:
    trainer = trainer_of(kind)
    prox = plain_work(sgd=replace(FULL_SGD, prox=0.7), size=(4, 20, 6))
    pull = Pull(anchors=prox.models, row=prox.start, strength=np.full(MLP.layout.size, 0.7))
    pulled = replace(prox, sgd=replace(prox.sgd, prox=0.0), pull=pull)

    assert np.allclose(trainer.train(prox).models, trainer.train(pulled).models, atol=1e-6)


@every_trainer
def test_a_strong_pull_takes_the_model_to_its_anchor(kind: str) -> None:
    """Learning rate times strength is 1: the pull alone would be there in one step."""
    work = plain_work(sgd=Sgd(learning_rate=1e-4), size=(4, 10, 6))
    pull = replace(some_pull(work, MLP.layout), strength=np.full(MLP.layout.size, 1e4))

    done = trainer_of(kind).train(replace(work, pull=pull)).models

    assert np.abs(done - pull.anchors[pull.row]).max() < 1e-3


@every_trainer
def test_only_the_numbers_with_a_strength_are_pulled(kind: str) -> None:
    """With no loss gradient in the first step, as the learning rate is tiny and the strength its inverse."""
    work = plain_work(sgd=Sgd(learning_rate=1e-6), size=(4, 1, 6))
    strength = np.zeros(MLP.layout.size)
    strength[:20] = 1e6  # the weights of the hidden layer
    pull = replace(some_pull(work, MLP.layout), strength=strength)

    done = trainer_of(kind).train(replace(work, pull=pull)).models

    assert np.allclose(done[:, :20], pull.anchors[pull.row][:, :20], atol=1e-5)
    assert np.allclose(done[:, 20:], work.models[work.start][:, 20:], atol=1e-5)


def chunked(kind: str, work: LocalWork, chunk: int) -> Models:
    return in_chunks(trainer_of(kind), work, chunk=chunk, n_workers=1)


@every_trainer
@pytest.mark.parametrize("ask", ASKS)
def test_chunks_carry_what_is_asked_for(kind: str, ask: str) -> None:
    work = asked(plain_work(size=(7, 5, 6)), ask)

    whole = trainer_of(kind).train(work).models

    assert np.abs(whole - trainer_of(kind).train(plain_work(size=(7, 5, 6))).models).max() > 1e-3
    for chunk in (1, 3):
        assert np.allclose(chunked(kind, work, chunk), whole, atol=1e-6)


@every_trainer
def test_two_threads_give_the_bits_of_one(kind: str) -> None:
    work = asked(plain_work(size=(6, 5, 6)), "all")

    assert np.array_equal(chunked(kind, work, 2), in_chunks(trainer_of(kind), work, chunk=2, n_workers=2))


@every_trainer
def test_training_edits_nothing_that_it_is_asked_with(kind: str) -> None:
    work = asked(plain_work(), "all")
    assert work.rate_factors is not None
    assert work.pull is not None
    assert work.contrast is not None
    given: list[np.ndarray] = [work.rate_factors, work.pull.anchors, work.pull.row, work.pull.strength]
    assert work.offsets is not None
    given += [work.contrast.previous, work.contrast.has_previous, work.offsets]
    before = [array.copy() for array in given]
    for array in given:
        array.setflags(write=False)

    trainer_of(kind).train(work)

    for array, old in zip(given, before, strict=True):
        assert np.array_equal(array, old, equal_nan=array.dtype.kind == "f")
