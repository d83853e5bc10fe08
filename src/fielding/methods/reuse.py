"""Models of clusters that disappeared, kept for the day on which their distribution comes back."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Matrix, Membership, Models
from fielding.config.options import whole
from fielding.coordinator.assignment import Clusters
from fielding.distance import Metric
from fielding.federation.clients import Clients
from fielding.methods.method import draw_clients

Arrays = dict[str, npt.NDArray[np.generic]]
N_JUDGES = 5  # members of a new cluster that are asked which model serves them better
NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reclustering:
    """What a global clustering made of the clusters there were."""

    before: Clusters  # the clusters at the end of the event before: what their models were trained on
    models: Models  # their models, one row each, before they are mixed
    centers: Matrix  # the centers of the new clusters, shape (n_new, n_features)
    mixing: Matrix  # share of each old model in each new one, shape (n_new, n_old)
    metric: Metric
    within: float  # centers closer than this belong to the same distribution, see reach
    # How many numbers of all models, the first ones, clusters share: an old model lends its other numbers alone.
    n_shared: int = 0

    def disappeared(self) -> Counts:
        """Return the old clusters, live or dormant, to which no new center is close: their distribution is gone."""
        distances = self.metric.between(self.before.centers, self.centers)
        return np.flatnonzero(distances.min(axis=1) > self.within)


def reach(before: Clusters, theta: float, *, metric: Metric) -> float:
    """Return within which distance centers belong to the same distribution.

    Half the mean distance between the live clusters that there were: moves have not blurred it. Half of ``theta``, the
    mean distance between clients, if there was only one.
    """
    centers = before.centers[before.live]
    if centers.shape[0] < 2:
        return theta / 2.0
    return float(metric.between(centers, centers)[np.triu_indices(centers.shape[0], k=1)].mean()) / 2.0


class RetiredModels:
    """A few models with the centers that they fitted; the least recently used gives way.

    ``slots``: how many models are kept at most; 0 keeps none.
    """

    def __init__(self, slots: int = 5) -> None:
        self._slots = whole("reuse", slots, least=0, most=1_000)
        self._centers: Matrix = np.zeros((0, 0))
        self._models: Models = np.zeros((0, 0), dtype=np.float32)
        self._ids: Counts = np.zeros(0, dtype=np.int64)
        self._last_round: Counts = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ids.size)

    @property
    def slots(self) -> int:
        """How many models are kept at most."""
        return self._slots

    @property
    def ids(self) -> Counts:
        """The stable id that each had as a cluster, least recently used first."""
        return self._ids

    def model(self, slot: int) -> Models:
        """Return the model in a slot, shape ``(n_numbers,)``."""
        return np.asarray(self._models[slot])

    def retire(self, past: Reclustering, rows: Counts, round_index: int) -> None:
        """Keep the models of old clusters; a kept one of the same distribution is replaced."""
        for row in rows.tolist() if self._slots else []:
            center = past.before.centers[row]
            if len(self):
                distances = past.metric.between(self._padded(center.size), center[np.newaxis])[:, 0]
                self._order(np.flatnonzero(distances > past.within))
            centers, models = center[np.newaxis], past.models[row][np.newaxis]
            self._centers = np.concatenate([self._padded(center.size), centers]) if len(self) else centers
            self._models = np.concatenate([self._models, models]) if len(self) else models
            self._ids = np.append(self._ids, past.before.ids[row])
            self._last_round = np.append(self._last_round, round_index)
            self._order(np.arange(len(self))[-self._slots :])

    def match(self, past: Reclustering) -> Counts:
        """Return for each new cluster the slot of the retired model that fits, -1 for none, shape ``(n_new,)``.

        It fits if its center is the nearest of the retired ones, lies within reach, and is nearer than the center of
        any live old cluster that the new one inherits from.
        """
        found = np.full(past.centers.shape[0], NONE, dtype=np.int64)
        if not len(self):
            return found
        distances = past.metric.between(past.centers, self._padded(past.centers.shape[1]))
        inherited = past.metric.between(past.centers, past.before.centers)
        inherited[(past.mixing <= 0.0) | ~past.before.live] = np.inf
        nearest = distances.argmin(axis=1)
        closest = distances.min(axis=1)
        fits = (closest <= past.within) & (closest < inherited.min(axis=1))
        return np.where(fits, nearest, found)

    def touch(self, slots: Counts, round_index: int) -> None:
        """Note that some models were looked at: they are the last to give way."""
        used = np.isin(np.arange(len(self)), slots)
        self._last_round = np.where(used, round_index, self._last_round)
        self._order(np.concatenate([np.flatnonzero(~used), np.flatnonzero(used)]))

    def arrays(self) -> Arrays:
        """Return everything, for a checkpoint."""
        return {"centers": self._centers, "models": self._models, "ids": self._ids, "last_round": self._last_round}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave; with nothing, begin anew."""
        if "ids" in arrays:
            self._centers = arrays["centers"].astype(np.float64)
            self._models = arrays["models"].astype(np.float32)
            self._ids = arrays["ids"].astype(np.int64)
            self._last_round = arrays["last_round"].astype(np.int64)

    def _padded(self, n_features: int) -> Matrix:
        """Return the centers with zeros for labels that came later."""
        return np.pad(self._centers, ((0, 0), (0, n_features - self._centers.shape[1])))

    def _order(self, slots: Counts) -> None:
        self._centers, self._models = self._centers[slots], self._models[slots]
        self._ids, self._last_round = self._ids[slots], self._last_round[slots]


def reuse_models(
    mixed: Models, past: Reclustering, retired: RetiredModels, membership: Membership, clients: Clients
) -> Models:
    """Return the new models, with a retired one where it fits and serves members of the new cluster better.

    Up to :data:`N_JUDGES` members of a new cluster are sent both candidates and tell their losses, which is charged.
    What the server remembers of a cluster stays mixed: its members are the same, and it belongs to how they train.

    ``mixed``: the new models as the mixture makes them, shape ``(n_new, n_numbers)``; not written to. ``retired``: the
    memory; models of clusters that disappeared are added to it afterwards.
    """
    models = mixed
    slots = retired.match(past)
    for row in np.flatnonzero(slots != NONE).tolist():
        old = retired.model(int(slots[row])).copy()
        old[: past.n_shared] = mixed[row, : past.n_shared]  # what clusters share goes on as it is
        candidates = np.stack([mixed[row], old])
        judges = draw_clients(clients, (membership == row) & clients.askable(), N_JUDGES, purpose="reuse")
        losses = clients.losses(judges, candidates, corrected=True) if judges.size else np.empty((0, 2))
        answered = losses[np.isfinite(losses).all(axis=1)]
        mixture_loss, old_loss = answered.mean(axis=0) if answered.size else (0.0, 0.0)
        if old_loss < mixture_loss:
            models = models.copy() if models is mixed else models
            models[row] = candidates[1]
    retired.touch(slots[slots != NONE], clients.round_index)
    retired.retire(past, past.disappeared(), clients.round_index)
    return models
