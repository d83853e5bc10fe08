"""Local work on made-up samples, and the plain loops that trainers are compared with."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Features, Models, Vector
from fielding.federation.clients import Pull
from fielding.training.layout import Layout
from fielding.training.trainer import Contrast, LocalWork, Scores, Sgd, Trained, Trainer

FULL_SGD = Sgd(learning_rate=0.05, momentum=0.9, weight_decay=0.01, prox=0.1)


def samples(shape: tuple[int, ...], n_classes: int, *, n: int = 60) -> tuple[Features, Codes]:
    """Return features between -1 and 1, and labels that depend on them, so that there is something to learn."""
    rng = np.random.default_rng(n)
    x = rng.uniform(-1.0, 1.0, size=(n, *shape)).astype(np.float32)
    directions = rng.normal(size=(int(np.prod(shape)), n_classes))
    return x, np.asarray((x.reshape(n, -1) @ directions).argmax(axis=1), dtype=np.int32)


def gather_from(x: Features, y: Codes, entries: Counts) -> tuple[Features, Codes]:
    return x[entries], y[entries]


def work_of(
    trainer: Trainer,
    pool: tuple[Features, Codes],
    *,
    sgd: Sgd = FULL_SGD,
    size: tuple[int, int, int] = (3, 4, 5),
) -> LocalWork:
    """Return work of (participants, steps, batch size), from two different models, on samples drawn with repeats."""
    draws = np.random.default_rng(size[0]).integers(pool[1].size, size=size)
    models = np.stack([trainer.initial_model(1), trainer.initial_model(2)])
    return LocalWork(
        models=models,
        start=np.arange(size[0]) % 2,
        draws=draws.astype(np.int64),
        gather=partial(gather_from, *pool),
        sgd=sgd,
    )


def some_factors(work: LocalWork) -> Vector:
    """Return another factor for each participant."""
    return np.linspace(1.5, 0.5, work.start.size)


def some_pull(work: LocalWork, layout: Layout) -> Pull:
    """Return a pull of another strength on each parameter, toward three models, the last of them first."""
    rng = np.random.default_rng(7)
    strength = rng.uniform(0.0, 2.0, size=layout.size)
    strength[layout.parameter_size :] = 0.0
    anchors = rng.normal(scale=0.5, size=(3, layout.size)).astype(np.float32)
    return Pull(anchors=anchors, row=2 - np.arange(work.start.size) % 3, strength=strength)


def some_contrast(work: LocalWork, *, mu: float = 2.0, temperature: float = 0.5) -> Contrast:
    """Return a contrast with another model for each participant; every third has none, not even numbers."""
    rng = np.random.default_rng(8)
    models = work.models[work.start]
    # Buffers such as variances must stay above 0, so numbers are changed by a factor.
    previous = (models * rng.uniform(0.2, 3.0, size=models.shape)).astype(np.float32)
    has_previous = np.arange(work.start.size) % 3 != 2
    previous[~has_previous] = np.nan
    return Contrast(mu=mu, temperature=temperature, previous=previous, has_previous=has_previous)


def some_offsets(work: LocalWork, n_classes: int) -> Scores:
    """Return other offsets for each participant."""
    return np.random.default_rng(9).normal(scale=2.0, size=(work.start.size, n_classes)).astype(np.float32)


def some_mixes(work: LocalWork, n_classes: int) -> Scores:
    """Return another label mix for each participant."""
    return np.random.default_rng(10).dirichlet(np.ones(n_classes), size=work.start.size).astype(np.float32)


def with_all_asked(work: LocalWork, layout: Layout, *, n_classes: int) -> LocalWork:
    """Return work that asks for all there is, and for something else from every participant."""
    return replace(
        work,
        rate_factors=some_factors(work),
        pull=some_pull(work, layout),
        contrast=some_contrast(work),
        offsets=some_offsets(work, n_classes),
        mixes=some_mixes(work, n_classes),
    )


def in_chunks(trainer: Trainer, work: LocalWork, *, chunk: int, n_workers: int) -> Models:
    """Return the trained models of all participants, some of them per call, in several threads."""

    def train(first: int) -> Models:
        return trainer.train(work.part(slice(first, first + chunk))).models

    with ThreadPoolExecutor(n_workers) as threads:
        return np.concatenate(list(threads.map(train, range(0, work.start.size, chunk))))


def parts_of(done: Trained) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray]:
    return done.models, done.loss, done.square_loss
