"""The model of a deployment is tried on the server: what every device would fail at is told before a node is asked."""

import numpy as np

from fielding.config.keys import Config
from fielding.training.label_mix import LABEL_MIX
from fielding.training.trainer import Contrast, LocalWork, Sgd, Trainer, try_scores, try_work


def try_model(trainer: Trainer, shape: tuple[int, ...], config: Config) -> None:
    """Do with a model, on samples of zeros, what a config asks of it beyond plain training.

    Parameters
    ----------
    trainer
        Of the model.
    shape
        Of one sample.
    config
        Of the run.

    Raises
    ------
    OptionError
        If the model shows no scores, which ``serving.correction`` needs, or no features, which ``training.moon`` needs.
    """
    if LABEL_MIX in trainer.layout.names:
        try_scores(trainer, np.zeros((1, *shape), dtype=np.float32), key="serving.correction")
    if config.training.moon:
        try_work(trainer, _step(trainer, shape, config))


def _step(trainer: Trainer, shape: tuple[int, ...], config: Config) -> LocalWork:
    """Return one step of a device that has trained before."""
    section, models = config.training, trainer.initial_model(config.seed)[np.newaxis]
    return LocalWork(
        models=models,
        start=np.zeros(1, dtype=np.int64),
        draws=np.zeros((1, 1, section.batch_size), dtype=np.int64),
        gather=lambda rows: (np.zeros((rows.size, *shape), dtype=np.float32), np.zeros(rows.size, dtype=np.int32)),
        sgd=Sgd(learning_rate=section.learning_rate),
        contrast=Contrast(
            mu=section.moon,
            temperature=section.moon_temperature,
            previous=models,
            has_previous=np.ones(1, dtype=np.bool_),
        ),
    )
