"""FedDrift: clients that a drift test catches open models of their own, and models that agree merge (METHODS.md 5)."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fielding._typing import Counts, Json, Mask, Matrix, Membership, Models
from fielding.client.report import ReportBatch
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.feddrift_blocks import Blocks
from fielding.methods.feddrift_jobs import as_chosen, block_plan, owned_answers, sent_once, training_jobs
from fielding.methods.feddrift_merging import Merging, merge_models
from fielding.methods.feddrift_models import NamedModels
from fielding.methods.feddrift_rules import DriftRules
from fielding.methods.feddrift_state import DriftState
from fielding.methods.method import MethodSetting, asked_by_cluster, client_index, planned, positions_of

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
