"""Fielding with one thing left out or overdone: the comparisons that show what each of its parts is worth.

METHODS.md 1.7: ``moves`` never groups all clients anew, ``always`` does so at every event, ``static`` listens to each
client once, ``selected`` to participants alone; ``clustered-sgd`` is the method of the convergence theorem.
"""

from dataclasses import replace

import numpy as np

from fielding._typing import Counts, Membership
from fielding.client.drift import drift_test_named
from fielding.client.report import NO_REPORTS, ReportBatch
from fielding.config.options import whole
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.decision import Decision
from fielding.coordinator.movement import TriggerMemory
from fielding.coordinator.trigger import Always, Never, Pairwise
from fielding.errors import OptionError, echo
from fielding.federation.clients import Clients, TrainingPlan
from fielding.methods.fielding import Fielding
from fielding.methods.kinds import MethodKind
from fielding.methods.method import MethodSetting
from fielding.rng import stream

_NO_LIMIT = 2**31 - 1  # draws with replacement never run out of clients


def moves(setting: MethodSetting) -> Fielding:
    """Return Fielding whose clients move one by one and are never grouped anew ("Move Individuals")."""
    return Fielding(replace(setting, policy=replace(setting.policy, trigger=Never())), guard=False)


def always(setting: MethodSetting) -> Fielding:
    """Return Fielding that groups all clients anew at every event with a report ("Global Recluster")."""
    return Fielding(replace(setting, policy=replace(setting.policy, trigger=Always())), guard=False)


class StaticClusters(Fielding):
    """Fielding whose clusters stay what they were at the start; a client that comes later joins the nearest, once."""

    def __init__(self, setting: MethodSetting) -> None:
        super().__init__(replace(setting, policy=replace(setting.policy, trigger=Never())), guard=False)

    def adapt(self, reports: ReportBatch, clients: Clients) -> Decision | None:
        """Let the coordinator place clients that report for the first time."""
        return super().adapt(first_reports(reports, self.coordinator), clients)

    def plan(self, clients: Clients) -> TrainingPlan:
        """Choose participants in every cluster."""
        return self.plan_for(self.membership(), clients)


class SelectedReports(Fielding):
    """Fielding for clients that report with the models that they trained, and never else."""

    def __init__(self, setting: MethodSetting) -> None:
        super().__init__(setting, guard=False)

    def plan(self, clients: Clients) -> TrainingPlan:
        """Choose participants in every cluster; clients without one may train in the largest, and report then."""
        return self.plan_for(add_newcomers(self.membership()), clients)


def first_reports(reports: ReportBatch, coordinator: Coordinator) -> ReportBatch:
    """Return the reports of clients that have no cluster yet.

    Examples
    --------
    >>> coordinator, ann = Coordinator(), ReportBatch(client_ids=["ann"], representations=np.array([[1.0, 0.0]]))
    >>> first_reports(ann, coordinator).client_ids
    ['ann']
    >>> decision = coordinator.update(ann)
    >>> first_reports(ann, coordinator).client_ids
    []
    """
    known = coordinator.registry
    new = [
        at
        for at, client_id in enumerate(reports.client_ids)
        if client_id not in known or coordinator.cluster_of(client_id) is None
    ]
    if not new:
        return NO_REPORTS
    return replace(
        reports,
        client_ids=[reports.client_ids[at] for at in new],
        representations=reports.representations[new],
        n_samples=None if reports.n_samples is None else reports.n_samples[new],
        kinds=None if reports.kinds is None else reports.kinds[new],
    )


def add_newcomers(membership: Membership) -> Membership:
    """Return the same clusters, and the largest (of several: the first) for clients that have none.

    Examples
    --------
    >>> add_newcomers(np.array([1, -1, 1, 0])).tolist()
    [1, 1, 1, 0]
    """
    sizes = np.bincount(membership[membership >= 0], minlength=1)
    return np.where(membership < 0, np.int32(sizes.argmax()), membership)


class ClusteredSGD(Fielding):
    """Groups clients by k-center when two of a cluster are too far apart, and trains each cluster by single steps.

    Parameters
    ----------
    k
        The number of clusters, which the theorem takes for known; fewer where clients are too much alike.
    delta
        How far apart two clients of a cluster may be before everyone is grouped anew, in the unit of the metric.
    """

    def __init__(self, setting: MethodSetting, *, k: int = 3, delta: float = 0.5) -> None:
        if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not 0.0 < delta < np.inf:
            raise OptionError(f"delta is {echo(delta)}; give a positive number")
        policy = replace(
            setting.policy,
            trigger=Pairwise(step=delta),
            clusterer=Clusterer(partitioner="k-center", k_min=max(2, whole("k", k)), k_max=k),
            inherit="average",
        )
        super().__init__(replace(setting, policy=policy), guard=False)
        self._seed = setting.seed

    def adapt(self, reports: ReportBatch, clients: Clients) -> Decision | None:
        """Move drifted clients to the nearest center; group all anew if two of a cluster are too far apart."""
        self.coordinator.memory = TriggerMemory()  # the trigger adapts by what it remembers; here delta stays
        return super().adapt(reports, clients)

    def plan(self, clients: Clients) -> TrainingPlan:
        """Draw the same number of clients in every cluster, with replacement, for one step each."""
        usual = super().plan(clients)
        clusters, first = np.unique(usual.start, return_index=True)
        if not clusters.size:
            return usual
        wanted = max(1, self._parts.participants // clusters.size)
        n_asked = clients.invitations(wanted, _NO_LIMIT)
        jobs = np.repeat(first, n_asked)
        drawn: list[Counts] = []
        for cluster in clusters.tolist():
            is_waiting = self.coordinator.clusters is None
            members = np.flatnonzero(clients.askable() & (is_waiting | (self.membership() == cluster)))
            members = members[np.argsort(clients.draws("select", members), kind="stable")]  # whatever their positions
            rng = stream(self._seed, "with replacement", clients.round_index, cluster)
            drawn.append(np.asarray(members[rng.integers(members.size, size=n_asked)], dtype=np.int64))
        return replace(
            usual,
            clients=np.concatenate(drawn),
            groups=usual.groups[jobs],
            start=usual.start[jobs],
            wanted=np.full(clusters.size, wanted, dtype=np.int64),
            n_steps=1,
            rate_factors=None if usual.rate_factors is None else usual.rate_factors[jobs],
            upload_shares=None,
            selected_for=usual.start[jobs],
        )


STATIC = MethodKind(
    summary="the clusters of the start stay as they are; who comes later joins the nearest, once",
    sends="a representation of the window, once",
    reports_from="first",
    detector=lambda _options: drift_test_named("never"),
    build=StaticClusters,
)
MOVES = MethodKind(
    summary="fielding that moves drifted clients one by one and never groups everyone anew",
    sends="a representation of the window, when it drifted",
    reports_from="drifted",
    build=moves,
)
ALWAYS = MethodKind(
    summary="fielding that groups everyone anew whenever somebody reports",
    sends="a representation of the window, when it drifted",
    reports_from="drifted",
    build=always,
)
SELECTED = MethodKind(
    summary="fielding that hears of drift from participants of the round alone, after they trained",
    sends="a representation of the window with the model, of drifted participants",
    reports_from="participants",
    build=SelectedReports,
)
CLUSTERED_SGD = MethodKind(
    summary="the convergence theorem's method: k-center when two of a cluster are too far apart, single steps",
    sends="a representation of the window, when it drifted",
    reports_from="drifted",
    build=ClusteredSGD,
)
