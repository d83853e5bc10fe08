"""One model for everybody: what clustered methods are measured against."""

from collections.abc import Mapping, Sequence

import numpy as np

from fielding._typing import ClientId, Json, Membership, Models
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.method import MethodSetting, plan_by_cluster


class GlobalModel:
    """Federated averaging: participants are drawn from all clients; no reports, no clusters.

    Parameters
    ----------
    setting
        What it is made of.
    """

    def __init__(self, setting: MethodSetting) -> None:
        self._cluster_models = setting.parts.cluster_models(setting.initial)
        self._everyone = np.zeros(len(setting.client_ids), dtype=np.int32)
        self._parts = setting.parts

    @property
    def models(self) -> Models:
        """The one model, as a matrix of one row."""
        return self._cluster_models.models

    def grow(self, client_ids: Sequence[ClientId]) -> None:
        """Let clients that joined have the one model, too."""
        self._everyone = np.zeros(len(client_ids), dtype=np.int32)

    def plan(self, clients: Clients) -> TrainingPlan:
        """Choose participants among all clients."""
        return plan_by_cluster(self._cluster_models, self._everyone, clients, self._parts)

    def learn(self, updates: Updates) -> None:
        """Combine what came back."""
        self._cluster_models.learn(updates)

    def membership(self) -> Membership:
        """Return that everybody belongs to the one model."""
        return self._everyone

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return the model."""
        return {}, self._cluster_models.arrays()

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:  # noqa: ARG002
        """Go on from a snapshot."""
        self._cluster_models.restore(arrays)
