"""All that FedDrift knows between rounds: its models, who owns which data, and how well clients were served."""

from collections.abc import Mapping

import numpy as np

from fielding._typing import Counts, Mask, Vector
from fielding.federation.cluster_models import Arrays
from fielding.methods.feddrift_blocks import FORGOTTEN, Blocks
from fielding.methods.feddrift_models import NamedModels


class DriftState:
    """Models, blocks and clients, which change together.

    Parameters
    ----------
    named
        The models.
    blocks
        Who owns which data.
    member
        The id of the model of each client, shape ``(n_clients,)``.
    """

    def __init__(self, named: NamedModels, blocks: Blocks, member: Counts) -> None:
        self.named, self.blocks, self.member = named, blocks, member
        self.score: Vector = np.full(member.size, np.nan)
        self.is_due: Mask = np.zeros(member.size, dtype=np.bool_)

    def rows(self) -> Counts:
        """Return the row of each client's model."""
        return self.named.rows(self.member)

    def assign(self, blocks: Mapping[int, Counts], models: list[int]) -> None:
        """Give blocks of clients, and the clients with them, to models.

        Parameters
        ----------
        blocks
            Client to intervals.
        models
            The id of the model of each, in the same order.
        """
        for (client, intervals), model in zip(blocks.items(), models, strict=True):
            self.blocks.give(intervals, client, model=model)
            self.member[client] = model
        self.named.mark_used(np.array(models, dtype=np.int64), self.blocks.newest)

    def unused(self, *, leaving: Counts, needed: Counts) -> Counts:
        """Return the rows that serve nobody and are nobody's alone, longest unused first (ties: older).

        Parameters
        ----------
        leaving
            Clients that do not count, as they are about to leave.
        needed
            Rows that must stay all the same.
        """
        named = self.named
        in_use = np.concatenate([np.delete(self.rows(), leaving), needed])
        rows = np.setdiff1d(np.flatnonzero(named.released <= self.blocks.newest), in_use)
        return rows[np.argsort(named.used[rows], kind="stable")]

    def open(self, sources: list[int], *, dropped: list[int], released: int) -> list[int]:
        """Open models as copies of others and throw some away with all they own; return the new ids."""
        self.blocks.rename(self.named.ids[dropped], FORGOTTEN)
        return self.named.open(sources, dropped=dropped, interval=self.blocks.newest, released=released)

    def unite(self, leader: Counts) -> int:
        """Let models go on as one, averaged by their numbers of blocks, and return how many are averages.

        Parameters
        ----------
        leader
            The oldest row of the group that each row belongs to, shape ``(n_models,)``.
        """
        ids, weights = self.named.ids, self.blocks.n_owned(self.named.ids).astype(np.float64)
        _, groups, sizes = np.unique(leader, return_inverse=True, return_counts=True)
        if (sizes == 1).all():
            return 0
        self.member = ids[leader[self.rows()]]
        for row in np.flatnonzero(leader != np.arange(leader.size)).tolist():
            self.blocks.rename(ids[row : row + 1], int(ids[leader[row]]))
        self.named.merge(groups.astype(np.int64), weights)
        return int((sizes > 1).sum())

    def arrays(self) -> Arrays:
        """Return all of it, for a checkpoint."""
        known: Arrays = {"member": self.member, "score": self.score, "is_due": self.is_due}
        return {**self.named.arrays(), **self.blocks.arrays(), **known}

    def restore(self, arrays: Arrays) -> None:
        """Go on from what :meth:`arrays` gave."""
        self.named.restore(arrays)
        self.blocks.restore(arrays)
        self.member, self.score = arrays["member"].astype(np.int64), arrays["score"].astype(np.float64)
        self.is_due = arrays["is_due"].astype(np.bool_)
