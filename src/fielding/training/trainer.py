"""What every trainer can do, and what it is asked to do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Features, Json, Mask, Models, Vector
from fielding.training.layout import Layout

Gather: TypeAlias = Callable[[Counts], tuple[Features, Codes]]
"""Returns features ``(n, ...)`` and labels ``(n,)`` of schedule entries given by position, ``(n,)``. Thread-safe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sgd:
    """Stochastic gradient descent with momentum, weight decay and FedProx, as in PyTorch's ``SGD``.

    A step with gradient ``g`` at ``w``, started from ``w0``: ``g += weight_decay * w + prox * (w - w0)``;
    ``v = momentum * v + g`` (first step: ``v = g``); ``w -= learning_rate * v``. The velocity starts anew each
    round. All parameters decay, biases too; buffers take no step.
    """

    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    prox: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalWork:
    """What some participants of a round do.

    Parameters
    ----------
    models
        The models to start from, float32, shape ``(n_models, n_numbers)``; never written to.
    start
        Which of them each participant starts from, shape ``(n_participants,)``.
    draws
        Schedule entries of each participant's mini-batches, shape ``(n_participants, n_steps, batch_size)``.
    gather
        Fetches features and labels of entries.
    sgd
        The rule of a step.
    """

    models: Models
    start: Counts
    draws: Counts
    gather: Gather
    sgd: Sgd


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trained:
    """What local training gave, a row per participant.

    Parameters
    ----------
    models
        float32, shape ``(n_participants, n_numbers)``.
    loss
        Mean loss over all samples trained on, each under the weights before its step, shape ``(n_participants,)``.
    square_loss
        Mean of the squared losses of the same samples.
    """

    models: Models
    loss: Vector
    square_loss: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPath:
    """How a trainer works, settled by a rule on the model and its inputs alone, so that results repeat.

    Parameters
    ----------
    name
        ``"stacked"``: participants together; ``"sequential"``: one by one.
    chunk
        Participants per call of :meth:`Trainer.train`; the rows of one call may influence each other's rounding.
    n_threads
        Threads that one call uses inside; several calls run at once only if it is 1.
    eval_chunk
        Samples per call of :meth:`Trainer.scores`.
    """

    name: str
    chunk: int
    n_threads: int
    eval_chunk: int

    def record(self) -> dict[str, Json]:
        """Return the path as the manifest holds it."""
        return {"path": self.name, "chunk": self.chunk, "n_threads": self.n_threads, "eval_chunk": self.eval_chunk}


def path_from(record: Mapping[str, Json]) -> TrainingPath:
    """Return the path that a manifest holds."""
    return TrainingPath(
        name=str(record["path"]),
        chunk=int(str(record["chunk"])),
        n_threads=int(str(record["n_threads"])),
        eval_chunk=int(str(record["eval_chunk"])),
    )


class Trainer(Protocol):
    """Trains and scores models of one architecture; has no memory, and may be called from several threads."""

    @property
    def layout(self) -> Layout:
        """What the numbers of a model mean."""
        ...

    @property
    def path(self) -> TrainingPath:
        """How it works."""
        ...

    def initial_model(self, seed: int) -> Models:
        """Return the model that training starts from, float32, shape ``(n_numbers,)``."""
        ...

    def train(self, work: LocalWork) -> Trained:
        """Do the local steps of at most ``path.chunk`` participants."""
        ...

    def scores(self, model: Models, x: Features, y: Codes) -> tuple[npt.NDArray[np.float32], Mask]:
        """Return the loss of each sample under a model, and whether its most likely class is right (ties: lowest)."""
        ...
