"""Clients that are most like their cluster: the Fielding paper's second selector (METHODS.md 9.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import ClassVar

import numpy as np

from fielding._typing import Counts
from fielding.federation.selection.selector import Candidates, check_between, smallest_draws


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """Draws more than are wanted uniformly, and of these takes the nearest to the center of the cluster.

    A client that is unlike the rest of its cluster is chosen less often. Never chosen are the farthest, as many as are
    drawn beyond those wanted; with an infinite pool all but the nearest. Ties go by lot. A candidate without a report
    stands behind all others; if none reported, the choice is uniform.

    Parameters
    ----------
    pool
        How many are drawn for each that is wanted, from 1 (uniform) to infinity (no lot at all).

    Examples
    --------
    >>> draws, distances = np.array([1, 2, 3], dtype=np.uint64), np.array([0.5, 0.3, 0.1])
    >>> candidates = Candidates(clients=np.array([4, 6, 7]), draws=draws, distances=distances)
    >>> Nearest(pool=2.0).select(candidates, 1).tolist(), Nearest(pool=float("inf")).select(candidates, 1).tolist()
    ([6], [7])
    """

    pool: float = 2.0
    client_memory: ClassVar[Mapping[str, float]] = {}
    cluster_memory: ClassVar[Mapping[str, float]] = {}
    needs_reports: ClassVar[bool] = True
    needs_distances: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_between("pool", self.pool, 1.0)

    def select(self, candidates: Candidates, n_wanted: int) -> Counts:
        """Return the nearest of the candidates in the pool, rising."""
        n_drawn = min(self.pool * max(0, n_wanted), candidates.clients.size) if n_wanted > 0 else 0
        drawn = smallest_draws(candidates.draws, ceil(n_drawn))
        if candidates.distances is None:
            return np.sort(candidates.clients[drawn[: max(0, n_wanted)]])
        # The drawn stand in the order of their draws, which a stable sort keeps among equals.
        order = np.argsort(candidates.distances[drawn], kind="stable")
        return np.sort(candidates.clients[drawn[order[: max(0, n_wanted)]]])
