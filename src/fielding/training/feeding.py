"""What both trainers do around a step: fetch mini-batches in bounded memory, and sum up the losses."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Features, Models
from fielding.errors import InputError
from fielding.training.trainer import LocalWork, Trained

MOST_NUMBERS = 1 << 22
"""Features held at a time, in numbers: 16 MB."""


def checked_work(work: LocalWork, *, n_numbers: int) -> None:
    """Raise unless the parts of local work fit each other and models of so many numbers."""
    if work.models.ndim != 2 or work.models.shape[1] != n_numbers:
        raise InputError(f"models have shape {work.models.shape}; they must be rows of {n_numbers} numbers")
    if work.draws.ndim != 3 or not work.draws.size:
        raise InputError(f"draws have shape {work.draws.shape}; give (participants, steps, batch size), none of them 0")
    if work.start.shape != work.draws.shape[:1]:
        raise InputError(f"start has shape {work.start.shape}; give one model for each of {work.draws.shape[0]}")


def mini_batches(work: LocalWork, *, sample_size: int) -> Iterator[tuple[Features, Codes]]:
    """Yield, step after step, the features and labels of all participants.

    Parameters
    ----------
    work
        Names the samples.
    sample_size
        Numbers per sample: several steps are fetched at once, but no more than ``MOST_NUMBERS`` unless one step
        is larger than that.

    Yields
    ------
    Features, shape ``(n_participants, batch_size, ...)``, and labels, shape ``(n_participants, batch_size)``; both
    contiguous.
    """
    n_participants, n_steps, batch_size = work.draws.shape
    by_step = work.draws.transpose(1, 0, 2)
    at_once = max(1, MOST_NUMBERS // max(1, n_participants * batch_size * sample_size))
    for first in range(0, n_steps, at_once):
        block = by_step[first : first + at_once]
        x, y = work.gather(np.ascontiguousarray(block).reshape(-1))
        features = np.ascontiguousarray(x, dtype=np.float32).reshape(*block.shape, *x.shape[1:])
        labels = np.ascontiguousarray(y).reshape(block.shape)
        yield from zip(features, labels, strict=True)


def trained(models: Models, losses: npt.NDArray[np.float32]) -> Trained:
    """Return what training gave.

    Parameters
    ----------
    models
        The trained models, shape ``(n_participants, n_numbers)``.
    losses
        Loss of each sample under the weights before its step, shape ``(n_steps, n_participants, batch_size)``.
    """
    exact = losses.astype(np.float64)
    return Trained(
        models=models,
        loss=np.asarray(exact.mean(axis=(0, 2))),
        square_loss=np.asarray(np.square(exact).mean(axis=(0, 2))),
    )
