"""FedDrift: clients that a drift test catches open models of their own, and models that agree merge (METHODS.md 5)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Json, Mask, Matrix, Membership, Models, Vector
from fielding.client.report import ReportBatch
from fielding.config.options import flag, number, one_of, whole
from fielding.coordinator.clustering.labels import in_order_of_appearance
from fielding.errors import OptionError
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays, ClusterModels
from fielding.methods.kinds import Hears, MethodKind
from fielding.methods.method import MethodSetting, asked_by_cluster, client_index, planned, positions_of
from fielding.methods.probing import Participation, is_sampled

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


STARTS = ("common", "each")
MEMORIES = ("auto", "all", "window")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRules:
    """How FedDrift decides.

    Parameters
    ----------
    delta
        A client whose best model gets this much less right than last time has drifted.
    delta_merge
        Models no farther apart than this become one; None: they never merge.
    isolation
        Intervals in which a new model is its client's alone.
    shares_new
        Whether all clients that drift in the same interval share one new model.
    max_models
        How many models there can be.
    start
        ``"common"``: one model for all; ``"each"``: one per client.
    memory
        ``"all"``: models train on all data that they own; ``"window"``: on those in the window; ``"auto"``: all if
        everybody takes part.
    participation
        ``"all"``: everybody trains and is tested; ``"sampled"``: participants train, and who reports drift is tested;
        ``"auto"``: all up to 200 clients.
    train_all
        Whether everybody trains every model; what comes back from whom the model owns no data of is thrown away.
    """

    delta: float = 0.1
    delta_merge: float | None = None
    isolation: int = 1
    shares_new: bool = False
    max_models: int = 32
    start: str = "common"
    memory: str = "auto"
    participation: str = "auto"
    train_all: bool = False

    def __post_init__(self) -> None:
        number("delta", self.delta)
        if self.delta_merge is not None:
            number("delta_merge", self.delta_merge)
        whole("isolation", self.isolation)
        whole("max_models", self.max_models, most=10_000)
        one_of("start", self.start, STARTS)
        one_of("memory", self.memory, MEMORIES)
        one_of("participation", self.participation, get_args(Participation))
        flag("train_all", self.train_all)

    def is_sampled(self, n_clients: int) -> bool:
        """Return whether only participants train, and only who reports drift is tested."""
        return is_sampled(self.participation, n_clients)

    def is_windowed(self, n_clients: int) -> bool:
        """Return whether data that left the window are forgotten."""
        return self.memory == "window" or (self.memory == "auto" and self.is_sampled(n_clients))

    def n_first_models(self, n_clients: int) -> int:
        """Return how many models there are at the start."""
        if self.start == "each" and n_clients > self.max_models:
            raise OptionError(
                f"max_models is {self.max_models} but a model for each of {n_clients} clients is wanted at the start; "
                "give as many, or start = 'common'"
            )
        return n_clients if self.start == "each" else 1


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


def training_jobs(state: DriftState, who: Mask, *, train_all: bool = False) -> tuple[Counts, Counts]:
    """Return the clients and the rows of the models that they train, by row, then by client.

    Parameters
    ----------
    state
        Models and blocks.
    who
        Who trains, shape ``(n_clients,)``; all have samples now.
    train_all
        Whether they train all models; otherwise those that serve anybody, and that own samples of theirs.
    """
    in_use = np.unique(state.rows())
    found = [np.flatnonzero(who & state.blocks.trainable(model)) for model in state.named.ids[in_use].tolist()]
    clients = np.concatenate(found).astype(np.int64)
    if train_all:
        return every_model(clients, state.named.n_models)
    return clients, np.repeat(in_use, [one.size for one in found])


def every_model(clients: Counts, n_models: int) -> tuple[Counts, Counts]:
    """Return jobs in which each of some clients trains every model, by row, then by client.

    Examples
    --------
    >>> [part.tolist() for part in every_model(np.array([4, 2, 4]), 2)]
    [[2, 4, 2, 4], [0, 0, 1, 1]]
    """
    trainers = np.unique(clients)
    return np.tile(trainers, n_models), np.repeat(np.arange(n_models), trainers.size)


def sent_once(clients: Counts, amount: Vector) -> Vector:
    """Return how many models' worth each job downloads if a client gets all that it needs with its first job.

    Parameters
    ----------
    clients
        Whose job it is, shape ``(n_jobs,)``.
    amount
        How many models each client gets, shape ``(n_clients,)``.

    Examples
    --------
    >>> sent_once(np.array([1, 0, 1]), np.array([3.0, 5.0])).tolist()
    [5.0, 3.0, 0.0]
    """
    downloads = np.zeros(clients.size)
    _, first = np.unique(clients, return_index=True)
    downloads[first] = amount[clients[first]]
    return downloads


def block_plan(state: DriftState, jobs: tuple[Counts, Counts], *, share: float = 1.0) -> TrainingPlan:
    """Return a plan with a group per model, in which each job trains on the blocks that its model owns, or else on all.

    Parameters
    ----------
    state
        Models and blocks.
    jobs
        Clients and rows, by row.
    share
        Of the answers of each group, so many are enough, rounded up.
    """
    named, (clients, rows) = state.named, jobs
    _, groups, sizes = np.unique(rows, return_inverse=True, return_counts=True)
    blocks = []
    for client, row in zip(clients.tolist(), rows.tolist(), strict=True):
        own = state.blocks.of(client, int(named.ids[row]))
        blocks.append(own if own.size else state.blocks.owned(client))
    return TrainingPlan(
        models=named.cluster_models.models,
        clients=clients,
        groups=groups.astype(np.int64),
        start=rows,
        wanted=np.ceil(sizes * share - 1e-9).astype(np.int64),
        blocks=blocks,
        rate_factors=named.cluster_models.rate_factors(rows),
    )


def as_chosen(plan: TrainingPlan, chosen: TrainingPlan) -> TrainingPlan:
    """Return a plan whose jobs do as much as was planned for their clients.

    Parameters
    ----------
    plan
        Of jobs of the same clients.
    chosen
        One job per client, of the model that it was chosen for.
    """
    order = np.argsort(chosen.clients, kind="stable")
    at = order[np.searchsorted(chosen.clients[order], plan.clients)]
    n_steps, upload_shares = chosen.n_steps, chosen.upload_shares
    return replace(
        plan,
        n_steps=n_steps[at] if isinstance(n_steps, np.ndarray) else n_steps,
        upload_shares=None if upload_shares is None else upload_shares[at],
        selected_for=chosen.start[at],
    )


def owned_answers(updates: Updates, state: DriftState) -> Updates:
    """Return only the answers whose model owns data of who trained it."""
    owning = np.array([state.blocks.owning(model) for model in state.named.ids.tolist()], dtype=np.bool_)
    kept = owning[updates.start, updates.clients] if updates.start.size else np.empty(0, dtype=np.bool_)
    if kept.all():
        return updates
    names = ("clients", "groups", "start", "models", "n_samples", "loss", "square_loss", "jobs")
    changes = {name: getattr(updates, name)[kept] for name in names}
    start_loss = None if updates.start_loss is None else updates.start_loss[kept]
    return replace(updates, **changes, start_loss=start_loss)


MOST_PROBED = 5
"""Clients that are asked about the data of a model, where not everybody takes part."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Merging:
    """How models merge in one round.

    Parameters
    ----------
    threshold
        Largest distance of models that become one.
    is_sampled
        Whether only a few holders of each model's data are asked.
    held
        Who was sent all models in this round and has them still, shape ``(n_clients,)``.
    """

    threshold: float
    is_sampled: bool
    held: Mask


def merge_models(state: DriftState, clients: Clients, merging: Merging) -> int:
    """Merge models that agree, and return how many models are new averages.

    Parameters
    ----------
    state
        Models, owners and members; changed.
    clients
        Whoever holds data of a model measures all others on them.
    merging
        How.
    """
    named, askable = state.named, clients.askable()
    rows = np.flatnonzero(named.released <= state.blocks.newest)
    owning = [askable & state.blocks.owning(model) for model in named.ids[rows].tolist()]
    holders = [_some(one, clients) if merging.is_sampled else np.flatnonzero(one) for one in owning]
    cluster = np.repeat(np.arange(rows.size), [one.size for one in holders])
    if np.unique(cluster).size < 2:
        return 0
    who = np.concatenate(holders)
    models = named.ids[rows[cluster]].tolist()
    asked = [state.blocks.of(client, model) for client, model in zip(who.tolist(), models, strict=True)]
    sizes = clients.block_sizes(who, asked)
    accuracies = clients.accuracies(who, named.cluster_models.models[rows], blocks=asked, held=merging.held[who])
    pooled = pooled_accuracies(accuracies, cluster, sizes)
    known = np.flatnonzero(~np.isnan(np.diag(pooled)))
    joined = linked(concept_distances(pooled[np.ix_(known, known)]), merging.threshold)
    leader = np.arange(named.n_models)
    for group in np.unique(joined).tolist():
        own = rows[known[joined == group]]
        leader[own] = own.min()
    return state.unite(leader)


def _some(is_holder: Mask, clients: Clients) -> Counts:
    """Return a few clients, drawn at random."""
    holders = np.flatnonzero(is_holder)
    order = np.argsort(clients.draws("merge", holders), kind="stable")
    return np.sort(holders[order[:MOST_PROBED]])


def pooled_accuracies(accuracies: Matrix, cluster: Counts, n_samples: Counts) -> Matrix:
    """Return the accuracy of each model on the pooled data of each cluster.

    Parameters
    ----------
    accuracies
        Of each model on each answer's blocks, shape ``(n_answers, n_models)``; NaN where there was no answer.
    cluster
        Whose blocks each answer is about, a model's row, shape ``(n_answers,)``.
    n_samples
        How many samples it is about, its weight, same shape; one about none is no answer.

    Returns
    -------
    Shape ``(n_models, n_models)``, the model by the cluster; NaN in the column of a cluster without answers.

    Examples
    --------
    >>> accuracies = np.array([[1.0, 0.5], [0.4, 0.5], [np.nan, np.nan]])
    >>> pooled_accuracies(accuracies, np.array([0, 0, 1]), np.array([2, 1, 1]))
    array([[0.8, nan],
           [0.5, nan]])
    """
    n_models = accuracies.shape[1]
    pooled = np.full((n_models, n_models), np.nan)
    answered = ~np.isnan(accuracies).any(axis=1) & (n_samples > 0)
    for row in np.unique(cluster[answered]).tolist():
        own = answered & (cluster == row)
        pooled[:, row] = np.average(accuracies[own], axis=0, weights=n_samples[own])
    return pooled


def concept_distances(pooled: Matrix) -> Matrix:
    """Return how far models are from being one concept: the larger loss of accuracy of either on the other's data.

    Parameters
    ----------
    pooled
        As :func:`pooled_accuracies` gives it, without NaN.

    Examples
    --------
    >>> concept_distances(np.array([[0.9, 0.5], [0.8, 0.7]])).round(6).tolist()
    [[0.0, 0.4], [0.4, 0.0]]
    """
    lost = np.diag(pooled)[:, np.newaxis] - pooled
    return np.maximum(np.maximum(lost, lost.T), 0.0)


def linked(distances: Matrix, threshold: float) -> Counts:
    """Return the group of each model under complete linkage, numbered in the order of first members.

    Two groups become one as long as no two of their members are farther apart than the threshold.

    Parameters
    ----------
    distances
        Symmetric, zero on the diagonal, shape ``(n_models, n_models)``.
    threshold
        Largest distance within a group; 1e-9 more is not more.

    Examples
    --------
    >>> apart = np.array([[0.0, 0.05, 0.3], [0.05, 0.0, 0.2], [0.3, 0.2, 0.0]])
    >>> linked(apart, 0.1).tolist(), linked(apart, 0.25).tolist(), linked(apart, 0.3).tolist()
    ([0, 0, 1], [0, 0, 1], [0, 0, 0])
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    if distances.shape[0] < 2:
        return np.zeros(distances.shape[0], dtype=np.int64)
    tree = linkage(squareform(distances, checks=False), method="complete")
    labels = fcluster(tree, t=threshold + 1e-9, criterion="distance")
    return in_order_of_appearance(labels).astype(np.int64)


SLACK = 1e-9
"""Differences of accuracies are not above a threshold by less than this: they are differences of decimal fractions."""


class FedDrift:
    """Tests every block of new data against all models; each block belongs to one model, which trains on it.

    Parameters
    ----------
    setting
        What it is made of.
    rules
        How it decides.
    """

    def __init__(self, setting: MethodSetting, rules: DriftRules) -> None:
        n_clients = len(setting.client_ids)
        self._rules, self._parts, self._is_sampled = rules, setting.parts, rules.is_sampled(n_clients)
        models = replace(setting.parts, weighted=True).cluster_models(setting.initial)
        models.on_mix = lambda _mixing: None  # participants are chosen among all clients, whatever becomes of models
        self.state = DriftState(
            NamedModels(models, rules.n_first_models(n_clients)),
            Blocks(n_clients, setting.n_visible if rules.is_windowed(n_clients) else None),
            np.zeros(n_clients, dtype=np.int64) if rules.start == "common" else np.arange(n_clients),
        )
        self._index = client_index(setting.client_ids)
        # Within a round: who was sent all models for its test, and how many of them have changed since.
        self._has_models: Mask = np.zeros(n_clients, dtype=np.bool_)
        self._n_changed = 0

    @property
    def models(self) -> Models:
        """One row per model that was opened and not merged or thrown away."""
        return self.state.named.cluster_models.models

    def adapt(self, reports: ReportBatch, clients: Clients) -> None:
        """Test new blocks, open models for clients that drifted, and merge models that agree."""
        blocks, threshold = self.state.blocks, self._rules.delta_merge
        self._has_models[:], self._n_changed = False, 0
        is_first = blocks.newest < 0
        askable = clients.askable()
        has_come = blocks.grow(clients.interval, clients.fresh(), askable)
        if is_first:  # who cannot be asked now is looked at later
            blocks.begin(askable, self.state.member)
            self.state.is_due = ~askable
            return
        self._call(reports, askable, has_come=has_come)
        if (tested := np.flatnonzero(self.state.is_due & askable)).size:
            self._test(tested, clients)
        if has_come and threshold is not None:
            merging = Merging(threshold=threshold, is_sampled=self._is_sampled, held=self._has_models)
            self._n_changed = merge_models(self.state, clients, merging)

    def plan(self, clients: Clients) -> TrainingPlan:
        """Let everybody, or the participants, train the models that own some of their blocks."""
        state, train_all = self.state, self._rules.train_all
        if self._is_sampled:
            asked = asked_by_cluster(np.zeros(state.member.size, dtype=np.int32), 1, clients, self._parts)
            is_asked = np.isin(np.arange(state.member.size), asked.clients)
            share = float(asked.wanted.sum() / max(1, asked.clients.size))
            plan = block_plan(state, training_jobs(state, is_asked, train_all=train_all), share=share)
            plan = as_chosen(plan, planned(state.named.cluster_models, asked, self._parts))
        else:
            plan = block_plan(state, training_jobs(state, clients.askable(), train_all=train_all))
            amount = np.where(self._has_models, float(self._n_changed), float(state.named.n_models))
            plan = replace(plan, downloads=sent_once(plan.clients, amount))
        return replace(plan, with_start_loss=self._parts.aggregator.needs_start_loss)

    def learn(self, updates: Updates) -> None:
        """Combine what came back, model by model, by the amount of data."""
        kept = owned_answers(updates, self.state) if self._rules.train_all else updates
        self.state.named.cluster_models.learn(kept)

    def membership(self) -> Membership:
        """Return the row of the model that owns each client's newest block."""
        return self.state.rows().astype(np.int32)

    def cluster_ids(self) -> tuple[int, ...]:
        """Return the ids of the models; a merged one keeps that of its oldest part."""
        return tuple(self.state.named.ids.tolist())

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return models, owners of blocks, and what is known of the clients."""
        return {}, self.state.arrays()

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:  # noqa: ARG002
        """Go on from a snapshot."""
        self.state.restore(arrays)

    # ---- who is tested -----------------------------------------------------------------------------------------

    def _call(self, reports: ReportBatch, askable: Mask, *, has_come: bool) -> None:
        """Note who has to be tested; where only reports count, blocks of the others go on to their models."""
        state = self.state
        if not self._is_sampled:
            state.is_due |= has_come
            return
        told = positions_of(reports.client_ids, self._index)
        if told.size:
            state.is_due[told[np.asarray(reports.representations).any(axis=1)]] = True
        # Whoever was never tested is, once: a client that reports its first drift needs a score to fall from.
        state.is_due |= has_come & np.isnan(state.score)
        # In every round: whoever was away when data came is calm, too, if it is back without a report.
        taking = state.blocks.give_unowned(askable & ~state.is_due, state.member)
        state.named.mark_used(state.member[taking], state.blocks.newest)

    # ---- the drift test ----------------------------------------------------------------------------------------

    def _test(self, who: Counts, clients: Clients) -> None:
        """Give new blocks to the models that serve them best, or to new ones where even these serve them badly."""
        state, named = self.state, self.state.named
        asked = [self._asked_blocks(client) for client in who.tolist()]
        accuracies = clients.accuracies(who, self.models, blocks=asked)
        state.is_due[who] = False
        answered = np.flatnonzero(~np.isnan(accuracies).any(axis=1))
        who, accuracies = who[answered], accuracies[answered]
        self._has_models[who] = True
        before = state.score[who]  # what was measured before anybody trained on that block; NaN is never a drift
        own = named.rows(state.member[who])
        is_isolated = named.released[own] > state.blocks.newest
        best = best_rows(accuracies, own, self._allowed(own, is_isolated))
        now = accuracies[np.arange(who.size), best]
        state.score[who] = now
        blocks = {client: asked[at] for client, at in zip(who.tolist(), answered.tolist(), strict=True)}
        has_drifted = ~is_isolated & (before - now > self._rules.delta + SLACK)
        for moves, act in ((~has_drifted, state.assign), (has_drifted, self._open)):
            act({client: blocks[client] for client in who[moves].tolist()}, named.ids[best[moves]].tolist())

    def _asked_blocks(self, client: int) -> Counts:
        """Return the blocks of a client that have no owner yet, or else its newest one."""
        unowned = self.state.blocks.unowned(client)
        return unowned if unowned.size else np.array([self.state.blocks.newest])

    def _allowed(self, own: Counts, is_isolated: Mask) -> Mask:
        """Return which models each client may take: those that are nobody's alone, or, where isolated, its own."""
        is_own = own[:, np.newaxis] == np.arange(self.state.named.n_models)
        is_open = self.state.named.released <= self.state.blocks.newest
        return np.where(is_isolated[:, np.newaxis], is_own, is_open)

    def _open(self, drifted: Mapping[int, Counts], best: list[int]) -> None:
        """Open a model for each client that drifted, or one for all; without room they take the best there is.

        Parameters
        ----------
        drifted
            Client to blocks.
        best
            The id of the best model of each, in the same order, which a new one begins as.
        """
        state, shares_new = self.state, self._rules.shares_new
        if not drifted:
            return
        is_new = state.named.opened == state.blocks.newest
        if shares_new and is_new.any():  # for somebody who was tested earlier in this interval
            state.assign(drifted, state.named.ids[is_new].tolist()[:1] * len(drifted))
            return
        sources = state.named.rows(np.array(best[:1] if shares_new else best))
        room, dropped = self._room(np.array(list(drifted)), sources)
        released = 0 if shares_new else state.blocks.newest + self._rules.isolation
        new = state.open(sources[:room].tolist(), dropped=dropped, released=released)
        state.assign(drifted, new * len(best) if shares_new and new else new + best[len(new) :])

    def _room(self, leaving: Counts, sources: Counts) -> tuple[int, list[int]]:
        """Return how many of some models can be opened, and which are thrown away for them."""
        free = self._rules.max_models - self.state.named.n_models
        n_lacking = max(0, sources.size - free)
        unused = self.state.unused(leaving=leaving, needed=sources[:0])
        if unused.size < n_lacking:  # some of the leaving will stay
            unused = self.state.unused(leaving=leaving, needed=sources)
        dropped = unused[:n_lacking].tolist()
        return free + len(dropped), dropped


def best_rows(accuracies: Matrix, own: Counts, allowed: Mask) -> Counts:
    """Return the model that serves each client best; of equally good ones its own, else the oldest.

    Parameters
    ----------
    accuracies
        Shape ``(n_clients, n_models)``, no NaN.
    own
        The row of each client's model so far, shape ``(n_clients,)``.
    allowed
        Which it may take, at least one each, same shape as ``accuracies``.

    Examples
    --------
    >>> best_rows(np.array([[0.5, 0.9, 0.9]]), np.array([2]), np.array([[True, True, True]])).tolist()
    [2]
    """
    quality = np.where(allowed, accuracies, -1.0)
    best = np.argmax(quality, axis=1)
    at = np.arange(own.size)
    return np.where(quality[at, own] == quality[at, best], own, best)


def feddrift(
    setting: MethodSetting,
    *,
    delta: float = 0.1,
    delta_merge: float | None = None,
    isolation: int = 1,
    max_models: int = 32,
    start: str = "common",
    memory: str = "auto",
    participation: str = "auto",
    train_all: bool = False,
) -> FedDrift:
    """Return FedDrift: a model for each client that drifts.

    Parameters
    ----------
    setting
        What it is made of.
    delta
        A client whose best model gets this much less right than last time has drifted.
    delta_merge
        Models no farther apart than this become one; None for ``delta``.
    isolation
        Intervals in which a new model is its client's alone.
    max_models
        How many models there can be.
    start
        ``"common"``: one model for all; ``"each"``: one per client.
    memory
        ``"all"``: models train on all data that they own; ``"window"``: on those in the window; ``"auto"``: all if
        everybody takes part.
    participation
        ``"all"``: everybody trains and is tested; ``"sampled"``: participants train, and who reports drift is tested;
        ``"auto"``: all up to 200 clients.
    train_all
        Whether everybody trains every model; what comes back from whom the model owns no data of is thrown away.
    """
    rules = DriftRules(
        delta=delta,
        delta_merge=delta if delta_merge is None else delta_merge,
        isolation=isolation,
        max_models=max_models,
        start=start,
        memory=memory,
        participation=participation,
        train_all=train_all,
    )
    return FedDrift(setting, rules)


def feddrift_eager(
    setting: MethodSetting,
    *,
    delta: float = 0.1,
    max_models: int = 32,
    memory: str = "auto",
    participation: str = "auto",
    train_all: bool = False,
) -> FedDrift:
    """Return FedDrift-Eager: clients that drift at the same time share one new model, and none ever merge.

    Parameters
    ----------
    setting
        What it is made of.
    delta
        A client whose best model gets this much less right than last time has drifted.
    max_models
        How many models there can be.
    memory
        ``"all"``: models train on all data that they own; ``"window"``: on those in the window; ``"auto"``: all if
        everybody takes part.
    participation
        ``"all"``: everybody trains and is tested; ``"sampled"``: participants train, and who reports drift is tested;
        ``"auto"``: all up to 200 clients.
    train_all
        Whether everybody trains every model; what comes back from whom the model owns no data of is thrown away.
    """
    rules = DriftRules(
        delta=delta,
        shares_new=True,
        max_models=max_models,
        memory=memory,
        participation=participation,
        train_all=train_all,
    )
    return FedDrift(setting, rules)


def feddrift_hears(options: Mapping[str, Json], n_clients: int) -> Hears:
    """Return whose reports FedDrift hears: flags of drifted clients where not everybody is tested."""
    return "flags" if is_sampled(options.get("participation", "auto"), n_clients) else "nobody"


FEDDRIFT = MethodKind(
    summary="clients whose accuracy drops open models of their own, and models that agree merge (FedDrift)",
    sends="how well all models serve its new data; receives all models",
    hears=feddrift_hears,
    build=feddrift,
)
FEDDRIFT_EAGER = MethodKind(
    summary="clients whose accuracy drops at the same time open one model together (FedDrift-Eager)",
    sends="how well all models serve its new data; receives all models",
    hears=feddrift_hears,
    build=feddrift_eager,
)
