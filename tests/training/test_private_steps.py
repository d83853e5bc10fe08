"""Clipped gradients of single samples, by a plain loop, and what one sample changes."""

from dataclasses import replace

import numpy as np
import pytest

from fielding._typing import Models
from fielding.errors import OptionError
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import LocalWork, PrivateSteps, Sgd, Trainer

N_SAMPLES, N_INPUTS, CLASSES, CLIP = 9, 5, 3, 0.7
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N_SAMPLES, N_INPUTS)).astype(np.float32)
Y = RNG.integers(0, CLASSES, N_SAMPLES).astype(np.int32)


def trainer_of(kind: str) -> Trainer:
    factory = None
    if kind == "module":
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")

        def factory() -> object:
            return torch.nn.Sequential(
                torch.nn.Linear(N_INPUTS, 4), torch.nn.LayerNorm(4), torch.nn.ReLU(), torch.nn.Linear(4, CLASSES)
            )

    elif kind == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    return trainer_for(
        ModelRequest(
            name="softmax" if kind == "softmax" else "mlp",
            factory=factory,
            hidden=4,
            input_shape=(N_INPUTS,),
            n_classes=CLASSES,
            trainer="torch" if kind in ("module", "torch") else "numpy",
        )
    )


def work_of(trainer: Trainer, is_drawn: np.ndarray, *, noise: float = 0.0, x: np.ndarray = X) -> LocalWork:
    """Return one step of two participants on all samples, with a learning rate of 1 and no noise."""
    models = np.stack([trainer.initial_model(seed) for seed in (1, 2)])
    n_participants = len(is_drawn)
    return LocalWork(
        models=models,
        start=np.arange(n_participants),
        draws=np.tile(np.arange(N_SAMPLES), (n_participants, 1, 1)),
        gather=lambda rows: (x[rows], Y[rows]),
        sgd=Sgd(learning_rate=1.0),
        private=PrivateSteps(
            is_drawn=is_drawn[:, np.newaxis],
            clip=CLIP,
            noise=noise,
            batch=np.full(n_participants, 2.0),
            normals=[np.random.default_rng(at).standard_normal for at in range(n_participants)],
        ),
    )


def stepped(trainer: Trainer, work: LocalWork) -> Models:
    """Return the changes that a step makes, of all participants."""
    chunk = trainer.path.chunk
    parts = [work.part(slice(at, at + chunk)) for at in range(0, len(work.start), chunk)]
    return np.concatenate([trainer.train(one).models for one in parts]) - work.models


@pytest.mark.parametrize("kind", ["softmax", "mlp", "torch", "module"])
def test_a_step_sums_clipped_gradients_of_the_samples_that_are_drawn(kind: str) -> None:
    trainer = trainer_of(kind)
    is_drawn = np.random.default_rng(4).random((2, N_SAMPLES)) < 0.6
    work = work_of(trainer, is_drawn)
    alone = np.array([[trainer.gradient(model, X[[at]], Y[[at]]) for at in range(N_SAMPLES)] for model in work.models])
    lengths = np.linalg.norm(alone, axis=2)
    clip = float(np.median(lengths))
    assert work.private is not None

    found = stepped(trainer, replace(work, private=replace(work.private, clip=clip)))

    factors = np.minimum(1.0, clip / lengths) * is_drawn
    np.testing.assert_allclose(found, -np.einsum("rs,rsn->rn", factors, alone) / 2.0, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("kind", ["softmax", "mlp", "torch", "module"])
def test_one_sample_changes_a_step_by_no_more_than_the_clip(kind: str) -> None:
    trainer = trainer_of(kind)
    everything, without = np.ones((2, N_SAMPLES), dtype=bool), np.ones((2, N_SAMPLES), dtype=bool)
    without[:, 0] = False
    wild = X.copy()
    wild[0] *= 1e4

    change = stepped(trainer, work_of(trainer, everything, x=wild)) - stepped(trainer, work_of(trainer, without))

    lengths = np.linalg.norm(change.astype(np.float64), axis=1) * 2.0
    np.testing.assert_array_less(lengths, CLIP * 1.0001)
    np.testing.assert_array_less(CLIP * 0.9, lengths)


@pytest.mark.parametrize("kind", ["mlp", "torch", "module"])
def test_noise_has_the_size_of_clips_and_comes_without_samples_too(kind: str) -> None:
    trainer, nothing = trainer_of(kind), np.zeros((2, N_SAMPLES), dtype=bool)

    found = stepped(trainer, work_of(trainer, nothing, noise=3.0))

    for row in range(2):
        noise = 3.0 * CLIP * np.random.default_rng(row).standard_normal(trainer.layout.size) / 2.0
        if kind == "module":
            continue  # its random layers draw a seed first
        np.testing.assert_allclose(np.sort(-found[row]), np.sort(noise), rtol=1e-4, atol=1e-5)
    assert abs(found.std() / (3.0 * CLIP / 2.0) - 1.0) < 0.25


def test_modules_that_mix_samples_are_refused_by_name() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    def factory() -> object:
        return torch.nn.Sequential(torch.nn.Linear(N_INPUTS, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, CLASSES))

    trainer = trainer_for(
        ModelRequest(name="own:net", factory=factory, input_shape=(N_INPUTS,), n_classes=CLASSES, trainer="torch")
    )
    work = work_of(trainer, np.ones((1, N_SAMPLES), dtype=bool))

    with pytest.raises(OptionError, match=r"has BatchNorm1d \(1\), which mixes samples"):
        trainer.train(work)
    trainer.train(replace(work, private=None))
