"""Everyone has the same chance."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts
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

    def select(self, candidates: Candidates, n_wanted: int) -> Counts:
        """Return the candidates with the smallest draws (ties: lower index), rising."""
        order = np.argsort(candidates.draws, kind="stable")
        return np.sort(candidates.clients[order[: max(0, n_wanted)]])
