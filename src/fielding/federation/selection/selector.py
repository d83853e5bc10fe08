"""What every selector can do."""

from dataclasses import dataclass
from typing import Protocol

from fielding._typing import Counts
from fielding.rng import Hashes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """The members of one cluster that could be asked to train now.

    Parameters
    ----------
    clients
        Their indices, rising, shape ``(n_candidates,)``.
    draws
        A random number for each that depends on seed, round and the client's id alone, same shape.
    """

    clients: Counts
    draws: Hashes


class Selector(Protocol):
    """Stage 9: chooses who trains."""

    def select(self, candidates: Candidates, n_wanted: int) -> Counts:
        """Return the indices of at most ``n_wanted`` different candidates, rising."""
        ...
