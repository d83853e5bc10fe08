"""The frozen model that all clients see their samples with, trained on samples of the server's own."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Codes, Counts, Features, Models
from fielding.rng import stream
from fielding.traces.pool import Pool
from fielding.traces.sources import HeldOut
from fielding.training.trainer import LocalWork, Sgd, Trainer

STEPS_AT_ONCE = 200
"""Steps whose batches are drawn in one go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """How a shared model is trained.

    Parameters
    ----------
    sgd
        The rule of a step.
    n_steps, batch_size
        Steps, and samples of a step.
    seed
        Of the first weights and of the batches.
    """

    sgd: Sgd
    n_steps: int
    batch_size: int
    seed: int


def pool_model(trainer: Trainer, pool: Pool, held: HeldOut, lessons: Lessons) -> Models:
    """Train a model on held-out samples (the paper: 200 of each class, 300 passes over them).

    Parameters
    ----------
    trainer
        Of the model.
    pool, held
        The samples, as they look before anybody's camera changes them.
    lessons
        How.

    Returns
    -------
    float32, shape ``(n_numbers,)``.
    """

    def gather(entries: Counts) -> tuple[Features, Codes]:
        return pool.features(held.samples[entries]), held.labels[entries]

    rng, model = stream(lessons.seed, "shared model"), trainer.initial_model(lessons.seed)
    for first in range(0, lessons.n_steps, STEPS_AT_ONCE):
        n_now = min(STEPS_AT_ONCE, lessons.n_steps - first)
        work = LocalWork(
            models=model[np.newaxis],
            start=np.zeros(1, dtype=np.int64),
            draws=rng.integers(0, held.samples.size, (1, n_now, lessons.batch_size)),
            gather=gather,
            sgd=lessons.sgd,
        )
        model = trainer.train(work).models[0]
    return model
