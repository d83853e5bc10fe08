"""The algorithm of the paper's convergence theorem (its Algorithm 4), as far as a simulator can follow it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fielding._typing import ClientId, Counts, Json, Membership, Models
from fielding.client.report import ReportBatch
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.decision import Decision
from fielding.coordinator.movement import TriggerMemory
from fielding.coordinator.trigger import Pairwise
from fielding.errors import OptionError, echo
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.fielding import Fielding
from fielding.methods.method import MethodSetting
from fielding.methods.option_checks import whole
from fielding.rng import stream

_NO_LIMIT = 2**31 - 1
"""Whoever draws with replacement never runs out of clients."""


class ClusteredSGD:
    """Groups clients by k-center when two of a cluster are too far apart, and trains each cluster by single steps.

    Parameters
    ----------
    setting
        What it is made of.
    k
        The number of clusters, which the theorem takes for known; fewer where clients are too much alike.
    delta
        How far apart two clients of a cluster may be before everyone is grouped anew, in the unit of the metric.
    """

    def __init__(self, setting: MethodSetting, *, k: int = 3, delta: float = 0.5) -> None:
        policy = replace(
            setting.policy,
            trigger=_trigger(delta),
            clusterer=Clusterer(partitioner="k-center", k_min=max(2, whole("k", k)), k_max=k),
            inherit="average",
        )
        self._fielding = Fielding(replace(setting, policy=policy), guard=False)
        self._participants, self._seed = setting.parts.participants, setting.seed

    @property
    def models(self) -> Models:
        """One row per cluster."""
        return self._fielding.models

    def grow(self, client_ids: Sequence[ClientId]) -> None:
        """Know clients that joined by their ids; they have no cluster until they report."""
        self._fielding.grow(client_ids)

    def adapt(self, reports: ReportBatch, clients: Clients) -> Decision | None:
        """Move drifted clients to the nearest center; group everyone anew if two of a cluster are too far apart."""
        self._fielding.coordinator.memory = TriggerMemory()  # the trigger adapts by what it remembers; here delta stays
        return self._fielding.adapt(reports, clients)

    def plan(self, clients: Clients) -> TrainingPlan:
        """Draw the same number of clients in every cluster, with replacement, for one step each."""
        usual = self._fielding.plan(clients)
        clusters, first = np.unique(usual.start, return_index=True)
        if not clusters.size:
            return usual
        wanted = max(1, self._participants // clusters.size)
        n_asked = clients.invitations(wanted, _NO_LIMIT)
        jobs = np.repeat(first, n_asked)
        return replace(
            usual,
            clients=np.concatenate([self._drawn(cluster, n_asked, clients) for cluster in clusters.tolist()]),
            groups=usual.groups[jobs],
            start=usual.start[jobs],
            wanted=np.full(clusters.size, wanted, dtype=np.int64),
            n_steps=1,
            rate_factors=None if usual.rate_factors is None else usual.rate_factors[jobs],
            upload_shares=None,
            selected_for=usual.start[jobs],
        )

    def _drawn(self, cluster: int, n_asked: int, clients: Clients) -> Counts:
        """Return so many clients of a cluster that can be asked, some perhaps several times."""
        is_waiting = self._fielding.coordinator.clusters is None
        members = np.flatnonzero(clients.askable() & (is_waiting | (self.membership() == cluster)))
        members = members[np.argsort(clients.draws("select", members), kind="stable")]  # whatever their positions are
        rng = stream(self._seed, "with replacement", clients.round_index, cluster)
        return np.asarray(members[rng.integers(members.size, size=n_asked)], dtype=np.int64)

    def learn(self, updates: Updates) -> None:
        """Combine what came back, cluster by cluster."""
        self._fielding.learn(updates)

    def membership(self) -> Membership:
        """Return the cluster of each client, -1 for those that never had data."""
        return self._fielding.membership()

    def cluster_ids(self) -> tuple[int, ...]:
        """Return the stable ids of the clusters."""
        return self._fielding.cluster_ids()

    def heterogeneity(self) -> float | None:
        """Return the mean distance of clients to the others of their cluster, as they reported themselves."""
        return self._fielding.heterogeneity()

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return the coordinator and the models."""
        return self._fielding.snapshot()

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:
        """Go on from a snapshot."""
        self._fielding.restore(values, arrays)


def _trigger(delta: float) -> Pairwise:
    """Return the pairwise trigger; what it calls its step is called delta here, in messages too."""
    if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not 0.0 < delta < np.inf:
        raise OptionError(f"delta is {echo(delta)}; give a positive number")
    return Pairwise(step=delta)
