"""One model for all clients: federated averaging (McMahan et al., 2017), and Flash at the server."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fielding._typing import ClientId, Json, Membership, Models
from fielding.federation.aggregation.flash import Flash
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.kinds import MethodKind
from fielding.methods.method import MethodSetting, plan_by_cluster


class GlobalModel:
    """Federated averaging: participants are drawn from all clients; no reports, no clusters."""

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
        return plan_by_cluster(self._cluster_models, self._everyone, clients, self._parts, is_parallel=True)

    def learn(self, updates: Updates) -> None:
        """Combine what came back."""
        self._cluster_models.learn(updates)

    def membership(self) -> Membership:
        """Return that all clients belong to the one model."""
        return self._everyone

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return the model."""
        return {}, self._cluster_models.arrays()

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:  # noqa: ARG002
        """Go on from a snapshot."""
        self._cluster_models.restore(arrays)


def flash(
    setting: MethodSetting,
    *,
    eta: float = 0.01,
    beta1: float = 0.9,
    beta2: float = 0.99,
    tau: float = 1e-3,
    speedup: float = 10.0,
) -> GlobalModel:
    """Return one model for all clients with Flash at the server, whatever aggregation the setting names.

    Parameters
    ----------
    eta
        The server's learning rate.
    beta1, beta2
        How much of the old moments stays.
    tau
        How little adaptivity there is: large values make all coordinates alike.
    speedup
        How many times the step of Adam a step may be, at least 1; with 1 it only ever brakes.
    """
    aggregator = Flash(eta=eta, beta1=beta1, beta2=beta2, tau=tau, speedup=speedup)
    return GlobalModel(replace(setting, parts=replace(setting.parts, aggregator=aggregator)))


GLOBAL = MethodKind(summary="one model for everybody: federated averaging", sends="nothing", build=GlobalModel)
FLASH = MethodKind(
    summary="one model for everybody, whose server takes longer steps after drift (Flash)", sends="nothing", build=flash
)
