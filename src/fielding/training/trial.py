"""A model is tried before a run: one that cannot be trained or looked into as the run needs it is found at once."""

from fielding._typing import Features
from fielding.errors import FieldingError, OptionError
from fielding.training.trainer import LocalWork, Trainer


def try_scores(trainer: Trainer, x: Features, *, key: str) -> None:
    """Look at a sample with a model, or raise.

    Parameters
    ----------
    trainer
        Of the model.
    x
        The sample, shape ``(1, ...)``.
    key
        What the run needs it for: names the mistake.

    Raises
    ------
    OptionError
        If the model shows no features or scores.
    """
    try:
        trainer.features(trainer.initial_model(0), x)
    except FieldingError as error:
        raise OptionError(f"{key}: {error}") from None


def try_work(trainer: Trainer, work: LocalWork) -> None:
    """Take a step, or raise.

    Parameters
    ----------
    trainer
        Who trains.
    work
        Of one participant; with a contrast if the run has one.

    Raises
    ------
    OptionError
        If it fails, in one line.
    """
    try:
        trainer.train(work)
    except FieldingError as error:
        if work.contrast is not None and trainer.path.name != "sequential":
            raise OptionError(f"training.moon is {work.contrast.mu:g}, but {error}") from None
        raise
    except Exception as error:  # whatever the user's module does
        words = " ".join(f"{type(error).__name__}: {error}".split())
        n_samples = work.draws.shape[2]
        raise OptionError(f"model: a step on training.batch_size = {n_samples} samples fails: {words}") from error
