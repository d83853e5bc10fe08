"""One model for everybody: what clustered methods are measured against."""

from collections.abc import Mapping

import numpy as np

from fielding._typing import Json, Membership, Models
from fielding.client.report import ReportBatch
from fielding.coordinator.decision import Decision
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.methods.method import Arrays, Parts, learned_models, plan_by_cluster


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
        self.models: Models = initial[np.newaxis].astype(np.float32)
        self._everyone = np.zeros(n_clients, dtype=np.int32)
        self._parts = parts

    def adapt(self, reports: ReportBatch, round_index: int) -> Decision | None:  # noqa: ARG002
        """Do nothing: nobody listens."""
        return None

    def plan(self, clients: Clients) -> TrainingPlan:
        """Choose participants among all clients."""
        return plan_by_cluster(self.models, self._everyone, clients, self._parts)

    def learn(self, updates: Updates) -> None:
        """Combine what came back."""
        self.models = learned_models(self.models, np.zeros(1, dtype=np.int64), updates, self._parts)

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
        return {}, {"models": self.models}

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:  # noqa: ARG002
        """Go on from a snapshot."""
        self.models = arrays["models"].astype(np.float32)
