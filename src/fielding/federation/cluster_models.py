"""All that a method keeps per cluster beside its members: a model, and what the server optimiser remembers of it."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Matrix, Models, Vector
from fielding.federation.aggregation import Aggregator, Uploads
from fielding.federation.clients import Updates
from fielding.federation.models import mixed_models

Arrays = dict[str, npt.NDArray[np.generic]]
_MEMORY = "memory/"


class ClusterModels:
    """One model per cluster, which mix, learn and are written down together with the memory of the server.

    Parameters
    ----------
    initial
        The one model that there is before there are clusters, float32, shape ``(n_numbers,)``.
    aggregator
        How uploads become a model.
    weighted
        Whether a participant counts by its number of samples.
    """

    def __init__(self, initial: Models, aggregator: Aggregator, *, weighted: bool = False) -> None:
        self.models: Models = initial[np.newaxis].astype(np.float32)
        self._aggregator, self._weighted = aggregator, weighted
        self._memory = {name: np.full_like(self.models, first) for name, first in aggregator.memory.items()}

    def mix(self, mixing: Matrix) -> None:
        """Start new clusters from shares of the old ones; what the server remembers is shared out alike (A18)."""
        self.models = mixed_models(self.models, mixing)
        self._memory = {name: mixed_models(rows, mixing) for name, rows in self._memory.items()}

    def learn(self, trained: Counts, updates: Updates) -> None:
        """Combine what came back, cluster by cluster; a model that nobody trained stays as it was.

        Parameters
        ----------
        trained
            The model row of each group of the plan.
        updates
            What came back.
        """
        models, memory = self.models.copy(), {name: rows.copy() for name, rows in self._memory.items()}
        for group in np.unique(updates.groups).tolist():
            # Answers stand by group: a slice is a view, a mask would copy the models once more.
            own = slice(*np.searchsorted(updates.groups, [group, group + 1]).tolist())
            row = int(trained[group])
            before = {name: rows[row] for name, rows in self._memory.items()}
            models[row], after = self._aggregator.combine(self.models[row], self._uploads(updates, own), before)
            for name, remembered in after.items():
                memory[name][row] = remembered
        self.models, self._memory = models, memory

    def _uploads(self, updates: Updates, own: slice) -> Uploads:
        weights: Vector | None = updates.n_samples[own].astype(np.float64) if self._weighted else None
        return Uploads(
            models=updates.models[own],
            weights=weights,
            n_parameters=updates.n_parameters,
            learning_rate=updates.learning_rate,
            start_loss=None if updates.start_loss is None else updates.start_loss[own],
        )

    def arrays(self) -> Arrays:
        """Return models and memory, for a checkpoint."""
        return {"models": self.models, **{f"{_MEMORY}{name}": rows for name, rows in self._memory.items()}}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave."""
        self.models = arrays["models"].astype(np.float32)
        self._memory = {name: arrays[f"{_MEMORY}{name}"].astype(np.float32) for name in self._memory}
