"""A method of one's own: clients are grouped by the label that they see most often, anew whenever they report.

In this folder: fielding run configs/own_method.toml; fielding methods own_method:MostFrequentLabel --check
"""

from collections.abc import Mapping

import numpy as np

from fielding import compare
from fielding.methods import (
    Arrays,
    Clients,
    Json,
    Membership,
    MethodSetting,
    Models,
    ReportBatch,
    TrainingPlan,
    Updates,
    client_index,
    plan_by_cluster,
)


class MostFrequentLabel:
    """Keep one model per group of labels; a client belongs to the group of its most frequent label."""

    sends = "its label histogram, when it drifted"

    def __init__(self, setting: MethodSetting, *, groups: int = 4) -> None:
        self._parts, self._groups = setting.parts, groups
        self._index = client_index(setting.client_ids)
        self._row = np.full(len(self._index), -1, dtype=np.int32)  # -1: never heard of, never asked
        self._models = setting.parts.cluster_models(setting.initial)
        self._models.mix(np.ones((groups, 1)))  # all groups start from the one initial model

    @property
    def models(self) -> Models:  # noqa: D102
        return self._models.models

    def adapt(self, reports: ReportBatch, clients: Clients) -> None:  # noqa: ARG002, D102
        for client_id, histogram in zip(reports.client_ids, reports.representations, strict=True):
            if histogram.any():  # zeros say that a client has no samples left
                self._row[self._index[client_id]] = histogram.argmax() % self._groups

    def plan(self, clients: Clients) -> TrainingPlan:  # noqa: D102
        return plan_by_cluster(self._models, self._row, clients, self._parts)

    def learn(self, updates: Updates) -> None:  # noqa: D102
        self._models.learn(updates)

    def membership(self) -> Membership:  # noqa: D102
        return self._row.copy()

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:  # noqa: D102
        return {}, {**self._models.arrays(), "row": self._row}

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:  # noqa: ARG002, D102
        self._models.restore(arrays)
        self._row = arrays["row"].astype(np.int32)


if __name__ == "__main__":
    config = {"rounds": 60, "trace": {"scenario": "label-buckets", "clients": 40, "gap": 20, "window": 20}}
    print(compare(config, ["global", MostFrequentLabel], seeds=2))
