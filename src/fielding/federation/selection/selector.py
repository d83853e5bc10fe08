"""What every selector can do, what it is given, and what it remembers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Matrix, Vector
from fielding.errors import CheckpointError, InputError, OptionError, echo
from fielding.rng import Hashes

Arrays = dict[str, npt.NDArray[np.generic]]


class SelectionMemory:
    """What a selector remembers of clients, over all clusters, and of each cluster.

    ``clients``: by name, float64, shape ``(n_clients,)``. ``clusters``: by name, float64, shape ``(n_clusters,)``; one
    cluster at first.

    Examples
    --------
    >>> memory = SelectionMemory(3, clients={"times": 0.0}, clusters={"exploration": 0.9})
    >>> memory.clusters["exploration"][0] = 0.5
    >>> memory.inherit(np.array([[1.0], [1.0]]))
    >>> memory.grow(3)
    >>> memory.clusters["exploration"].tolist()
    [0.5, 0.5, 0.9]
    >>> memory.clients["times"][0] = 7.0
    >>> memory.grow_clients(4)
    >>> memory.clients["times"].tolist()
    [7.0, 0.0, 0.0, 0.0]
    """

    def __init__(self, n_clients: int, *, clients: Mapping[str, float], clusters: Mapping[str, float]) -> None:
        self._first, self._first_of_client = dict(clusters), dict(clients)
        self.clients: dict[str, Vector] = {name: np.full(n_clients, first) for name, first in clients.items()}
        self.clusters: dict[str, Vector] = {name: np.full(1, first) for name, first in clusters.items()}

    def grow(self, n_clusters: int) -> None:
        """Make sure that there are rows for so many clusters; new ones begin afresh."""
        for name, rows in self.clusters.items():
            if rows.size < n_clusters:
                fresh = np.full(n_clusters - rows.size, self._first[name])
                self.clusters[name] = np.concatenate([rows, fresh])

    def grow_clients(self, n_clients: int) -> None:
        """Make room for clients that joined, of whom nothing is known yet; there are never fewer than before."""
        for name, column in self.clients.items():
            fresh = np.full(n_clients - column.size, self._first_of_client[name])
            self.clients[name] = np.concatenate([column, fresh])

    def inherit(self, mixing: Matrix) -> None:
        """Let every new cluster remember what its largest parent did, by their shares (ties: the lower row)."""
        self.grow(mixing.shape[1])
        parents = mixing.argmax(axis=1)
        self.clusters = {name: rows[parents] for name, rows in self.clusters.items()}

    def row(self, cluster: int) -> dict[str, float]:
        """Return what is remembered of one cluster."""
        return {
            name: float(rows[cluster]) if cluster < rows.size else self._first[name]
            for name, rows in self.clusters.items()
        }

    def arrays(self) -> Arrays:
        """Return copies of everything, for a checkpoint."""
        return {
            **{f"client/{name}": column.copy() for name, column in self.clients.items()},
            **{f"cluster/{name}": rows.copy() for name, rows in self.clusters.items()},
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave, bit for bit; what another selector did not remember begins afresh."""
        stored = {name: column.astype(np.float64) for name, column in arrays.items()}
        for name, column in self.clients.items():
            found = stored.get(f"client/{name}", column)
            if found.size != column.size:
                raise CheckpointError(
                    f"array 'client/{name}' has {found.size} entries, not {column.size}; resume with the same clients"
                )
            self.clients[name] = found
        self.clusters = {name: stored.get(f"cluster/{name}", rows) for name, rows in self.clusters.items()}


def _none() -> Counts:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feedback:
    """How the training of one round went: answers first, then the stragglers."""

    round_index: int
    n_train_samples: int  # local steps times batch size: a client counts for no more samples than it can train on
    # Whose answer, and the cluster it trained for, shape (n_answers,); a client may answer several times.
    clients: Counts
    clusters: Counts
    n_samples: Counts  # how many samples each could train on
    # Mean loss over the samples trained on, and mean of its square.
    loss: Vector
    square_loss: Vector
    # How long each took in all, and how much of that was computing.
    seconds: Vector
    compute_seconds: Vector
    # Clients that were invited and too slow, for which cluster, and how long each took, shape (n_stragglers,).
    stragglers: Counts = field(default_factory=_none)
    straggler_clusters: Counts = field(default_factory=_none)
    straggler_seconds: Vector = field(default_factory=lambda: np.empty(0))
    failed: Counts = field(default_factory=_none)  # clients whose answer was no model; of no use, but tried

    def __post_init__(self) -> None:
        of_answers = ("clusters", "n_samples", "loss", "square_loss", "seconds", "compute_seconds")
        for of, names in (("clients", of_answers), ("stragglers", ("straggler_clusters", "straggler_seconds"))):
            n_wanted = getattr(self, of).size
            for name in names:
                if (shape := getattr(self, name).shape) != (n_wanted,):
                    raise InputError(f"{name} has shape {shape} but there are {n_wanted} {of}; give one number each")

    @property
    def trained_clusters(self) -> Counts:
        """The clusters that any client was invited for, rising."""
        return np.union1d(self.clusters, self.straggler_clusters).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """What a selector learnt in earlier rounds, as far as it matters to one cluster."""

    round_index: int  # the round now, from 0
    # What is remembered of all clients, by name, each of shape (n_clients,); not to be written to.
    clients: Mapping[str, Vector]
    cluster: Mapping[str, float]  # what is remembered of the cluster, by name
    # The clients of the cluster, whether or not they can be asked now, rising; all candidates are among them.
    members: Counts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """The members of one cluster that could be asked to train now."""

    clients: Counts  # their indices, rising, shape (n_candidates,)
    draws: Hashes  # a random number for each that depends on seed, round and the client's id alone, same shape
    # How far each lies from the center of the cluster, infinite where unknown, for selectors that ask for it.
    distances: Vector | None = None
    known: Known | None = None  # what was learnt of them, for selectors that learn


class Selector(Protocol):
    """Stage 9: chooses the clients that train. It holds options only; what it remembers is kept by a ``Selection``."""

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

    def note_reports(self, clients: Counts, n_samples: Counts | None, memory: SelectionMemory) -> None:
        """Write down that clients reported, and how many samples they have, where that is known."""
        ...

    def learn(self, feedback: Feedback, memory: SelectionMemory) -> None:
        """Write down how training went."""
        ...


@runtime_checkable
class Tuner(Protocol):
    """A selector that also says how much its participants do."""

    def steps(self, clients: Counts, n_steps: int, n_kept: int | None, memory: SelectionMemory) -> Counts:
        """Return the local steps of each participant."""
        ...

    def upload_shares(self, clients: Counts, memory: SelectionMemory) -> Vector:
        """Return the share of its update that each participant sends."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    """Chooses uniformly, without replacement."""

    client_memory: ClassVar[Mapping[str, float]] = {}
    cluster_memory: ClassVar[Mapping[str, float]] = {}
    needs_reports: ClassVar[bool] = False
    needs_distances: ClassVar[bool] = False

    def select(self, candidates: Candidates, n_wanted: int) -> Counts:
        """Return the candidates with the smallest draws (ties: lower index), rising."""
        return np.sort(candidates.clients[smallest_draws(candidates.draws, n_wanted)])


def check_between(name: str, value: object, low: float, high: float = float("inf")) -> None:
    """Raise unless the option is a number from ``low`` to ``high``, both included.

    Examples
    --------
    >>> check_between("clip", 2, 0.0, 1.0)
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: clip is 2; give a number from 0 to 1
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise OptionError(f"{name} is {echo(value)}; give a number from {low:g} to {high:g}")


def check_at_least(name: str, value: object, low: int) -> None:
    """Raise unless the option is a whole number of at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise OptionError(f"{name} is {echo(value)}; give a whole number of at least {low}")


def uniforms(draws: Hashes) -> Vector:
    """Return numbers strictly between 0 and 1, one for each hash."""
    # Half a step off zero, so that the logarithm is finite; 52 bits, so that the last one is still below 1.
    return np.asarray(((draws >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52)


def smallest_draws(draws: Hashes, n_wanted: int) -> Counts:
    """Return the positions of the smallest hashes (ties: the first): a uniform sample."""
    return np.argsort(draws, kind="stable")[: max(0, n_wanted)]


def weighted_sample(weights: Vector, draws: Hashes, n_wanted: int) -> Counts:
    """Return positions drawn one after the other by weight, without replacement.

    With keys ``-log(u) / weight`` the smallest ones are such a sample (Efraimidis and Spirakis, 2006), and no draw
    has to wait for the one before it. Positions without weight are taken last, by their hashes.

    ``weights``: not negative, shape ``(n_candidates,)``; their sum does not matter. ``draws``: one hash for each, same
    shape.

    Examples
    --------
    >>> draws = np.array([5, 2**63, 9], dtype=np.uint64)
    >>> weighted_sample(np.array([0.0, 1.0, 0.0]), draws, 2).tolist()
    [1, 0]
    """
    keys = np.full(weights.size, np.inf)
    with np.errstate(over="ignore"):  # next to no weight is as good as none
        np.divide(-np.log(uniforms(draws)), weights, out=keys, where=weights > 0.0)
    return np.lexsort((draws, keys))[: max(0, n_wanted)]
