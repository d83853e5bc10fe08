"""What every aggregator can do."""

from typing import Protocol

from fielding._typing import Models, Vector


class Aggregator(Protocol):
    """Stage 11: makes one model of the models that came back."""

    def combine(self, model: Models, uploads: Models, weights: Vector | None) -> Models:
        """Return the next model of a cluster.

        Parameters
        ----------
        model
            What the participants started from, shape ``(n_numbers,)``.
        uploads
            What they sent, by client, at least one, shape ``(n_participants, n_numbers)``.
        weights
            What each counts, shape ``(n_participants,)``; None if all count the same.
        """
        ...
