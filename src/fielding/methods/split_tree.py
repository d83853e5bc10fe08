"""The tree of clusters that only ever split: nodes, the clients in them, and how a newcomer finds its leaf."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Membership, Models
from fielding.federation.cluster_models import Arrays
from fielding.methods.gram import cosines

_PREFIX = "tree/"


class SplitTree:
    """A node per cluster that is or was; leaves are the clusters of today, one row of the models each.

    The root is node 0; split number ``s`` makes the nodes ``2 s + 1`` and ``2 s + 2`` of a leaf. A client that stays in
    a node that was split has no cluster until it walked down.

    Parameters
    ----------
    n_clients
        How many clients there are, all of them in the root.
    n_numbers
        Length of a model.

    Examples
    --------
    >>> tree = SplitTree(4, 2)
    >>> model, directions = np.zeros(2, dtype=np.float32), np.eye(2, dtype=np.float32)
    >>> tree.split(0, (np.array([0, 2]), np.array([3])), model=model, directions=directions)
    >>> tree.membership().tolist(), tree.leaves
    ([0, -1, 0, 1], (1, 2))
    """

    def __init__(self, n_clients: int, n_numbers: int) -> None:
        self.leaves: tuple[int, ...] = (0,)
        self._node: Counts = np.zeros(n_clients, dtype=np.int64)
        self._split_of: dict[int, int] = {}
        self.models: Models = np.empty((0, n_numbers), dtype=np.float32)
        self._directions: Models = np.empty((0, 0), dtype=np.float32)

    def grow(self, n_clients: int) -> None:
        """Let clients that joined begin in the root; if that was split, they have to walk down."""
        self._node = np.pad(self._node, (0, n_clients - self._node.size))

    def membership(self) -> Membership:
        """Return the row of each client's leaf, -1 for those that have to walk down."""
        row_of = np.full(2 * len(self._split_of) + 1, -1, dtype=np.int32)
        row_of[list(self.leaves)] = np.arange(len(self.leaves))
        return row_of[self._node]

    def waits(self) -> Mask:
        """Return who has to walk down."""
        return np.asarray(self.membership() < 0)

    def split(self, row: int, parts: tuple[Counts, Counts], *, model: Models, directions: Models) -> None:
        """Split a leaf in two; the first keeps its row, the second gets a new one at the end.

        Parameters
        ----------
        row
            The row of the leaf.
        parts
            The clients of each half; others of the leaf have to walk down.
        model, directions
            What was trained there, and the direction in which each half changed it, shape ``(2, n_parameters)``.
        """
        children = (2 * len(self._split_of) + 1, 2 * len(self._split_of) + 2)
        for child, members in zip(children, parts, strict=True):
            self._node[members] = child
        self._split_of[self.leaves[row]] = len(self._split_of)
        self.leaves = (*self.leaves[:row], children[0], *self.leaves[row + 1 :], children[1])
        self.models = np.concatenate([self.models, model[np.newaxis]])
        before = self._directions if self._directions.size else np.empty((0, directions.shape[1]), dtype=np.float32)
        self._directions = np.concatenate([before, directions.astype(np.float32)])

    def split_at(self, clients: Counts) -> Counts:
        """Return the row of ``models`` that waiting clients have to train to get one node further."""
        return np.array([self._split_of[node] for node in self._node[clients].tolist()], dtype=np.int64)

    def walk(self, clients: Counts, changes: Models) -> None:
        """Take waiting clients one node down, each to the half that changed the model more as it did (ties: the first).

        Parameters
        ----------
        clients
            Who, shape ``(n_clients,)``.
        changes
            How each changed the model of its node, shape ``(n_clients, n_parameters)``.
        """
        splits = self.split_at(clients)
        for at in np.unique(splits).tolist():
            own = np.flatnonzero(splits == at)
            likeness = cosines(changes[own], self._directions[2 * at : 2 * at + 2])
            self._node[clients[own]] = 2 * at + 1 + likeness.argmax(axis=1)

    def arrays(self) -> Arrays:
        """Return everything, for a checkpoint."""
        parents = sorted(self._split_of, key=self._split_of.__getitem__)
        return {
            f"{_PREFIX}node": self._node.copy(),
            f"{_PREFIX}leaves": np.array(self.leaves, dtype=np.int64),
            f"{_PREFIX}parents": np.array(parents, dtype=np.int64),
            f"{_PREFIX}models": self.models,
            f"{_PREFIX}directions": self._directions,
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave."""
        self._node, leaves, parents = (
            arrays[f"{_PREFIX}{name}"].astype(np.int64) for name in ("node", "leaves", "parents")
        )
        self.leaves = tuple(leaves.tolist())
        self._split_of = {parent: at for at, parent in enumerate(parents.tolist())}
        self.models, self._directions = (
            arrays[f"{_PREFIX}{name}"].astype(np.float32) for name in ("models", "directions")
        )
