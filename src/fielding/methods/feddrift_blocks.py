"""Which model owns which block of data: the samples that came to one client in one interval."""

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask
from fielding.federation.cluster_models import Arrays

NOBODY = -1
"""Owner of a block that no model was found for yet."""
FORGOTTEN = -2
"""Owner of a block whose model was thrown away."""
EMPTY = -3
"""Owner of a block that is known to hold no samples."""
_OWNER, _FILLED = "block_owner", "block_filled"


class Blocks:
    """A table of owners, interval by client; a block has one owner or none.

    Parameters
    ----------
    n_clients
        How many clients there are.
    n_visible
        How many of the newest intervals count; None for all.

    Examples
    --------
    >>> blocks = Blocks(2, None)
    >>> blocks.grow(1, np.array([True, False]), np.array([True, True]))
    True
    >>> blocks.give(np.array([0, 1]), 0, model=7)
    >>> blocks.of(0, 7).tolist(), blocks.unowned(1).tolist(), blocks.owning(7).tolist()
    ([0, 1], [0], [True, False])
    """

    def __init__(self, n_clients: int, n_visible: int | None) -> None:
        self.owner: npt.NDArray[np.int32] = np.empty((0, n_clients), dtype=np.int32)
        self.filled: Mask = np.empty((0, n_clients), dtype=np.bool_)
        self._n_visible = n_visible

    @property
    def newest(self) -> int:
        """The newest interval, -1 before the first."""
        return len(self.owner) - 1

    @property
    def first(self) -> int:
        """The oldest interval that counts."""
        return 0 if self._n_visible is None else max(0, self.newest + 1 - self._n_visible)

    def grow(self, interval: int, is_filled: Mask, is_known: Mask) -> bool:
        """Add intervals up to one, and return whether there are new ones.

        Parameters
        ----------
        interval
            The newest that has come; of those between nothing is known.
        is_filled
            Who is known to have samples of it.
        is_known
            Who has none of it unless known to.
        """
        n_new = interval - self.newest
        if n_new <= 0:
            return False
        shape = (n_new, self.owner.shape[1])
        self.owner = np.concatenate([self.owner, np.full(shape, NOBODY, dtype=np.int32)])
        self.filled = np.concatenate([self.filled, np.zeros(shape, dtype=np.bool_)])
        self.filled[-1] = is_filled
        self.owner[-1, is_known & ~is_filled] = EMPTY
        return True

    def begin(self, who: Mask, models: Counts) -> None:
        """Give all blocks of some clients, which hold samples together, to their first models."""
        self.owner[:, who] = np.where(self.owner[:, who] == EMPTY, EMPTY, models[who])
        if self._n_visible is None:
            # Which of the earlier blocks hold the samples is not known; as long as none is left out, some do.
            self.filled[:-1, who & ~self.filled[-1]] = True

    def give(self, intervals: Counts, client: int, *, model: int) -> None:
        """Let a model own some blocks of a client that hold samples together."""
        self.owner[intervals, client] = model
        if intervals.size == 1:
            self.filled[intervals, client] = True

    def give_unowned(self, who: Mask, models: Counts) -> Counts:
        """Let models own the blocks of some clients that count and have no owner, and return whose there were.

        Parameters
        ----------
        who
            Whose blocks, shape ``(n_clients,)``; whether they hold samples may not be known.
        models
            The model of each client, same shape.
        """
        owner = self.owner[self.first :]
        is_given = who & (owner == NOBODY)
        owner[is_given] = np.broadcast_to(models, owner.shape)[is_given]
        return np.flatnonzero(is_given.any(axis=0))

    def rename(self, old: Counts, new: int) -> None:
        """Give all that some models own to another one."""
        self.owner[np.isin(self.owner, old)] = new

    def unowned(self, client: int) -> Counts:
        """Return the intervals of a client that count and have no owner, rising."""
        return self._where(client, NOBODY)

    def of(self, client: int, model: int) -> Counts:
        """Return the intervals of a client that count and that a model owns, rising."""
        return self._where(client, model)

    def owned(self, client: int) -> Counts:
        """Return the intervals of a client that count and that any model owns, rising."""
        return self.first + np.flatnonzero(self.owner[self.first :, client] >= 0)

    def n_owned(self, models: Counts) -> Counts:
        """Return how many blocks that count each model owns."""
        owner = self.owner[self.first :]
        return np.array([np.count_nonzero(owner == model) for model in models.tolist()], dtype=np.int64)

    def owning(self, model: int) -> Mask:
        """Return of which clients a model owns a block that counts, shape ``(n_clients,)``."""
        return np.asarray((self.owner[self.first :] == model).any(axis=0))

    def trainable(self, model: int) -> Mask:
        """Return which clients, if they have samples now, certainly have some that the model owns.

        One of its blocks is known to hold samples, or all that count and may hold some are its own.
        """
        owner = self.owner[self.first :]
        is_own = owner == model
        is_all = is_own.any(axis=0) & (is_own | (owner == EMPTY)).all(axis=0)
        return np.asarray((is_own & self.filled[self.first :]).any(axis=0) | is_all)

    def arrays(self) -> Arrays:
        """Return the table, for a checkpoint."""
        return {_OWNER: self.owner, _FILLED: self.filled}

    def restore(self, arrays: Arrays) -> None:
        """Go on from what :meth:`arrays` gave."""
        self.owner, self.filled = arrays[_OWNER].astype(np.int32), arrays[_FILLED].astype(np.bool_)

    def _where(self, client: int, owner: int) -> Counts:
        return self.first + np.flatnonzero(self.owner[self.first :, client] == owner)
