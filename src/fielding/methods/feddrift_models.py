"""Models that are opened, merged and thrown away while clients go on: each has an id of its own."""

import numpy as np

from fielding._typing import Counts, Matrix, Vector
from fielding.federation.cluster_models import Arrays, ClusterModels

_COLUMNS = ("model_id", "opened", "released", "used")


class NamedModels:
    """Rows of cluster models with ids that rise and are never used again.

    Parameters
    ----------
    models
        One row; it becomes several alike.
    n_models
        How many.

    Examples
    --------
    >>> from fielding.federation.aggregation import Mean
    >>> named = NamedModels(ClusterModels(np.zeros(3, dtype=np.float32), Mean()), 2)
    >>> named.open([1], dropped=[0], interval=4, released=5)
    [2]
    >>> named.ids.tolist(), named.released.tolist(), named.rows(np.array([2, 1])).tolist()
    ([1, 2], [0, 5], [1, 0])
    """

    def __init__(self, models: ClusterModels, n_models: int) -> None:
        self.cluster_models = models
        models.mix(np.ones((n_models, 1)))
        self._columns: dict[str, Counts] = {name: np.zeros(n_models, dtype=np.int64) for name in _COLUMNS}
        self._columns["model_id"] = np.arange(n_models)
        self._next_id = n_models

    @property
    def n_models(self) -> int:
        """How many there are."""
        return int(self.ids.size)

    @property
    def ids(self) -> Counts:
        """The id of each row, rising."""
        return self._columns["model_id"]

    @property
    def opened(self) -> Counts:
        """The interval in which each was opened."""
        return self._columns["opened"]

    @property
    def released(self) -> Counts:
        """The interval from which everybody may use each."""
        return self._columns["released"]

    @property
    def used(self) -> Counts:
        """The newest interval of which each was given data."""
        return self._columns["used"]

    def rows(self, ids: Counts) -> Counts:
        """Return where models stand; all must be there."""
        return np.searchsorted(self.ids, ids)

    def mark_used(self, ids: Counts, interval: int) -> None:
        """Note that models were given data of an interval."""
        self.used[self.rows(np.unique(ids))] = interval

    def open(self, sources: list[int], *, dropped: list[int], interval: int, released: int) -> list[int]:
        """Copy some models into new ones, throw others away, and return the ids of the new ones.

        Parameters
        ----------
        sources
            The row that each new model begins as.
        dropped
            Rows to throw away; no sources.
        interval
            The interval now.
        released
            The interval from which others may use the new ones.
        """
        kept = np.setdiff1d(np.arange(self.n_models), dropped)
        self.cluster_models.mix(np.eye(self.n_models)[[*kept.tolist(), *sources]])
        new = np.arange(self._next_id, self._next_id + len(sources))
        self._next_id += len(sources)
        begin = {"model_id": new, "opened": interval, "released": released, "used": interval}
        for name, column in self._columns.items():
            self._columns[name] = np.concatenate([column[kept], np.full(new.size, begin[name], dtype=np.int64)])
        return [int(one) for one in new]

    def merge(self, groups: Counts, weights: Vector) -> None:
        """Average the models of each group; it goes on as its oldest.

        Parameters
        ----------
        groups
            The group of each row, numbered in the order of first members, shape ``(n_models,)``.
        weights
            What each row counts, same shape.
        """
        mixing: Matrix = merging_shares(groups, weights)
        self.cluster_models.mix(mixing)
        for name, column in self._columns.items():
            best = np.max if name == "used" else np.min
            self._columns[name] = np.array([best(column[groups == group]) for group in range(mixing.shape[0])])

    def arrays(self) -> Arrays:
        """Return all of it, for a checkpoint."""
        return {**self.cluster_models.arrays(), **self._columns, "next_id": np.array([self._next_id])}

    def restore(self, arrays: Arrays) -> None:
        """Go on from what :meth:`arrays` gave."""
        self.cluster_models.restore(arrays)
        self._columns = {name: arrays[name].astype(np.int64) for name in _COLUMNS}
        self._next_id = int(arrays["next_id"].astype(np.int64)[0])


def merging_shares(groups: Counts, weights: Vector) -> Matrix:
    """Return the share of each old model in each new one; a group that weighs nothing shares evenly.

    Parameters
    ----------
    groups
        The new model of each old one, shape ``(n_before,)``.
    weights
        What each old one counts, same shape.

    Examples
    --------
    >>> merging_shares(np.array([0, 1, 0]), np.array([3.0, 2.0, 1.0])).tolist()
    [[0.75, 0.0, 0.25], [0.0, 1.0, 0.0]]
    """
    is_part = groups == np.arange(groups.max(initial=-1) + 1)[:, np.newaxis]
    shares = is_part * np.asarray(weights, dtype=np.float64)
    shares = np.where(shares.sum(axis=1, keepdims=True) > 0.0, shares, is_part)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))
