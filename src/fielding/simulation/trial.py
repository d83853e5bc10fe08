"""A step before the run: a model that cannot be trained is found before anything is written."""

import numpy as np

from fielding._typing import Counts
from fielding.client.representation.combination import Combination
from fielding.client.representation.gradient import Gradient
from fielding.client.representation.representation import Representation
from fielding.errors import OptionError
from fielding.simulation.settings import LocalRule
from fielding.traces.sliding import SlidingWindows
from fielding.training.head import NO_HEAD, head_size
from fielding.training.label_mix import LABEL_MIX
from fielding.training.trainer import Contrast, LocalWork, Trainer, try_scores, try_work


def try_step(trainer: Trainer, windows: SlidingWindows, rule: LocalRule) -> None:
    """Take one step with the samples of one client.

    Only modules that are trained one by one are tried, and models that MOON may not fit: a step of others cannot fail.
    Models that carry a label mix also have to give the scores of a sample.

    Raises
    ------
    OptionError
        If the module fails, in one line.
    """
    rows = _rows(windows)
    if LABEL_MIX in trainer.layout.names:
        try_scores(trainer, windows.gather(rows[:1])[0], key="serving.correction")
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
    try_work(trainer, work)


def try_look(trainer: Trainer, windows: SlidingWindows, representation: Representation | None) -> None:
    """Look at a sample with a model, as clients will that describe their windows with a shared one.

    Parameters
    ----------
    trainer
        Of models without a label mix.
    windows
        The samples.
    representation
        What stands for a window; None for a function of the user's own.

    Raises
    ------
    OptionError
        If the model shows no features, or a last layer is wanted that it does not have.
    """
    try_scores(trainer, windows.gather(_rows(windows)[:1])[0], key="coordinator.representation")
    parts = [part.representation for part in representation.parts] if isinstance(representation, Combination) else []
    is_by_head = any(isinstance(one, Gradient) and one.layer == "last" for one in (representation, *parts))
    if is_by_head and not head_size(trainer.layout, len(windows.pool.classes)):
        raise OptionError(
            f'coordinator.layer is "last", but {NO_HEAD}; let the module declare it last, or set layer = "full"'
        )


def _rows(windows: SlidingWindows) -> Counts:
    """Return the training samples of one client."""
    ranges = windows.training(0)
    return ranges.of(np.flatnonzero(ranges.sizes)[:1])[0]


def _contrast(trainer: Trainer, rule: LocalRule) -> Contrast:
    """Return the contrast of a client that has not trained before."""
    return Contrast(
        mu=rule.moon,
        temperature=rule.moon_temperature,
        previous=np.zeros((1, trainer.layout.size), dtype=np.float32),
        has_previous=np.zeros(1, dtype=np.bool_),
    )
