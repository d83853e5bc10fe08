"""Fielding: one model per cluster, clusters that follow the drift (METHODS.md 1).

Read :meth:`Fielding.adapt` first: what the coordinator decides of reports, what becomes of the models then, and what
the guard (``guard.py``) and the memory of models that disappeared (``reuse.py``) add to it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fielding._typing import ClientId, Counts, Json, Membership, Models
from fielding.client.report import ReportBatch
from fielding.coordinator.assignment import Clusters
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.decision import Decision
from fielding.coordinator.heterogeneity import mean_client_distance
from fielding.coordinator.registry import UNASSIGNED
from fielding.coordinator.regrouping import merge_clusters, moved_membership, rule_regrouping
from fielding.coordinator.snapshot import Snapshot, restore_coordinator, snapshot
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.guard import KEPT, Guard, Opinion, place_by_loss
from fielding.methods.kinds import MethodKind
from fielding.methods.method import MethodSetting, client_index, plan_by_cluster, positions_of
from fielding.methods.reuse import Reclustering, RetiredModels, reach, reuse_models
from fielding.rng import stream

MOST_ROUNDS = 50  # rounds on each side of an event that count at most
LEAST_LOSS = 1e-6  # losses below this are as good as none


class Fielding:
    """Lets a coordinator group the clients and trains one model per group.

    Parameters
    ----------
    reuse
        How many models of clusters that disappeared are kept, to be offered again when their distribution comes back;
        0 for none.
    guard
        Whether clusters are kept only where clients' held-out loss says that they pay; as the run says by default.
    """

    def __init__(self, setting: MethodSetting, *, reuse: int = 0, guard: bool | None = None) -> None:
        self._cluster_models = setting.parts.cluster_models(setting.initial, has_common=setting.parts.n_shared > 0)
        self.coordinator = Coordinator(setting.policy)
        self._index = client_index(setting.client_ids)
        self._position_of_row: Counts = np.empty(0, dtype=np.int64)
        self._parts = setting.parts
        self._rewards = EventRewards()
        self._retired = RetiredModels(reuse)
        is_guarded = setting.is_guarded if guard is None else guard
        self._guard = Guard() if is_guarded else None

    @property
    def models(self) -> Models:
        """One row per cluster."""
        return self._cluster_models.models

    @property
    def served(self) -> Models | None:
        """Averages over rounds, a row per cluster, then the model for all; None where clusters share nothing."""
        return self._cluster_models.served

    def grow(self, client_ids: Sequence[ClientId]) -> None:
        """Know clients that joined by their ids; they have no cluster until they report."""
        self._index = client_index(client_ids)

    def adapt(self, reports: ReportBatch, clients: Clients) -> Decision | None:
        """Let the coordinator decide, start new clusters from the models of their members, and let a guard look."""
        if len(reports.client_ids) and (gain := self._rewards.close()) is not None:
            self.coordinator.reward(gain)  # of the event before this one, for triggers that learn
        if self._guard is None:
            return self._decide(reports, clients)
        return self._decide_guarded(self._guard, reports, clients)

    def _decide(self, reports: ReportBatch, clients: Clients) -> Decision:
        """Return what the coordinator makes of reports; new clusters start from a mixture of the old models."""
        if not len(reports.client_ids):
            return self.coordinator.decide(step=clients.round_index)
        before = self.coordinator.clusters
        decision = self.coordinator.update(reports, step=clients.round_index)
        if decision.started or decision.reclustered:
            models = self._cluster_models.models
            self._cluster_models.mix(decision.mixing)
            if before is not None and self._retired.slots:
                self._reuse(before, models, decision, clients)
        return decision

    def _decide_guarded(self, guard: Guard, reports: ReportBatch, clients: Clients) -> Decision:
        """Return a decision after clients that nothing explains were placed, and clusters that do not pay merged."""
        guard.begin(clients)
        coordinator, models = self.coordinator, self.models
        before, stood = coordinator.clusters, coordinator.registry.membership.copy()
        with rule_regrouping(coordinator, allowed=guard.allows_others, wanted=guard.wants_others):
            decision = self._decide(reports, clients)
        if before is None:
            guard.forget(self.models.shape[0])
            return decision
        if decision.reclustered:
            # Clusters that are made anew at every arrival would never be judged: judge those there were.
            stood = moved_membership(coordinator, before, stood, decision.reported)
            opinion, into = guard.look(models, self._active(stood), clients, common=self._cluster_models.common)
            guard.forget(self.models.shape[0], kept=KEPT)
            into = None if into is None or into.min() < into.max() else np.zeros(self.models.shape[0], dtype=np.int64)
            return self._merge(guard, decision, opinion, into)
        moved = place_by_loss(coordinator, self.models, reports, clients)
        active = self._active(coordinator.registry.membership)
        opinion, into = guard.look(self.models, active, clients, common=self._cluster_models.common)
        others = set(decision.moved)
        decision = replace(decision, moved=[*decision.moved, *(one for one in moved if one not in others)])
        return self._merge(guard, decision, opinion, into)

    def _merge(self, guard: Guard, decision: Decision, opinion: Opinion | None, into: Counts | None) -> Decision:
        """Merge clusters if a guard said so, and return the decision with what was said and done."""
        mixing, notes = decision.mixing, decision.notes
        if opinion is not None:
            notes = {**notes, "guard": opinion.record()}
        if into is not None and into.size > 1:
            merging = merge_clusters(self.coordinator, into)
            self._cluster_models.mix(merging)
            guard.note_merge(self.models.shape[0])
            mixing, notes = merging @ mixing, {**notes, "merged": into.tolist()}
        n_live = int(self.coordinator.clusters.live.sum()) if self.coordinator.clusters else 0
        return replace(decision, cluster_ids=self.cluster_ids(), n_live=n_live, mixing=mixing, notes=notes)

    def _reuse(self, before: Clusters, models: Models, decision: Decision, clients: Clients) -> None:
        """Let models of clusters that disappeared serve clusters that are like them, and keep those that now end."""
        now = self.coordinator.clusters
        if now is None:
            return
        past = Reclustering(
            before=before,
            models=models,
            centers=now.centers,
            mixing=decision.mixing,
            metric=self.coordinator.metric,
            within=reach(before, decision.theta or 0.0, metric=self.coordinator.metric),
            n_shared=self._parts.n_shared,
        )
        mixed = self._cluster_models.models
        self._cluster_models.models = reuse_models(mixed, past, self._retired, self.membership(), clients)

    def plan(self, clients: Clients) -> TrainingPlan:
        """Choose participants in every cluster; before the first reports all clients train the one model."""
        membership = self.membership()
        is_waiting = self.coordinator.clusters is None
        return self.plan_for(np.zeros_like(membership) if is_waiting else membership, clients)

    def plan_for(self, membership: Membership, clients: Clients) -> TrainingPlan:
        """Choose participants as if these were the clusters."""
        return plan_by_cluster(self._cluster_models, membership, clients, self._parts, is_parallel=True)

    def learn(self, updates: Updates) -> None:
        """Combine what came back, cluster by cluster."""
        self._cluster_models.learn(updates)
        self._rewards.learn(updates)

    def membership(self) -> Membership:
        """Return the cluster of each client, -1 for those that never had data."""
        return self._by_position(self.coordinator.registry.membership)

    def _active(self, membership: Membership) -> Membership:
        """Return the cluster of each client that is active, -1 for all others, from one in the registry's order."""
        return self._by_position(np.where(self.coordinator.registry.active, membership, UNASSIGNED))

    def _by_position(self, by_row: Membership) -> Membership:
        """Return a membership in the order of clients, from one in the order of the registry."""
        registry = self.coordinator.registry
        known = self._position_of_row.size
        if known < len(registry):
            new = positions_of(registry.client_ids[known:], self._index)
            self._position_of_row = np.concatenate([self._position_of_row, new])
        membership = np.full(len(self._index), UNASSIGNED, dtype=np.int32)
        membership[self._position_of_row] = by_row
        return membership

    def cluster_ids(self) -> tuple[int, ...]:
        """Return the stable ids of the clusters; before the first report there is one model and no cluster."""
        return self.coordinator.clusters.ids if self.coordinator.clusters else (0,)

    def heterogeneity(self) -> float | None:
        """Return the mean distance of clients to the others of their cluster, as they reported themselves."""
        coordinator = self.coordinator
        rows = coordinator.registry.active_rows()
        measured = mean_client_distance(
            coordinator.registry.active_points(),
            coordinator.registry.membership[rows],
            metric=coordinator.metric,
            rng=stream(coordinator.policy.seed, "heterogeneity", coordinator.n_events),
        )
        return float(measured.mean) if measured.mean is not None and np.isfinite(measured.mean) else None

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return the coordinator and the models."""
        state = snapshot(self.coordinator)
        retired = self._retired.arrays() if len(self._retired) else {}
        return {"coordinator": state.values, "rewards": self._rewards.record()}, {
            **self._cluster_models.arrays(),
            **{f"coordinator/{name}": array for name, array in state.arrays.items()},
            **{f"retired/{name}": array for name, array in retired.items()},
            **({} if self._guard is None else self._guard.arrays()),
        }

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:
        """Go on from a snapshot."""
        inner = values.get("coordinator")
        own = _under("coordinator/", arrays)
        policy = self.coordinator.policy  # that of the config, which may have changed since
        self.coordinator = restore_coordinator(Snapshot(values=inner if isinstance(inner, dict) else {}, arrays=own))
        self.coordinator.policy = policy
        self._retired.restore(_under("retired/", arrays))
        self._rewards = EventRewards.from_record(values, "rewards")
        self._cluster_models.restore(arrays)
        if self._guard is not None:
            self._guard.restore(arrays)
        self._position_of_row = np.empty(0, dtype=np.int64)


def _under(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays of a part, by the names that it gave them."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


class EventRewards:
    """Keeps the mean loss of each round since the event before the last one.

    The reward of an event is the logarithm of the loss before over the loss after it: by which share training got
    better from the rounds before the event to those between it and the next, over equally many rounds on both sides. A
    ratio, since losses fall while training goes on; what every event brings alike is the trigger's to subtract.
    """

    def __init__(self) -> None:
        self._before: list[float] = []
        self._after: list[float] = []

    def learn(self, updates: Updates) -> None:
        """Note how a round went; a round without answers says nothing."""
        loss = float(np.mean(updates.loss)) if updates.loss.size else math.nan
        if math.isfinite(loss) and len(self._after) < MOST_ROUNDS:
            self._after.append(loss)

    def close(self) -> float | None:
        """End the stretch of rounds since the last event and return what that event brought; None if that is unknown.

        Examples
        --------
        >>> rewards = EventRewards()
        >>> rewards._before, rewards._after = [9.0, 2.0], [1.0]
        >>> round(rewards.close(), 3)  # log(2 / 1)
        0.693
        """
        n_rounds = min(len(self._before), len(self._after))
        gain = _log_mean(self._before[-n_rounds:]) - _log_mean(self._after[:n_rounds]) if n_rounds else None
        if self._after:
            self._before, self._after = self._after, []
        return gain

    def record(self) -> Json:
        """Return the state, as JSON can hold it."""
        return [list(self._before), list(self._after)]

    @classmethod
    def from_record(cls, values: Mapping[str, Json], key: str) -> "EventRewards":
        """Return the state that was written down under a key; a blank one if there is none."""
        rewards, stored = cls(), values.get(key)
        if isinstance(stored, list) and len(stored) == 2:
            rewards._before, rewards._after = (
                [float(str(loss)) for loss in side] if isinstance(side, list) else [] for side in stored
            )
        return rewards


def _log_mean(losses: Sequence[float]) -> float:
    return math.log(max(LEAST_LOSS, math.fsum(losses) / len(losses)))


KIND = MethodKind(
    summary="one model per cluster; drifted clients move, and all are grouped anew when a center moved too far",
    sends="a representation of the window, when it drifted",
    reports_from="drifted",
    build=Fielding,
)
