"""Who watches the clients of a simulation, put together as a config says."""

from dataclasses import dataclass
from typing import cast

import numpy as np

from fielding._typing import Codes, Counts, Features, Models
from fielding.client.describing import Describing
from fielding.client.drift import DriftTest
from fielding.config.keys import Config
from fielding.config.parts import imported_function
from fielding.distance import metric_named
from fielding.engine.describing import LABEL
from fielding.engine.shared_models import GLOBAL, POOL, file_model
from fielding.errors import OptionError
from fielding.federation.models import is_finite
from fielding.rng import stream
from fielding.runtime.observe import LabelObserver, Observer, Represent, SampleObserver, Sight, VectorObserver
from fielding.runtime.workers import Workers
from fielding.traces.pool import Pool
from fielding.traces.sliding import SlidingWindows
from fielding.traces.sources import Dealt, HeldOut, hold_out
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


HELD_OUT = 200
"""Samples of each class that are held out where a shared model is trained on them, unless the config says."""
MOMENTUM = 0.9
"""Of the steps of the shared model."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Watched:
    """What there is to watch.

    Parameters
    ----------
    windows
        What clients see when.
    trainer
        Of models without a label mix.
    held
        The server's own samples; None if there are none.
    """

    windows: SlidingWindows
    trainer: Trainer
    held: HeldOut | None


def without_held_out(config: Config, dealt: Dealt, *, needs_pool: bool) -> tuple[Dealt, HeldOut | None]:
    """Take the server's own samples away from the clients, as many as the config says or the shared model needs."""
    per_class = config.trace.held_out
    if per_class is None:
        per_class = HELD_OUT if needs_pool else 0
    if per_class:
        return hold_out(dealt, per_class, seed=config.seed)
    if needs_pool:
        raise OptionError(
            "trace.held_out is 0, but the shared model is trained on held-out samples; "
            'raise it, or set coordinator.shared_model = "global" or to a model file'
        )
    return dealt, None


def observer_of(
    config: Config, describing: Describing, watched: Watched, represent: Represent | None, drift_test: DriftTest | None
) -> Observer:
    """Return who watches the clients.

    Parameters
    ----------
    config
        The config.
    describing
        What clients report, and when.
    watched
        The clients.
    represent
        A function of the user's own, that describes a window.
    drift_test
        The method's own test on label counts; None: that of the config.
    """
    if drift_test is not None:
        return LabelObserver(watched.windows, drift_test)
    if describing.representation is None:
        return _own_observer(config, describing, watched.windows, represent)
    if describing.is_label:
        is_plain = config.coordinator.representation == LABEL
        test = describing.drift_test()
        return LabelObserver(watched.windows, test, None if is_plain else describing.representation)
    sight = Sight(watched.windows, Workers(watched.trainer) if describing.needs_model else None)
    observer = SampleObserver(
        watched.windows, describing.representation, detector=describing.drift_detector(), sight=sight
    )
    if describing.needs_model and config.coordinator.shared_model != GLOBAL:
        observer.share(_shared_model(config, watched))
    return observer


def _shared_model(config: Config, watched: Watched) -> Models:
    """Return the model that all clients see their samples with, from the start."""
    section, trainer = config.coordinator, watched.trainer
    if section.shared_model != POOL or watched.held is None:
        return file_model(section, trainer.layout)
    batch_size = config.training.batch_size
    n_steps = -(-section.shared_epochs * watched.held.samples.size // batch_size)
    lessons = Lessons(
        sgd=Sgd(learning_rate=config.training.learning_rate, momentum=MOMENTUM),
        n_steps=n_steps,
        batch_size=batch_size,
        seed=config.seed,
    )
    model = pool_model(trainer, watched.windows.pool, watched.held, lessons)
    if not is_finite(model):
        raise OptionError(
            f"coordinator.shared_model: training it at training.learning_rate = {config.training.learning_rate:g} with "
            f"momentum {MOMENTUM:g} does not converge; lower the rate, or give a model file"
        )
    return model


def _own_observer(
    config: Config, describing: Describing, windows: SlidingWindows, represent: Represent | None
) -> VectorObserver:
    """Return who describes windows by a function of the user's own."""
    if represent is None:
        name = config.coordinator.representation
        represent = cast(Represent, imported_function(name, key="coordinator.representation", known=(LABEL,)))
    try:
        test, metric = describing.drift_test(), metric_named(describing.metric)
        observer = VectorObserver(windows, represent, drift_test=test, metric=metric)
    except OptionError as error:
        raise OptionError(f"coordinator.detector: {error}") from None
    observer.try_out()
    return observer
