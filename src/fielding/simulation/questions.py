"""What clients are asked beside training, and what answering costs them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fielding._typing import Counts, Mask, Models
from fielding.federation.ledger import Costs
from fielding.simulation.task_costs import BYTES_PER_NUMBER, is_first


def _no_models() -> Models:
    return np.empty((0, 0), dtype=np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """How models do on the samples of some clients, or, without models, something about the samples.

    Parameters
    ----------
    clients
        Who is asked, shape ``(n_asked,)``; a client may be asked several times.
    blocks
        Per question, the intervals whose samples count; None for the window.
    models
        What it is about, float32, shape ``(n_models, n_numbers)``.
    held
        Who has these models already, same shape as ``clients``; None for nobody.
    aside
        Whether it is about the samples of the window that clients keep aside.
    more_passes
        Samples that each client puts through a model beside those it is asked about, for each model, same shape; None
        for none.
    """

    clients: Counts
    blocks: Sequence[Counts] | None
    models: Models = field(default_factory=_no_models)
    held: Mask | None = None
    aside: bool = False
    more_passes: Counts | None = None

    @property
    def n_answers(self) -> int:
        """How many numbers a client sends: one per model, or one."""
        return self.models.shape[0] or 1

    def costs(self, reached: Counts, sizes: Counts) -> Costs:
        """Return what the answers cost; who is asked twice downloads the models once.

        Parameters
        ----------
        reached
            Which of the questions are answered.
        sizes
            How many samples each question is about, shape ``(n_asked,)``.

        Examples
        --------
        >>> models, held = np.zeros((2, 5), dtype=np.float32), np.array([False, False, True])
        >>> question = Question(clients=np.array([4, 4, 7]), blocks=None, models=models, held=held)
        >>> costs = question.costs(np.arange(3), np.array([10, 20, 30]))
        >>> np.asarray(costs.down_bytes).tolist(), costs.up_bytes, np.asarray(costs.forward_samples).tolist()
        ([40, 0, 0], 8, [20, 40, 60])
        """
        is_sent = is_first(self.clients[reached])
        if self.held is not None:
            is_sent = is_sent * ~self.held[reached]
        seen = sizes if self.more_passes is None else sizes + self.more_passes
        return Costs(
            down_bytes=BYTES_PER_NUMBER * self.models.size * is_sent,
            up_bytes=BYTES_PER_NUMBER * self.n_answers,
            forward_samples=seen[reached] * self.models.shape[0],
        )
