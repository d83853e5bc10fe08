"""q-FedAvg: clients that are served badly count more (Li et al., ICLR 2020; METHODS.md 8.4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fielding._typing import Models
from fielding.errors import InputError
from fielding.federation.aggregation.aggregator import Uploads, check_below
from fielding.federation.models import mean_model

_LEAST_LOSS = 1e-10


@dataclass(frozen=True, slots=True, kw_only=True)
class QFedAvg:
    """Weighs every client's change by its loss before training to the power of q.

    With the local learning rate as 1 / Lipschitz constant: ``g_k = (w - w_k) / lr``, ``D_k = F_k^q g_k``,
    ``h_k = q F_k^(q-1) |g_k|^2 + F_k^q / lr``, ``w -= sum D_k / sum h_k``. With q = 0 that is the mean. The reading of
    a change as a gradient supposes plain SGD: momentum makes it about 1 / (1 - momentum) too large. Buffers take the
    mean.

    Parameters
    ----------
    q
        How much fairness counts, from 0.
    """

    q: float = 1.0
    memory: ClassVar[Mapping[str, float]] = {}
    needs_start_loss: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_below("q", self.q, 100.0)

    def combine(
        self, model: Models, uploads: Uploads, memory: Mapping[str, Models]
    ) -> tuple[Models, dict[str, Models]]:
        """Return the fair step from the model."""
        if uploads.start_loss is None:
            raise InputError("q-FedAvg needs the loss of each participant before training; ask for it in the plan")
        new = mean_model(uploads.models, uploads.weights)
        part = slice(0, uploads.n_parameters)
        start, rate = model[part].astype(np.float64), uploads.learning_rate
        loss = uploads.start_loss + _LEAST_LOSS
        powers, slopes = loss**self.q, self.q * loss ** (self.q - 1.0)
        step, scale = np.zeros(start.size), 0.0
        for upload, power, slope in zip(uploads.models, powers.tolist(), slopes.tolist(), strict=True):
            gradient = (start - upload[part]) / rate
            step += power * gradient
            scale += slope * float(gradient @ gradient) + power / rate
        new[part] = start - step / scale
        return new, {}
