"""One model for everybody: what clustered methods are measured against."""

from collections.abc import Mapping

import numpy as np

from fielding._typing import Json, Membership, Models
from fielding.client.report import ReportBatch
from fielding.coordinator.decision import Decision
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.method import Parts, plan_by_cluster


class GlobalModel:
    """Federated averaging: participants are drawn from all clients; no reports, no clusters.

    Parameters
    ----------
    initial
        The model that training starts from, float32, shape ``(n_numbers,)``.
    n_clients
        How many clients there are.
    parts
        The plug-ins.
    """

    def __init__(self, initial: Models, n_clients: int, parts: Parts) -> None:
        self._cluster_models = parts.cluster_models(initial)
        self._everyone = np.zeros(n_clients, dtype=np.int32)
        self._parts = parts

    @property
    def models(self) -> Models:
        """The one model, as a matrix of one row."""
        return self._cluster_models.models

    def adapt(self, reports: ReportBatch, round_index: int) -> Decision | None:  # noqa: ARG002
        """Do nothing: nobody listens."""
        return None

    def plan(self, clients: Clients) -> TrainingPlan:
        """Choose participants among all clients."""
        return plan_by_cluster(self.models, self._everyone, clients, self._parts)

    def learn(self, updates: Updates) -> None:
        """Combine what came back."""
        self._cluster_models.learn(np.zeros(1, dtype=np.int64), updates)

    def membership(self) -> Membership:
        """Return that everybody belongs to the one model."""
        return self._everyone

    def cluster_ids(self) -> tuple[int, ...]:
        """Return the id of the one cluster."""
        return (0,)

    def heterogeneity(self) -> float | None:
        """Return nothing: nobody reported."""
        return None

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return the model."""
        return {}, self._cluster_models.arrays()

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:  # noqa: ARG002
        """Go on from a snapshot."""
        self._cluster_models.restore(arrays)
