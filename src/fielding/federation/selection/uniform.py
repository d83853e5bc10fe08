"""Everyone has the same chance."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fielding._typing import Counts
from fielding.federation.selection.sampling import smallest_draws
from fielding.federation.selection.selector import Candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    """Chooses uniformly, without replacement.

    Examples
    --------
    >>> candidates = Candidates(clients=np.array([3, 5, 8]), draws=np.array([9, 2, 4], dtype=np.uint64))
    >>> Uniform().select(candidates, 2).tolist()
    [5, 8]
    """

    client_memory: ClassVar[Mapping[str, float]] = {}
    cluster_memory: ClassVar[Mapping[str, float]] = {}
    needs_reports: ClassVar[bool] = False
    needs_distances: ClassVar[bool] = False

    def select(self, candidates: Candidates, n_wanted: int) -> Counts:
        """Return the candidates with the smallest draws (ties: lower index), rising."""
        return np.sort(candidates.clients[smallest_draws(candidates.draws, n_wanted)])
