"""The oracle: clusters are the true concepts. The ceiling of a comparison, for scenarios that know them."""

from collections.abc import Callable, Mapping

import numpy as np

from fielding._typing import Codes, Json, Membership, Models
from fielding.errors import OptionError
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.kinds import MethodKind
from fielding.methods.local import check_memory
from fielding.methods.method import MethodSetting, plan_by_cluster


class Oracle:
    """One model per concept; a client is in the cluster of its concept as soon as that changes.

    A concept that is seen for the first time takes over the model (and what the server remembers of it) of the cluster
    that most of its clients come from; several: the one that was there first. A concept without clients keeps
    its model for when it comes back.

    Parameters
    ----------
    setting
        What it is made of; ``truth`` must know.
    """

    def __init__(self, setting: MethodSetting) -> None:
        self._truth = find_truth(setting)
        self._cluster_models = setting.parts.cluster_models(setting.initial)
        self._parts = setting.parts
        self._concepts: tuple[int, ...] = ()
        self._membership: Membership = np.full(len(setting.client_ids), -1, dtype=np.int32)

    @property
    def models(self) -> Models:
        """One row per concept that was ever there."""
        return self._cluster_models.models

    def plan(self, clients: Clients) -> TrainingPlan:
        """Look up the concepts of this round, and choose participants in every one."""
        truth = self._truth(clients.round_index)
        new = np.setdiff1d(truth[truth >= 0], np.array(self._concepts, dtype=np.int64)).tolist()
        if new:
            check_memory(len(self._concepts) + len(new), self.models.shape[1])
            rows = [self._membership[truth == concept] for concept in new]
            # The row that most of a concept's clients are in; the first if they are in none.
            donors = [int(np.bincount(row[row >= 0], minlength=1).argmax()) for row in rows]
            self._cluster_models.mix(np.eye(self.models.shape[0])[[*range(len(self._concepts)), *donors]])
            self._concepts += tuple(new)
        row_of = {concept: at for at, concept in enumerate(self._concepts)}
        self._membership = np.array([row_of.get(concept, -1) for concept in truth.tolist()], dtype=np.int32)
        return plan_by_cluster(self._cluster_models, self._membership, clients, self._parts, is_parallel=True)

    def learn(self, updates: Updates) -> None:
        """Combine what came back, concept by concept."""
        self._cluster_models.learn(updates)

    def membership(self) -> Membership:
        """Return the row of each client's concept, -1 where that is not known."""
        return self._membership

    def cluster_ids(self) -> tuple[int, ...]:
        """Return the concepts as the scenario numbers them."""
        return self._concepts or (0,)

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return the models, and which concept each is of."""
        return {"concepts": list(self._concepts)}, {**self._cluster_models.arrays(), "concept_row": self._membership}

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:
        """Go on from a snapshot."""
        stored = values.get("concepts")
        self._concepts = tuple(int(str(one)) for one in stored) if isinstance(stored, list) else ()
        self._membership = arrays["concept_row"].astype(np.int32)
        self._cluster_models.restore(arrays)


def find_truth(setting: MethodSetting) -> Callable[[int], Codes]:
    """Return the function that knows the true concepts, or raise if there is none."""
    truth = setting.truth
    if truth is None or truth(0) is None:
        raise OptionError(
            "the oracle needs the true concept of every client, which this trace does not tell; name a scenario in "
            "trace.scenario, give the trace an array concept, or choose another method"
        )

    def known(round_index: int) -> Codes:
        concepts = truth(round_index)
        return np.full(len(setting.client_ids), -1, dtype=np.int32) if concepts is None else concepts

    return known


KIND = MethodKind(
    summary="one model per true concept, for scenarios that know it: the ceiling", sends="nothing", build=Oracle
)
