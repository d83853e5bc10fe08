"""FedAvg: the mean of what came back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from fielding._typing import Models
from fielding.federation.aggregation.aggregator import Uploads
from fielding.federation.models import mean_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """Takes the mean of the uploads, whatever they started from (McMahan et al., 2017).

    Examples
    --------
    >>> import numpy as np
    >>> models = np.array([[1.0], [3.0]], dtype=np.float32)
    >>> uploads = Uploads(models=models, weights=None, n_parameters=1, learning_rate=0.1)
    >>> Mean().combine(np.zeros(1, dtype=np.float32), uploads, {})[0].tolist()
    [2.0]
    """

    memory: ClassVar[Mapping[str, float]] = {}
    needs_start_loss: ClassVar[bool] = False

    def combine(
        self,
        model: Models,
        uploads: Uploads,
        memory: Mapping[str, Models],
    ) -> tuple[Models, dict[str, Models]]:
        """Return the mean of the uploads."""
        return mean_model(uploads.models, uploads.weights), {}
