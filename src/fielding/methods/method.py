"""What every method can do, and the parts that all of them share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fielding._typing import Counts, Json, Membership, Models
from fielding.client.report import ReportBatch
from fielding.coordinator.decision import Decision
from fielding.federation.aggregation import Aggregator, Mean
from fielding.federation.budget import participant_budget
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays, ClusterModels
from fielding.federation.selection import Candidates, Selector, Uniform


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The plug-ins that work with any method.

    Parameters
    ----------
    participants
        Per round, over all clusters.
    selector
        Who trains.
    aggregator
        How their models become one.
    weighted
        Whether a participant counts by its number of samples.
    strict_budget
        Whether slots that a small cluster cannot fill stay empty.
    """

    participants: int
    selector: Selector = field(default_factory=Uniform)
    aggregator: Aggregator = field(default_factory=Mean)
    weighted: bool = False
    strict_budget: bool = False

    def cluster_models(self, initial: Models) -> ClusterModels:
        """Return the models of a method that has no clusters yet."""
        return ClusterModels(initial, self.aggregator, weighted=self.weighted)


class Method(Protocol):
    """Owns membership and models; reaches clients only through the door."""

    @property
    def models(self) -> Models:
        """One row per cluster, float32."""
        ...

    def adapt(self, reports: ReportBatch, round_index: int) -> Decision | None:
        """Act on what clients reported (stages 5 to 8); None if the method does not listen."""
        ...

    def plan(self, clients: Clients) -> TrainingPlan:
        """Choose who trains which model in this round (stage 9)."""
        ...

    def learn(self, updates: Updates) -> None:
        """Make new models of what came back (stage 11)."""
        ...

    def membership(self) -> Membership:
        """Return the row of ``models`` that each client belongs to, -1 for none yet."""
        ...

    def cluster_ids(self) -> tuple[int, ...]:
        """Return the stable id of each row of ``models``."""
        ...

    def heterogeneity(self) -> float | None:
        """Return the mean distance between the representations of clients of the same cluster, where they are known."""
        ...

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return everything that decides what the method does next, models included."""
        ...

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:
        """Go on from a snapshot."""
        ...


def plan_by_cluster(models: Models, membership: Membership, clients: Clients, parts: Parts) -> TrainingPlan:
    """Share the participants of a round among the clusters and choose them; each trains its cluster's model.

    Clients without a cluster are not asked. More are asked than are wanted, as the door says.
    """
    askable = np.flatnonzero(clients.askable() & (membership >= 0))
    cluster_of = membership[askable]
    members = np.bincount(cluster_of, minlength=models.shape[0])
    budget = participant_budget(parts.participants, members, strict=parts.strict_budget)
    draws = clients.draws("select", askable)
    asked: list[Counts] = []
    trained = np.flatnonzero(budget)
    for cluster in trained.tolist():
        own = cluster_of == cluster
        n_asked = clients.invitations(int(budget[cluster]), int(members[cluster]))
        asked.append(parts.selector.select(Candidates(clients=askable[own], draws=draws[own]), n_asked))
    sizes = [group.size for group in asked]
    return TrainingPlan(
        models=models,
        clients=np.concatenate([*asked, np.empty(0, dtype=np.int64)]).astype(np.int64),
        groups=np.repeat(np.arange(trained.size), sizes),
        start=np.repeat(trained, sizes),
        wanted=budget[trained],
        with_start_loss=parts.aggregator.needs_start_loss,
    )
