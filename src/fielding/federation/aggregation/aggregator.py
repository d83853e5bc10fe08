"""What every aggregator can do, and what it is given."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fielding._typing import Models, Vector


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Uploads:
    """What the participants of one cluster sent.

    Parameters
    ----------
    models
        By client, at least one, shape ``(n_participants, n_numbers)``; all finite.
    weights
        What each counts, shape ``(n_participants,)``; None if all count the same.
    n_parameters
        How many of the numbers are parameters; the others are buffers, which only ever take means.
    learning_rate
        Of the local steps.
    start_loss
        Loss of the model that they started from on all of each client's samples, where it was asked for.
    """

    models: Models
    weights: Vector | None
    n_parameters: int
    learning_rate: float
    start_loss: Vector | None = None


class Aggregator(Protocol):
    """Stage 11: makes one model of the models that came back; what it must remember goes in and comes out."""

    @property
    def memory(self) -> Mapping[str, float]:
        """What it remembers per number of every cluster's model, by name, and the value that it begins with."""
        ...

    @property
    def needs_start_loss(self) -> bool:
        """Whether participants have to say how well the model served them before they trained."""
        ...

    def combine(
        self, model: Models, uploads: Uploads, memory: Mapping[str, Models]
    ) -> tuple[Models, dict[str, Models]]:
        """Return the next model of a cluster, and what to remember.

        Parameters
        ----------
        model
            What the participants started from, shape ``(n_numbers,)``.
        uploads
            What they sent.
        memory
            What was remembered, by name, each of shape ``(n_numbers,)``.
        """
        ...
