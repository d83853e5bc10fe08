"""What every selector can do, and what it is given."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fielding._typing import Counts, Vector
from fielding.federation.selection.feedback import Feedback
from fielding.federation.selection.memory import Memory
from fielding.rng import Hashes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """What a selector learnt in earlier rounds, as far as it matters to one cluster.

    Parameters
    ----------
    round_index
        The round now, from 0.
    clients
        What is remembered of all clients, by name, each of shape ``(n_clients,)``; not to be written to.
    cluster
        What is remembered of the cluster, by name.
    members
        The clients of the cluster, whether or not they can be asked now, rising; all candidates are among them.
    """

    round_index: int
    clients: Mapping[str, Vector]
    cluster: Mapping[str, float]
    members: Counts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """The members of one cluster that could be asked to train now.

    Parameters
    ----------
    clients
        Their indices, rising, shape ``(n_candidates,)``.
    draws
        A random number for each that depends on seed, round and the client's id alone, same shape.
    distances
        How far each lies from the center of the cluster, infinite where unknown, for selectors that ask for it.
    known
        What was learnt of them, for selectors that learn.
    """

    clients: Counts
    draws: Hashes
    distances: Vector | None = None
    known: Known | None = None


class Selector(Protocol):
    """Stage 9: chooses who trains. It holds options only; what it remembers is kept by a ``Selection``."""

    @property
    def client_memory(self) -> Mapping[str, float]:
        """What it remembers of every client, by name, and the value that it begins with."""
        ...

    @property
    def cluster_memory(self) -> Mapping[str, float]:
        """What it remembers of every cluster, by name, and the value that it begins with."""
        ...

    @property
    def needs_reports(self) -> bool:
        """Whether clients have to report even to a method that does not listen."""
        ...

    @property
    def needs_distances(self) -> bool:
        """Whether it asks how far candidates lie from the center of their cluster."""
        ...

    def select(self, candidates: Candidates, n_wanted: int) -> Counts:
        """Return the indices of ``n_wanted`` different candidates, or of all if they are fewer, rising."""
        ...


@runtime_checkable
class Learner(Protocol):
    """A selector that remembers."""

    def hear(self, clients: Counts, n_samples: Counts | None, memory: Memory) -> None:
        """Write down that clients reported, and how many samples they have, where they said it."""
        ...

    def learn(self, feedback: Feedback, memory: Memory) -> None:
        """Write down how training went."""
        ...


@runtime_checkable
class Tuner(Protocol):
    """A selector that also says how much its participants do."""

    def steps(self, clients: Counts, n_steps: int, n_kept: int | None, memory: Memory) -> Counts:
        """Return the local steps of each participant."""
        ...

    def upload_shares(self, clients: Counts, memory: Memory) -> Vector:
        """Return the share of its update that each participant sends."""
        ...
