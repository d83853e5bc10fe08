"""FedDrift: clients whose accuracy drops open models of their own, and models that agree merge.

Jothimurugesan, Hsieh, Wang, Joshi and Gibbons, "Federated Learning under Distributed Concept Drift", AISTATS 2023
(METHODS.md 5). A block is what came to one client in one interval: one model owns it and trains on it. Read
:class:`FedDrift` first: ``adapt`` tests, opens and merges, ``plan`` lets clients train what owns their blocks. Then
:class:`DriftState` (models, blocks and members change together) and :class:`Blocks` (the table of owners).
"""

from collections.abc import Mapping
from dataclasses import replace
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
from fielding.methods.kinds import MethodKind, ReportsFrom
from fielding.methods.method import (
    MethodSetting,
    Participation,
    client_index,
    draw_clients,
    is_sampled,
    plan_training,
    positions_of,
    select_participants,
)

STARTS = ("common", "each")
MEMORIES = ("auto", "all", "window")
SLACK = 1e-9
"""Differences of accuracies are not above a threshold by less than this: they are differences of decimal fractions."""
MOST_PROBED = 5  # clients that are asked about the data of a model, where only participants train
UNOWNED = -1  # owner of a block that no model was found for yet
FORGOTTEN = -2  # owner of a block whose model was thrown away
EMPTY = -3  # owner of a block that is known to hold no samples


class FedDrift:
    """Tests every block of new data against all models; each block belongs to one model, which trains on it.

    Parameters
    ----------
    delta
        A client whose best model gets this much less right than last time has drifted.
    delta_merge
        Models no farther apart than this become one; None for ``delta``.
    isolation
        Intervals in which a new model is its client's alone.
    step_rounds
        The least number of rounds in a step: data that come earlier wait, and are tested as one block when it is over.
        With 1 every arrival begins a step.
    max_models
        How many models there can be.
    start
        ``"common"``: one model for all; ``"each"``: one per client.
    memory
        ``"all"``: models train on all data that they own; ``"window"``: on those in the window; ``"auto"``: all if
        everybody takes part. With all, every merge measures every model on all that ever came: a run of twice the
        length takes more than twice the time.
    participation
        ``"all"``: everybody trains and is tested; ``"sampled"``: participants train, and who reports drift is tested;
        ``"auto"``: all up to 200 clients.
    train_all
        Whether everybody trains every model; what comes back from whom the model owns no data of is thrown away.
    """

    _is_eager = False

    def __init__(
        self,
        setting: MethodSetting,
        *,
        delta: float = 0.1,
        delta_merge: float | None = None,
        isolation: int = 1,
        step_rounds: int = 1,
        max_models: int = 32,
        start: str = "common",
        memory: str = "auto",
        participation: str = "auto",
        train_all: bool = False,
    ) -> None:
        self._delta = number("delta", delta)
        self._delta_merge = delta if delta_merge is None else number("delta_merge", delta_merge)
        self._isolation, self._max_models = whole("isolation", isolation), whole("max_models", max_models, most=10_000)
        self._step_rounds = whole("step_rounds", step_rounds)
        one_of("start", start, STARTS)
        one_of("memory", memory, MEMORIES)
        one_of("participation", participation, get_args(Participation))
        self._train_all, self._parts = flag("train_all", train_all), setting.parts
        n_clients = len(setting.client_ids)
        if start == "each" and n_clients > max_models:
            raise OptionError(
                f"max_models is {max_models} but a model for each of {n_clients} clients is wanted at the start; "
                "give as many, or start = 'common'"
            )
        self._is_sampled = is_sampled(participation, n_clients)
        is_windowed = memory == "window" or (memory == "auto" and self._is_sampled)
        models = replace(setting.parts, weighted=True).cluster_models(setting.initial)
        models.on_mix = lambda _mixing: None  # participants are chosen among all clients, whatever becomes of models
        self.state = DriftState(
            models,
            Blocks(n_clients, setting.n_visible if is_windowed else None),
            np.zeros(n_clients, dtype=np.int64) if start == "common" else np.arange(n_clients),
        )
        self._index = client_index(setting.client_ids)
        self._step_began, self._has_waiting = 0, False  # the round of the last step, and whether data came since
        # Within a round: which clients were sent all models for their test, and how many models have changed since.
        self._has_models: Mask = np.zeros(n_clients, dtype=np.bool_)
        self._n_changed = 0

    @property
    def models(self) -> Models:
        """One row per model that was opened and not merged or thrown away."""
        return self.state.cluster_models.models

    def adapt(self, reports: ReportBatch, clients: Clients) -> None:
        """Test new blocks, open models for clients that drifted, and merge models that agree."""
        state = self.state
        self._has_models[:], self._n_changed = False, 0
        is_first = state.blocks.newest < 0
        askable = clients.askable()
        has_come = state.blocks.grow(clients.interval, clients.fresh(), askable)
        if is_first:  # clients that cannot be asked now are tested later
            self._step_began = clients.round_index
            state.blocks.begin(askable, state.member)
            state.is_due = ~askable
            return
        is_over = clients.round_index - self._step_began >= self._step_rounds
        self._has_waiting |= has_come
        begins = is_over and self._has_waiting
        if begins:
            self._step_began, self._has_waiting = clients.round_index, False
        if self._is_sampled:
            self._note_reports(reports, askable, begins=begins)
        else:
            state.is_due |= begins
        if is_over and (tested := np.flatnonzero(state.is_due & askable)).size:
            self._test(tested, clients)
        if begins and not self._is_eager:
            self._n_changed = merge_models(
                state, clients, threshold=self._delta_merge, is_sampled=self._is_sampled, held=self._has_models
            )

    def _note_reports(self, reports: ReportBatch, askable: Mask, *, begins: bool) -> None:
        """Let clients be tested that report drift; blocks of the others go on to their models."""
        state = self.state
        reporters = positions_of(reports.client_ids, self._index)
        if reporters.size:
            state.is_due[reporters[np.asarray(reports.representations).any(axis=1)]] = True
        # A client that was never tested is, once: one that reports its first drift needs a score to fall from.
        state.is_due |= begins & np.isnan(state.score)
        # In every round: a client that was away when data came is calm, too, if it is back without a report.
        taking = state.blocks.give_unowned(askable & ~state.is_due, state.member)
        state.mark_used(state.member[taking])

    def _test(self, who: Counts, clients: Clients) -> None:
        """Give new blocks to the models that serve them best, or to new ones where even these serve them badly."""
        state = self.state
        asked = []
        for client in who.tolist():
            unowned = state.blocks.of(client, UNOWNED)
            asked.append(unowned if unowned.size else np.array([state.blocks.newest]))
        accuracies = clients.accuracies(who, self.models, blocks=asked)
        state.is_due[who] = False
        answered = np.flatnonzero(~np.isnan(accuracies).any(axis=1))
        who, accuracies = who[answered], accuracies[answered]
        self._has_models[who] = True
        before = state.score[who]  # measured before the clients trained on that block; NaN is never a drift
        own = state.rows(state.member[who])
        is_isolated = state.released[own] > state.blocks.newest
        is_own, is_open = own[:, np.newaxis] == np.arange(state.ids.size), state.released <= state.blocks.newest
        best = best_rows(accuracies, own, np.where(is_isolated[:, np.newaxis], is_own, is_open))
        now = accuracies[np.arange(who.size), best]
        state.score[who] = now
        blocks = {client: asked[at] for client, at in zip(who.tolist(), answered.tolist(), strict=True)}
        has_drifted = ~is_isolated & (before - now > self._delta + SLACK)
        for moves, act in ((~has_drifted, state.assign), (has_drifted, self._open)):
            act({client: blocks[client] for client in who[moves].tolist()}, state.ids[best[moves]].tolist())

    def _open(self, drifted: Mapping[int, Counts], best: list[int]) -> None:
        """Open a model for each client that drifted, or one for all; without room they take the best there is."""
        state = self.state
        if not drifted:
            return
        is_new = state.opened == state.blocks.newest
        if self._is_eager and is_new.any():  # for clients that were tested earlier in this interval
            state.assign(drifted, state.ids[is_new].tolist()[:1] * len(drifted))
            return
        sources, leaving = state.rows(np.array(best[:1] if self._is_eager else best)), np.array(list(drifted))
        free = self._max_models - state.ids.size
        n_lacking = max(0, sources.size - free)
        unused = state.unused(leaving=leaving, needed=sources[:0])
        if unused.size < n_lacking:  # some of the leaving will stay
            unused = state.unused(leaving=leaving, needed=sources)
        dropped = unused[:n_lacking].tolist()
        released = 0 if self._is_eager else state.blocks.newest + self._isolation
        new = state.open(sources[: free + len(dropped)].tolist(), dropped=dropped, released=released)
        state.assign(drifted, new * len(best) if self._is_eager and new else new + best[len(new) :])

    def plan(self, clients: Clients) -> TrainingPlan:
        """Let all clients, or the participants, train the models that own some of their blocks."""
        state, n_models, share = self.state, self.state.ids.size, 1.0
        if self._is_sampled:
            asked = select_participants(np.zeros(state.member.size, dtype=np.int32), 1, clients, self._parts)
            trains = np.isin(np.arange(state.member.size), asked.clients)
            share = float(asked.wanted.sum() / max(1, asked.clients.size))
        else:
            trains = clients.askable()
        # Jobs by model, then by client: a model that serves any client trains where it certainly owns samples.
        in_use = np.unique(state.rows())
        found = [np.flatnonzero(trains & state.blocks.trainable(model)) for model in state.ids[in_use].tolist()]
        who, rows = np.concatenate(found).astype(np.int64), np.repeat(in_use, [one.size for one in found])
        if self._train_all:
            trainers = np.unique(who)
            who, rows = np.tile(trainers, n_models), np.repeat(np.arange(n_models), trainers.size)
        blocks = []
        for client, row in zip(who.tolist(), rows.tolist(), strict=True):
            own = state.blocks.of(client, int(state.ids[row]))
            blocks.append(own if own.size else state.blocks.owned(client))
        _, groups, sizes = np.unique(rows, return_inverse=True, return_counts=True)
        plan = TrainingPlan(
            models=self.models,
            clients=who,
            groups=groups.astype(np.int64),
            start=rows,
            wanted=np.ceil(sizes * share - 1e-9).astype(np.int64),
            blocks=blocks,
            rate_factors=state.cluster_models.rate_factors(rows),
            with_start_loss=self._parts.aggregator.needs_start_loss,
        )
        if not self._is_sampled:
            # A client gets all models with its first job; of those that it has from its test, the changed ones.
            amount = np.where(self._has_models, float(self._n_changed), float(n_models))
            downloads = np.zeros(who.size)
            _, first = np.unique(who, return_index=True)
            downloads[first] = amount[who[first]]
            return replace(plan, downloads=downloads)
        # Every job of a participant does as much as was chosen for the participant.
        chosen = plan_training(state.cluster_models, asked, self._parts)
        order = np.argsort(chosen.clients, kind="stable")
        at = order[np.searchsorted(chosen.clients[order], who)]
        n_steps, upload_shares = chosen.n_steps, chosen.upload_shares
        return replace(
            plan,
            n_steps=n_steps[at] if isinstance(n_steps, np.ndarray) else n_steps,
            upload_shares=None if upload_shares is None else upload_shares[at],
            selected_for=chosen.start[at],
        )

    def learn(self, updates: Updates) -> None:
        """Combine what came back, model by model, by the amount of data."""
        if self._train_all and updates.start.size:  # only answers whose model owns data of the client count
            owning = np.array([self.state.blocks.owning(model) for model in self.state.ids.tolist()], dtype=np.bool_)
            kept = owning[updates.start, updates.clients]
            names = ("clients", "groups", "start", "models", "n_samples", "loss", "square_loss", "jobs")
            updates = replace(
                updates,
                **{name: getattr(updates, name)[kept] for name in names},
                start_loss=None if updates.start_loss is None else updates.start_loss[kept],
            )
        self.state.cluster_models.learn(updates)

    def membership(self) -> Membership:
        """Return the row of the model that owns each client's newest block."""
        return self.state.rows().astype(np.int32)

    def cluster_ids(self) -> tuple[int, ...]:
        """Return the ids of the models; a merged one keeps that of its oldest part."""
        return tuple(self.state.ids.tolist())

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return models, owners of blocks, and what is known of the clients."""
        return {"step_began": self._step_began, "has_waiting": self._has_waiting}, self.state.arrays()

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:
        """Go on from a snapshot."""
        self.state.restore(arrays)
        # The former version, in which every arrival began a step, wrote neither.
        self._step_began = int(str(values.get("step_began", 0)))
        self._has_waiting = bool(values.get("has_waiting", False))


class FedDriftEager(FedDrift):
    """FedDrift in which clients that drift at the same time share one new model, and none ever merge.

    Parameters
    ----------
    delta
        A client whose best model gets this much less right than last time has drifted.
    step_rounds
        The least number of rounds in a step: data that come earlier wait, and are tested as one block when it is over.
        With 1 every arrival begins a step.
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

    _is_eager = True

    def __init__(
        self,
        setting: MethodSetting,
        *,
        delta: float = 0.1,
        step_rounds: int = 1,
        max_models: int = 32,
        memory: str = "auto",
        participation: str = "auto",
        train_all: bool = False,
    ) -> None:
        super().__init__(
            setting,
            delta=delta,
            step_rounds=step_rounds,
            max_models=max_models,
            memory=memory,
            participation=participation,
            train_all=train_all,
        )


def feddrift_reports_from(options: Mapping[str, Json], n_clients: int) -> ReportsFrom:
    """Return whose reports reach FedDrift: flags of drifted clients where only these are tested."""
    return "flags" if is_sampled(options.get("participation", "auto"), n_clients) else "nobody"


def best_rows(accuracies: Matrix, own: Counts, allowed: Mask) -> Counts:
    """Return the model that serves each client best; of equally good ones its own, else the oldest.

    ``accuracies``: shape ``(n_clients, n_models)``, no NaN. ``own``: the row of each client's model so far, shape
    ``(n_clients,)``. ``allowed``: which it may take, at least one each, same shape as ``accuracies``.

    Examples
    --------
    >>> best_rows(np.array([[0.5, 0.9, 0.9]]), np.array([2]), np.array([[True, True, True]])).tolist()
    [2]
    """
    quality = np.where(allowed, accuracies, -1.0)
    best = np.argmax(quality, axis=1)
    at = np.arange(own.size)
    return np.where(quality[at, own] == quality[at, best], own, best)


# ---- merging -------------------------------------------------------------------------------------------------------


def merge_models(state: "DriftState", clients: Clients, *, threshold: float, is_sampled: bool, held: Mask) -> int:
    """Merge models that agree, and return how many models are new averages.

    Clients that hold data of a model, all or ``is_sampled`` a few, measure all others on them. ``threshold``: largest
    distance of models that become one. ``held``: which clients were sent all models in this round and have them still,
    shape ``(n_clients,)``.
    """
    askable, rows = clients.askable(), np.flatnonzero(state.released <= state.blocks.newest)
    n_asked = MOST_PROBED if is_sampled else None
    owning = [askable & state.blocks.owning(model) for model in state.ids[rows].tolist()]
    holders = [draw_clients(clients, holds, n_asked, purpose="merge") for holds in owning]
    cluster = np.repeat(np.arange(rows.size), [one.size for one in holders])
    if np.unique(cluster).size < 2:
        return 0
    who, models = np.concatenate(holders), state.ids[rows[cluster]].tolist()
    asked = [state.blocks.of(client, model) for client, model in zip(who.tolist(), models, strict=True)]
    sizes = clients.block_sizes(who, asked)
    accuracies = clients.accuracies(who, state.cluster_models.models[rows], blocks=asked, held=held[who])
    pooled = pooled_accuracies(accuracies, cluster, sizes)
    known = np.flatnonzero(~np.isnan(np.diag(pooled)))
    groups = link_models(concept_distances(pooled[np.ix_(known, known)]), threshold)
    leader = np.arange(state.ids.size)
    for group in np.unique(groups).tolist():
        own = rows[known[groups == group]]
        leader[own] = own.min()
    return state.unite(leader)


def pooled_accuracies(accuracies: Matrix, cluster: Counts, n_samples: Counts) -> Matrix:
    """Return the accuracy of each model on the pooled data of each cluster.

    Shape ``(n_models, n_models)``, the model by the cluster; NaN in the column of a cluster without answers.
    ``accuracies``: of each model on each answer's blocks, shape ``(n_answers, n_models)``; NaN where there was no
    answer. ``cluster``: whose blocks each answer is about, a model's row, shape ``(n_answers,)``. ``n_samples``: how
    many samples it is about, its weight, same shape; one about none is no answer.

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

    Examples
    --------
    >>> concept_distances(np.array([[0.9, 0.5], [0.8, 0.7]])).round(6).tolist()
    [[0.0, 0.4], [0.4, 0.0]]
    """
    lost = np.diag(pooled)[:, np.newaxis] - pooled
    return np.maximum(np.maximum(lost, lost.T), 0.0)


def link_models(distances: Matrix, threshold: float) -> Counts:
    """Return the group of each model under complete linkage, numbered in the order of first members.

    Two groups become one as long as no two of their members are farther apart than the threshold (1e-9 more is not
    more).

    Examples
    --------
    >>> apart = np.array([[0.0, 0.05, 0.3], [0.05, 0.0, 0.2], [0.3, 0.2, 0.0]])
    >>> link_models(apart, 0.1).tolist(), link_models(apart, 0.25).tolist(), link_models(apart, 0.3).tolist()
    ([0, 0, 1], [0, 0, 1], [0, 0, 0])
    """
    # Here and not above: scipy costs more than all of Fielding to import.
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    if distances.shape[0] < 2:
        return np.zeros(distances.shape[0], dtype=np.int64)
    tree = linkage(squareform(distances, checks=False), method="complete")
    labels = fcluster(tree, t=threshold + 1e-9, criterion="distance")
    return in_order_of_appearance(labels).astype(np.int64)


def merging_shares(groups: Counts, weights: Vector) -> Matrix:
    """Return the share of each old model in each new one; a group without weight shares evenly.

    Examples
    --------
    >>> merging_shares(np.array([0, 1, 0]), np.array([3.0, 2.0, 1.0])).tolist()
    [[0.75, 0.0, 0.25], [0.0, 1.0, 0.0]]
    """
    is_part = groups == np.arange(groups.max(initial=-1) + 1)[:, np.newaxis]
    shares = is_part * np.asarray(weights, dtype=np.float64)
    shares = np.where(shares.sum(axis=1, keepdims=True) > 0.0, shares, is_part)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


# ---- models, blocks and members --------------------------------------------------------------------------------------


class DriftState:
    """Models with ids that rise and are never used again, the blocks that each owns, and the clients that each serves.

    ``models``: one row; it becomes one for each id up to the largest of the members. ``member``: the id of the model of
    each client, shape ``(n_clients,)``.

    Attributes
    ----------
    ids
        The id of each row of the models, rising.
    opened, released, used
        Per row: the interval in which the model was opened, the one from which all clients may use it, and the newest
        of which it was given data.
    score, is_due
        Per client: the accuracy of its last test, NaN before the first, and whether it has to be tested.
    """

    def __init__(self, models: ClusterModels, blocks: "Blocks", member: Counts) -> None:
        n_models = int(member.max(initial=0)) + 1
        models.mix(np.ones((n_models, 1)))
        self.cluster_models, self.blocks, self.member = models, blocks, member
        self.ids: Counts = np.arange(n_models)
        self.opened, self.released, self.used = np.zeros((3, n_models), dtype=np.int64)
        self._next_id = n_models
        self.score: Vector = np.full(member.size, np.nan)
        self.is_due: Mask = np.zeros(member.size, dtype=np.bool_)

    def rows(self, ids: Counts | None = None) -> Counts:
        """Return where models stand, those of the clients by default."""
        return np.searchsorted(self.ids, self.member if ids is None else ids)

    def mark_used(self, ids: Counts) -> None:
        """Note that models were given data of the newest interval."""
        self.used[self.rows(np.unique(ids))] = self.blocks.newest

    def assign(self, blocks: Mapping[int, Counts], models: list[int]) -> None:
        """Give blocks of clients (client to intervals), and the clients with them, to models, an id for each client."""
        for (client, intervals), model in zip(blocks.items(), models, strict=True):
            self.blocks.give(intervals, client, model=model)
            self.member[client] = model
        self.mark_used(np.array(models, dtype=np.int64))

    def unused(self, *, leaving: Counts, needed: Counts) -> Counts:
        """Return the rows that serve no client and are none's alone, longest unused first (ties: older).

        ``leaving``: clients that do not count, as they are about to leave. ``needed``: rows that must stay all the
        same.
        """
        in_use = np.concatenate([np.delete(self.rows(), leaving), needed])
        rows = np.setdiff1d(np.flatnonzero(self.released <= self.blocks.newest), in_use)
        return rows[np.argsort(self.used[rows], kind="stable")]

    def open(self, sources: list[int], *, dropped: list[int], released: int) -> list[int]:
        """Copy some rows into new models, throw others away with all they own, and return the ids of the new ones."""
        self.blocks.rename(self.ids[dropped], FORGOTTEN)
        n_models, n_new, now = self.ids.size, len(sources), self.blocks.newest
        kept = np.setdiff1d(np.arange(n_models), dropped)
        self.cluster_models.mix(np.eye(n_models)[[*kept.tolist(), *sources]])
        new = np.arange(self._next_id, self._next_id + n_new)
        self._next_id += n_new
        self.ids = np.concatenate([self.ids[kept], new])
        self.opened, self.released, self.used = (
            np.append(column[kept], np.full(n_new, value, dtype=np.int64))
            for column, value in ((self.opened, now), (self.released, released), (self.used, now))
        )
        return [int(one) for one in new]

    def unite(self, leader: Counts) -> int:
        """Let models go on as one, averaged by their numbers of blocks, and return how many are averages.

        ``leader``: the oldest row of the group that each row belongs to, shape ``(n_models,)``; the group goes on as
        that.
        """
        ids, weights = self.ids, self.blocks.n_owned(self.ids).astype(np.float64)
        leaders, groups, sizes = np.unique(leader, return_inverse=True, return_counts=True)
        if (sizes == 1).all():
            return 0
        self.member = ids[leader[self.rows()]]
        for row in np.flatnonzero(leader != np.arange(leader.size)).tolist():
            self.blocks.rename(ids[row : row + 1], int(ids[leader[row]]))
        self.cluster_models.mix(merging_shares(groups.astype(np.int64), weights))
        members = [groups == group for group in range(leaders.size)]
        self.ids = ids[leaders]
        self.opened, self.released = (
            np.array([column[own].min() for own in members]) for column in (self.opened, self.released)
        )
        self.used = np.array([self.used[own].max() for own in members])
        return int((sizes > 1).sum())

    def arrays(self) -> Arrays:
        """Return all of it, for a checkpoint."""
        return {
            **self.cluster_models.arrays(),
            "model_id": self.ids,
            "opened": self.opened,
            "released": self.released,
            "used": self.used,
            "next_id": np.array([self._next_id]),
            "block_owner": self.blocks.owner,
            "block_filled": self.blocks.filled,
            "member": self.member,
            "score": self.score,
            "is_due": self.is_due,
        }

    def restore(self, arrays: Arrays) -> None:
        """Go on from what :meth:`arrays` gave."""
        self.cluster_models.restore(arrays)
        self.ids, self.opened, self.released, self.used, self.member = (
            arrays[name].astype(np.int64) for name in ("model_id", "opened", "released", "used", "member")
        )
        self._next_id = int(arrays["next_id"].astype(np.int64)[0])
        self.blocks.owner = arrays["block_owner"].astype(np.int32)
        self.blocks.filled = arrays["block_filled"].astype(np.bool_)
        self.score, self.is_due = arrays["score"].astype(np.float64), arrays["is_due"].astype(np.bool_)


class Blocks:
    """A table of owners, interval by client; a block has one owner or none.

    ``n_visible``: how many of the newest intervals count; None for all.

    Examples
    --------
    >>> blocks = Blocks(2, None)
    >>> blocks.grow(1, np.array([True, False]), np.array([True, True]))
    True
    >>> blocks.give(np.array([0, 1]), 0, model=7)
    >>> blocks.of(0, 7).tolist(), blocks.of(1, UNOWNED).tolist(), blocks.owning(7).tolist()
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

        ``interval``: the newest that has come; of those between nothing is known. ``is_filled``: which clients are
        known to have samples of it. ``is_known``: which clients have none of it unless known to.
        """
        n_new = interval - self.newest
        if n_new <= 0:
            return False
        shape = (n_new, self.owner.shape[1])
        self.owner = np.concatenate([self.owner, np.full(shape, UNOWNED, dtype=np.int32)])
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
        """Let models (one per client) own the blocks of some clients that count and have no owner; return whose.

        Whether these blocks hold samples may not be known.
        """
        owner = self.owner[self.first :]
        is_given = who & (owner == UNOWNED)
        owner[is_given] = np.broadcast_to(models, owner.shape)[is_given]
        return np.flatnonzero(is_given.any(axis=0))

    def rename(self, old: Counts, new: int) -> None:
        """Give all that some models own to another one."""
        self.owner[np.isin(self.owner, old)] = new

    def of(self, client: int, owner: int) -> Counts:
        """Return the intervals of a client that count and have this owner, rising."""
        return self.first + np.flatnonzero(self.owner[self.first :, client] == owner)

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


FEDDRIFT = MethodKind(
    summary="clients whose accuracy drops open models of their own, and models that agree merge (FedDrift)",
    sends="how well all models serve its new data; receives all models",
    reports_from=feddrift_reports_from,
    build=FedDrift,
)
FEDDRIFT_EAGER = MethodKind(
    summary="clients whose accuracy drops at the same time open one model together (FedDrift-Eager)",
    sends="how well all models serve its new data; receives all models",
    reports_from=feddrift_reports_from,
    build=FedDriftEager,
)
