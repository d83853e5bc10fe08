"""What a frozen model sees in samples, a bounded number of them at a time: features, scores and gradients."""

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Models, Vector
from fielding.training.trainer import Gather, Scores, Trainer


def features_of(
    trainer: Trainer, model: Models, rows: Counts, gather: Gather
) -> tuple[npt.NDArray[np.float32], Scores]:
    """Return what goes into the last layer, and the scores of classes, of some samples.

    Parameters
    ----------
    trainer
        Of the model.
    model
        float32, shape ``(n_numbers,)``.
    rows
        Which samples, at least one.
    gather
        Returns features and labels of some of them.

    Returns
    -------
    float32, shapes ``(n_rows, n_features)`` and ``(n_rows, n_classes)``.
    """
    chunk = trainer.path.eval_chunk
    done = [trainer.features(model, gather(rows[at : at + chunk])[0]) for at in range(0, rows.size, chunk)]
    return np.concatenate([one[0] for one in done]), np.concatenate([one[1] for one in done])


def gradient_of(trainer: Trainer, model: Models, rows: Counts, gather: Gather) -> Vector:
    """Return the gradient of the summed loss of some samples by all parameters, shape ``(n_parameters,)``.

    The parameters are those of :func:`features_of`; without samples it is zero.
    """
    chunk, found = trainer.path.eval_chunk, np.zeros(trainer.layout.parameter_size)
    for at in range(0, rows.size, chunk):
        found += trainer.gradient(model, *gather(rows[at : at + chunk]))
    return found
