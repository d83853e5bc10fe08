"""FedAvg: the mean of what came back."""

from dataclasses import dataclass

from fielding._typing import Models, Vector
from fielding.federation.models import mean_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """Takes the mean of the uploads, whatever they started from (McMahan et al., 2017).

    Examples
    --------
    >>> import numpy as np
    >>> uploads = np.array([[1.0, 2.0], [3.0, 6.0]], dtype=np.float32)
    >>> Mean().combine(np.zeros(2, dtype=np.float32), uploads, None).tolist()
    [2.0, 4.0]
    """

    def combine(self, model: Models, uploads: Models, weights: Vector | None) -> Models:  # noqa: ARG002
        """Return the mean of the uploads."""
        return mean_model(uploads, weights)
