"""A step before the run: a model that cannot be trained is found before anything is written."""

import numpy as np

from fielding._typing import Features
from fielding.errors import FieldingError, OptionError
from fielding.simulation.settings import LocalRule
from fielding.traces.sliding import SlidingWindows
from fielding.training.label_mix import LABEL_MIX
from fielding.training.trainer import Contrast, LocalWork, Trainer


def try_step(trainer: Trainer, windows: SlidingWindows, rule: LocalRule) -> None:
    """Take one step with the samples of one client.

    Only modules that are trained one by one are tried, and models that MOON may not fit: a step of others cannot fail.
    Models that carry a label mix also have to give the scores of a sample.

    Raises
    ------
    OptionError
        If the module fails, in one line.
    """
    ranges = windows.training(0)
    rows, _ = ranges.of(np.flatnonzero(ranges.sizes)[:1])
    if LABEL_MIX in trainer.layout.names:
        _try_scores(trainer, windows.gather(rows[:1])[0])
    if trainer.path.name != "sequential" and not rule.moon:
        return
    work = LocalWork(
        models=trainer.initial_model(0)[np.newaxis],
        start=np.zeros(1, dtype=np.int64),
        draws=np.resize(rows, (1, 1, rule.batch_size)),
        gather=windows.gather,
        sgd=rule.sgd(0),
        contrast=_contrast(trainer, rule) if rule.moon else None,
    )
    try:
        trainer.train(work)
    except FieldingError as error:
        if rule.moon and trainer.path.name != "sequential":
            raise OptionError(f"training.moon is {rule.moon:g}, but {error}") from None
        raise
    except Exception as error:  # whatever the user's module does
        words = " ".join(f"{type(error).__name__}: {error}".split())
        raise OptionError(f"model: a step on training.batch_size = {rule.batch_size} samples fails: {words}") from error


def _try_scores(trainer: Trainer, x: Features) -> None:
    try:
        trainer.features(trainer.initial_model(0), x)
    except FieldingError as error:
        raise OptionError(f"serving.correction: {error}") from None


def _contrast(trainer: Trainer, rule: LocalRule) -> Contrast:
    """Return the contrast of a client that has not trained before."""
    return Contrast(
        mu=rule.moon,
        temperature=rule.moon_temperature,
        previous=np.zeros((1, trainer.layout.size), dtype=np.float32),
        has_previous=np.zeros(1, dtype=np.bool_),
    )
