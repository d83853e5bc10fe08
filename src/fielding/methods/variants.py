"""Fielding with one thing left out or overdone: the comparisons that show what each of its parts is worth.

METHODS.md 1.7: ``moves`` never groups everyone anew, ``always`` does so at every event, ``static`` hears of each client
once, and ``selected`` hears participants alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from fielding._typing import ClientId, Counts, Json, Membership, Models
from fielding.client.drift import drift_test_named
from fielding.client.report import NO_REPORTS, ReportBatch
from fielding.config.options import whole
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.decision import Decision
from fielding.coordinator.movement import TriggerMemory
from fielding.coordinator.trigger import Always, Never, Pairwise, Trigger
from fielding.errors import OptionError, echo
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.fielding import Fielding
from fielding.methods.kinds import MethodKind
from fielding.methods.method import MethodSetting
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


Listens: TypeAlias = Callable[[ReportBatch, Coordinator], ReportBatch]
"""Returns the reports that a coordinator is to hear."""
Invites: TypeAlias = Callable[[Membership], Membership]
"""Returns the cluster in which each client may be asked to train."""


def moves(setting: MethodSetting) -> Fielding:
    """Return Fielding whose clients move one by one and are never grouped anew ("Move Individuals")."""
    return Fielding(_triggered(setting, Never()), guard=False)


def always(setting: MethodSetting) -> Fielding:
    """Return Fielding that groups everyone anew at every event with a report ("Global Recluster")."""
    return Fielding(_triggered(setting, Always()), guard=False)


def static(setting: MethodSetting) -> "Variant":
    """Return Fielding whose clusters stay what they were at the start; who comes later joins the nearest, once."""
    return Variant(Fielding(_triggered(setting, Never()), guard=False), listens=first_reports)


def selected(setting: MethodSetting) -> "Variant":
    """Return Fielding for clients that report with the models that they trained, and never else."""
    return Variant(Fielding(setting, guard=False), invites=with_newcomers)


def _triggered(setting: MethodSetting, trigger: Trigger) -> MethodSetting:
    return replace(setting, policy=replace(setting.policy, trigger=trigger))


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


def with_newcomers(membership: Membership) -> Membership:
    """Return the same clusters, and the largest for whoever has none: only who trains is heard, and then moved.

    Several of the same size: the first.

    Examples
    --------
    >>> with_newcomers(np.array([1, -1, 1, 0])).tolist()
    [1, 1, 1, 0]
    """
    sizes = np.bincount(membership[membership >= 0], minlength=1)
    return np.where(membership < 0, np.int32(sizes.argmax()), membership)


class Variant:
    """Fielding that hears less, or asks more.

    Parameters
    ----------
    fielding
        Does the work.
    listens
        Which reports it hears; all by default.
    invites
        In which cluster a client may train; its own by default.
    """

    def __init__(
        self,
        fielding: Fielding,
        *,
        listens: Listens = lambda reports, _coordinator: reports,
        invites: Invites = lambda membership: membership,
    ) -> None:
        self._fielding, self._listens, self._invites = fielding, listens, invites

    @property
    def models(self) -> Models:
        """One row per cluster."""
        return self._fielding.models

    @property
    def coordinator(self) -> Coordinator:
        """Who decides."""
        return self._fielding.coordinator

    def grow(self, client_ids: Sequence[ClientId]) -> None:
        """Know clients that joined; they have no cluster until they are heard of."""
        self._fielding.grow(client_ids)

    def adapt(self, reports: ReportBatch, clients: Clients) -> Decision | None:
        """Let the coordinator decide on what it hears."""
        return self._fielding.adapt(self._listens(reports, self.coordinator), clients)

    def plan(self, clients: Clients) -> TrainingPlan:
        """Choose participants in every cluster."""
        inner = self._fielding
        return inner.plan_for(self._invites(self.membership()), clients)

    def learn(self, updates: Updates) -> None:
        """Combine what came back, cluster by cluster."""
        self._fielding.learn(updates)

    def membership(self) -> Membership:
        """Return the cluster of each client, -1 for those that were never heard of."""
        return self._fielding.membership()

    def cluster_ids(self) -> tuple[int, ...]:
        """Return the stable ids of the clusters."""
        return self._fielding.cluster_ids()

    def heterogeneity(self) -> float | None:
        """Return the mean distance of clients to the others of their cluster, as far as they were heard."""
        return self._fielding.heterogeneity()

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return the coordinator and the models."""
        return self._fielding.snapshot()

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:
        """Go on from a snapshot."""
        self._fielding.restore(values, arrays)


STATIC = MethodKind(
    summary="the clusters of the start stay as they are; who comes later joins the nearest, once",
    sends="a representation of the window, once",
    hears="first",
    detector=lambda _options: drift_test_named("never"),
    build=static,
)
MOVES = MethodKind(
    summary="fielding that moves drifted clients one by one and never groups everyone anew",
    sends="a representation of the window, when it drifted",
    hears="drifted",
    build=moves,
)
ALWAYS = MethodKind(
    summary="fielding that groups everyone anew whenever somebody reports",
    sends="a representation of the window, when it drifted",
    hears="drifted",
    build=always,
)
SELECTED = MethodKind(
    summary="fielding that hears of drift from participants of the round alone, after they trained",
    sends="a representation of the window with the model, of drifted participants",
    hears="participants",
    build=selected,
)
CLUSTERED_SGD = MethodKind(
    summary="the convergence theorem's method: k-center when two of a cluster are too far apart, single steps",
    sends="a representation of the window, when it drifted",
    hears="drifted",
    build=ClusteredSGD,
)
