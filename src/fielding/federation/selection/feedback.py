"""What selectors are told after a round of training."""

from dataclasses import dataclass, field

import numpy as np

from fielding._typing import Counts, Vector
from fielding.errors import InputError


def _nobody() -> Counts:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feedback:
    """How the training of one round went: answers first, then those who were too slow.

    Parameters
    ----------
    round_index
        The round, from 0.
    n_train_samples
        Local steps times batch size: a client counts for no more samples than it can train on.
    clients, clusters
        Whose answer, and the cluster it trained for, shape ``(n_answers,)``; a client may answer several times.
    n_samples
        How many samples each could train on.
    loss, square_loss
        Mean loss over the samples trained on, and mean of its square.
    seconds, compute_seconds
        How long each took in all, and how much of that was computing.
    stragglers, straggler_clusters, straggler_seconds
        Who was invited and too slow, for which cluster, and how long each took, shape ``(n_stragglers,)``.
    failed
        Whose answer was no model; of no use, but tried.
    """

    round_index: int
    n_train_samples: int
    clients: Counts
    clusters: Counts
    n_samples: Counts
    loss: Vector
    square_loss: Vector
    seconds: Vector
    compute_seconds: Vector
    stragglers: Counts = field(default_factory=_nobody)
    straggler_clusters: Counts = field(default_factory=_nobody)
    straggler_seconds: Vector = field(default_factory=lambda: np.empty(0))
    failed: Counts = field(default_factory=_nobody)

    def __post_init__(self) -> None:
        for name in ("clusters", "n_samples", "loss", "square_loss", "seconds", "compute_seconds"):
            _check_length(name, getattr(self, name), "clients", self.clients.size)
        for name in ("straggler_clusters", "straggler_seconds"):
            _check_length(name, getattr(self, name), "stragglers", self.stragglers.size)

    @property
    def trained_clusters(self) -> Counts:
        """The clusters that anybody was invited for, rising."""
        return np.union1d(self.clusters, self.straggler_clusters).astype(np.int64)


def _check_length(name: str, values: Counts | Vector, of: str, n_wanted: int) -> None:
    if values.shape != (n_wanted,):
        raise InputError(f"{name} has shape {values.shape} but there are {n_wanted} {of}; give one number each")
