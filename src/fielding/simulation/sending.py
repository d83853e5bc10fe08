"""What leaves a client of the model that it trained: all of it, some of its numbers, or something spoiled."""

from dataclasses import replace

import numpy as np

from fielding._typing import Models, Vector
from fielding.rng import Hashes, hashed
from fielding.simulation.answers import Settled
from fielding.simulation.spoiling import Spoiling
from fielding.training.trainer import Trained


def sent(trained: Trained, settled: Settled, draws: Hashes, spoiling: Spoiling | None) -> Trained:
    """Return what the server receives of what was trained.

    Parameters
    ----------
    trained
        A row per kept job.
    settled
        The plan, and which of its jobs are kept.
    draws
        A random number for each kept job, which decides on the numbers that it sends.
    spoiling
        Who spoils what it sends; None if nobody does.
    """
    plan, kept = settled.plan, settled.kept
    start = settled.start[kept]
    if plan.upload_shares is not None:
        trained = _thinned(trained, plan.upload_shares[kept], plan.models[start], draws)
    if spoiling is None:
        return trained
    models = spoiling.applied(trained.models, plan.clients[kept], offered=plan.models, start=start)
    if plan.uploads is not None:  # what is not sent cannot be spoiled on the way
        models = np.where((plan.uploads[kept] > 0.0)[:, np.newaxis], models, trained.models)
    return replace(trained, models=models)


def _thinned(trained: Trained, shares: Vector, offered: Models, draws: Hashes) -> Trained:
    """Return models of which only a share of the numbers was sent; server and client know which from the draw."""
    models = trained.models.copy()
    numbers = np.arange(models.shape[1], dtype=np.uint64)
    for row in np.flatnonzero(shares < 1.0).tolist():
        is_sent = hashed(0, "sent numbers", draws[row], numbers) < np.uint64(shares[row] * 2**64)
        models[row] = np.where(is_sent, models[row], offered[row])
    return replace(trained, models=models)
