"""The model that a server trains on its own samples."""

import numpy as np
import pytest
from fielding.simulation.shared_model import Lessons, pool_model

from fielding.traces.sources import HeldOut
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import Sgd, Trainer
from tests.simulation.run_cases import small_pool

POOL = small_pool()
HELD = HeldOut(samples=np.arange(0, 240, 3), labels=POOL.y[np.arange(0, 240, 3)])


def trainer(name: str = "mlp") -> Trainer:
    return trainer_for(ModelRequest(name=name, hidden=8, input_shape=(4,), n_classes=4, trainer="numpy"))


def lessons(n_steps: int = 60, seed: int = 1, batch_size: int = 16, momentum: float = 0.9) -> Lessons:
    return Lessons(sgd=Sgd(learning_rate=0.1, momentum=momentum), n_steps=n_steps, batch_size=batch_size, seed=seed)


def test_it_learns_the_samples_of_the_server() -> None:
    others = np.setdiff1d(np.arange(240), HELD.samples)
    made = trainer()

    model = pool_model(made, POOL, HELD, lessons())

    assert model.dtype == np.float32
    assert model.shape == (made.layout.size,)
    for samples, least in ((HELD.samples, 0.85), (others, 0.7)):
        _, scores = made.features(model, POOL.features(samples))
        assert (scores.argmax(axis=1) == POOL.y[samples]).mean() > least


def test_it_depends_on_the_seed_alone() -> None:
    first, again, other = (pool_model(trainer(), POOL, HELD, lessons(seed=seed)) for seed in (1, 1, 2))

    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_no_other_sample_counts() -> None:
    strange = small_pool()
    others = np.setdiff1d(np.arange(240), HELD.samples)
    strange.x[others] = 99.0
    strange.y[others] = 0

    assert pool_model(trainer(), strange, HELD, lessons()).tobytes() == (
        pool_model(trainer(), POOL, HELD, lessons()).tobytes()
    )


def test_without_momentum_it_does_not_matter_in_how_many_goes_batches_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = pool_model(trainer(), POOL, HELD, lessons(n_steps=7, momentum=0.0))
    monkeypatch.setattr("fielding.simulation.shared_model.STEPS_AT_ONCE", 3)

    assert pool_model(trainer(), POOL, HELD, lessons(n_steps=7, momentum=0.0)).tobytes() == whole.tobytes()


def test_one_step_on_one_sample_is_a_step_down_its_gradient() -> None:
    one = HeldOut(samples=HELD.samples[:1], labels=HELD.labels[:1])
    made = trainer("softmax")
    start = made.initial_model(1)

    model = pool_model(made, POOL, one, lessons(n_steps=1, batch_size=3))

    slope = made.gradient(start, POOL.features(one.samples), one.labels)
    assert np.allclose(model, start - 0.1 * slope, atol=1e-6)
