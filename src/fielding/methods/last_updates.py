"""The last update of every client that is not too old, for methods that compare clients of different rounds."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Models
from fielding.federation.cluster_models import Arrays

_PREFIX = "last/"


class LastUpdates:
    """Keeps one update per client, and none that is older than so many rounds.

    Parameters
    ----------
    max_age
        Rounds after which an update is dropped; 0 keeps those of the newest round alone.

    Attributes
    ----------
    clients, rounds
        Whose update, rising, and of which round, shape ``(n_updates,)``.
    changes
        float32, shape ``(n_updates, n_parameters)``.

    Examples
    --------
    >>> last = LastUpdates(1)
    >>> last.note(np.array([4, 7]), np.zeros((2, 3), dtype=np.float32), 0)
    >>> last.note(np.array([4]), np.ones((1, 3), dtype=np.float32), 1)
    >>> last.note(np.array([2]), np.ones((1, 3), dtype=np.float32), 2)
    >>> last.clients.tolist(), last.rounds.tolist()
    ([2, 4], [2, 1])
    """

    def __init__(self, max_age: int) -> None:
        self._max_age = max_age
        self.forget()

    def forget(self) -> None:
        """Drop everything."""
        self.clients: Counts = np.empty(0, dtype=np.int64)
        self.rounds: Counts = np.empty(0, dtype=np.int64)
        self.changes: Models = np.empty((0, 0), dtype=np.float32)

    def note(self, clients: Counts, changes: Models, round_index: int) -> None:
        """Take in the updates of a round, each client once, and drop what they replace and what is too old."""
        kept = (round_index - self.rounds <= self._max_age) & ~np.isin(self.clients, clients)
        everyone = np.concatenate([self.clients[kept], clients])
        order = np.argsort(everyone, kind="stable")
        rounds = np.concatenate([self.rounds[kept], np.full(clients.size, round_index, dtype=np.int64)])
        self.clients, self.rounds = everyone[order], rounds[order]
        self.changes = np.concatenate([self.changes[kept], changes])[order] if kept.any() else changes[order]

    def arrays(self) -> Arrays:
        """Return everything, for a checkpoint."""
        return {f"{_PREFIX}{name}": getattr(self, name) for name in ("clients", "rounds", "changes")}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave."""
        self.clients, self.rounds = (arrays[f"{_PREFIX}{name}"].astype(np.int64) for name in ("clients", "rounds"))
        self.changes = arrays[f"{_PREFIX}changes"].astype(np.float32)
