"""The model that each client trained last, which it keeps for itself between rounds (MOON)."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Models
from fielding.errors import CheckpointError, echo

CLIENTS, MODELS = "previous.clients", "previous.models"
"""Names of the arrays of a checkpoint."""


class Keepsakes:
    """The previous models of those clients that have trained.

    Nothing of it is ever sent. It takes a model's worth of memory for each client that has trained, on that client in
    life, and as much again in every checkpoint.

    Examples
    --------
    >>> keepsakes = Keepsakes()
    >>> keepsakes.keep(np.array([5, 3, 5]), np.array([[1, 1], [2, 2], [3, 3]], dtype=np.float32))
    >>> models, has_one = keepsakes.of(np.array([4, 5]), 2)
    >>> models.tolist(), has_one.tolist()
    ([[0.0, 0.0], [3.0, 3.0]], [False, True])
    """

    def __init__(self) -> None:
        self._models: dict[int, Models] = {}

    def keep(self, clients: Counts, models: Models) -> None:
        """Let clients keep the models that they trained; a client with several keeps the last.

        Parameters
        ----------
        clients
            Who, shape ``(n_jobs,)``.
        models
            What each trained, float32, shape ``(n_jobs, n_numbers)``; copied. One that is not finite is not kept: the
            client keeps what it had.
        """
        for client, model in zip(clients.tolist(), models, strict=True):
            if np.isfinite(model).all():
                self._models[client] = model.copy()  # a view would hold the models of the whole round

    def has(self, clients: Counts) -> Mask:
        """Return who has trained before, shape ``(n_clients,)``."""
        return np.array([client in self._models for client in clients.tolist()], dtype=np.bool_)

    def of(self, clients: Counts, n_numbers: int) -> tuple[Models, Mask]:
        """Return the previous models of some clients, each of so many numbers, and who has one; zeros without."""
        models = np.zeros((clients.size, n_numbers), dtype=np.float32)
        for at, client in enumerate(clients.tolist()):
            if client in self._models:
                models[at] = self._models[client]
        return models, self.has(clients)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return all that a checkpoint needs: clients, <i8, rising, and their models, <f4, a row each."""
        clients = np.array(sorted(self._models), dtype="<i8")
        n_numbers = next(iter(self._models.values())).size if self._models else 0
        return {CLIENTS: clients, MODELS: self.of(clients, n_numbers)[0].astype("<f4", copy=False)}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go back to what :meth:`arrays` gave.

        Raises
        ------
        CheckpointError
            If the arrays are missing or do not fit together.
        """
        if lacking := {CLIENTS, MODELS} - arrays.keys():
            raise CheckpointError(f"the checkpoint lacks {echo(min(lacking))}; resume with the options it began with")
        clients, models = arrays[CLIENTS], arrays[MODELS]
        if models.ndim != 2 or clients.shape != models.shape[:1]:
            raise CheckpointError(
                f"{CLIENTS} and {MODELS} of the checkpoint have shapes {clients.shape} and {models.shape}; "
                "give a row per client"
            )
        self._models.clear()
        self.keep(clients.astype(np.int64), models.astype(np.float32))
