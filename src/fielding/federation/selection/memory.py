"""What a selector remembers, as arrays: one number per client and name, one number per cluster and name."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fielding._typing import Matrix, Vector
from fielding.errors import CheckpointError

Arrays = dict[str, npt.NDArray[np.generic]]
_CLIENT, _CLUSTER = "client/", "cluster/"


class Memory:
    """Clients are remembered over all clusters; clusters each for themselves.

    Parameters
    ----------
    n_clients
        How many clients there are.
    clients, clusters
        The names, each with the value that it begins with.

    Attributes
    ----------
    clients
        By name, float64, shape ``(n_clients,)``.
    clusters
        By name, float64, shape ``(n_clusters,)``; one cluster at first.

    Examples
    --------
    >>> memory = Memory(3, clients={"times": 0.0}, clusters={"exploration": 0.9})
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
        """Let every new cluster remember what its largest parent did (ties: the lower row).

        Parameters
        ----------
        mixing
            Share of each old cluster in each new one, shape ``(n_after, n_before)``.
        """
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
            **{f"{_CLIENT}{name}": column.copy() for name, column in self.clients.items()},
            **{f"{_CLUSTER}{name}": rows.copy() for name, rows in self.clusters.items()},
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave, bit for bit."""
        self.clients = {
            name: restored(arrays, f"{_CLIENT}{name}", column.size) for name, column in self.clients.items()
        }
        self.clusters = {name: restored(arrays, f"{_CLUSTER}{name}") for name in self.clusters}


def restored(arrays: Mapping[str, npt.NDArray[np.generic]], name: str, size: int | None = None) -> Vector:
    """Return an own copy of one array of a checkpoint, or raise if it is not there or of another length."""
    if name not in arrays:
        raise CheckpointError(f"the checkpoint has no array {name!r}; resume with the selector that wrote it")
    column = arrays[name].astype(np.float64)
    if size is not None and column.size != size:
        raise CheckpointError(f"array {name!r} has {column.size} entries, not {size}; resume with the same clients")
    return column
