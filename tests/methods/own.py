"""Methods as users write them, named by ``module:Class``."""

from collections.abc import Mapping

import numpy as np

from fielding._typing import Json, Membership, Models
from fielding.client.report import ReportBatch
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.method import MethodSetting, plan_by_cluster


class Quiet:
    """One model for all, which hears nobody.

    And this line is not its summary.
    """

    def __init__(self, setting: MethodSetting, *, pace: float = 0.5, rows: int = 2) -> None:
        self.pace, self.rows, self._parts = pace, rows, setting.parts
        self._models = setting.parts.cluster_models(setting.initial)
        self._n_clients = len(setting.client_ids)

    @property
    def models(self) -> Models:
        return self._models.models

    def plan(self, clients: Clients) -> TrainingPlan:
        return plan_by_cluster(self._models, self.membership(), clients, self._parts)

    def learn(self, updates: Updates) -> None:
        self._models.learn(updates)

    def membership(self) -> Membership:
        return np.zeros(self._n_clients, dtype=np.int32)

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        return {}, self._models.arrays()

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:  # noqa: ARG002
        self._models.restore(arrays)


class Listening:
    sends = "its shoe size"

    def __init__(self, setting: MethodSetting) -> None:
        self.setting = setting

    def adapt(self, reports: ReportBatch, clients: Clients) -> None:
        pass


NOT_A_CLASS = 3
