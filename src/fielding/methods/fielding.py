"""Fielding: one model per cluster, clusters that follow the drift (METHODS.md section 1)."""

from collections.abc import Mapping

import numpy as np

from fielding._typing import Counts, Json, Membership, Models
from fielding.client.report import ReportBatch
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.decision import Decision
from fielding.coordinator.heterogeneity import mean_client_distance
from fielding.coordinator.registry import UNASSIGNED
from fielding.coordinator.snapshot import Snapshot, restored, snapshot
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.method import MethodSetting, client_index, plan_by_cluster, positions_of
from fielding.rng import stream

_PREFIX = "coordinator/"


class Fielding:
    """Lets a coordinator group the clients and trains one model per group.

    Parameters
    ----------
    setting
        What it is made of.
    """

    def __init__(self, setting: MethodSetting) -> None:
        self._cluster_models = setting.parts.cluster_models(setting.initial)
        self.coordinator = Coordinator(setting.policy)
        self._index = client_index(setting.client_ids)
        self._position_of_row: Counts = np.empty(0, dtype=np.int64)
        self._parts = setting.parts

    @property
    def models(self) -> Models:
        """One row per cluster."""
        return self._cluster_models.models

    def adapt(self, reports: ReportBatch, clients: Clients) -> Decision | None:
        """Let the coordinator decide, and start new clusters from the models of their members."""
        if not len(reports.client_ids):
            return self.coordinator.decide(step=clients.round_index)
        decision = self.coordinator.update(reports, step=clients.round_index)
        if decision.started or decision.reclustered:
            self._cluster_models.mix(decision.mixing)
        return decision

    def plan(self, clients: Clients) -> TrainingPlan:
        """Choose participants in every cluster."""
        return self.plan_for(self.membership(), clients)

    def plan_for(self, membership: Membership, clients: Clients) -> TrainingPlan:
        """Choose participants as if these were the clusters."""
        return plan_by_cluster(self._cluster_models, membership, clients, self._parts)

    def learn(self, updates: Updates) -> None:
        """Combine what came back, cluster by cluster."""
        self._cluster_models.learn(updates)

    def membership(self) -> Membership:
        """Return the cluster of each client, -1 for those that never had data."""
        registry = self.coordinator.registry
        known = self._position_of_row.size
        if known < len(registry):
            new = positions_of(registry.client_ids[known:], self._index)
            self._position_of_row = np.concatenate([self._position_of_row, new])
        membership = np.full(len(self._index), UNASSIGNED, dtype=np.int32)
        membership[self._position_of_row] = registry.membership
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
        return {"coordinator": state.values}, {
            **self._cluster_models.arrays(),
            **{f"{_PREFIX}{name}": array for name, array in state.arrays.items()},
        }

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:
        """Go on from a snapshot."""
        inner = values.get("coordinator")
        own = {name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)}
        self.coordinator = restored(Snapshot(values=inner if isinstance(inner, dict) else {}, arrays=own))
        self._cluster_models.restore(arrays)
        self._position_of_row = np.empty(0, dtype=np.int64)
