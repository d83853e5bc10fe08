"""What every method can do, what it may do beside, and what all of them share: parts, participants, plans."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from fielding._typing import ClientId, Codes, Counts, Json, Mask, Membership, Models, Vector
from fielding.client.report import ReportBatch
from fielding.coordinator.decision import Decision
from fielding.coordinator.policy import Policy
from fielding.federation.aggregation import Aggregator, Mean
from fielding.federation.budget import participant_budget
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays, ClusterModels
from fielding.federation.dp_fedavg import DpFedAvg
from fielding.federation.models import mean_by_members
from fielding.federation.pace import Pace, Steady
from fielding.federation.selection import Candidates, Selection, Uniform
from fielding.federation.selection.selector import smallest_draws
from fielding.rng import Hashes

Participation = Literal["auto", "all", "sampled"]
MOST_FOR_ALL = 200
"""Federations up to this size let all clients take part in every round, as authors do (METHODS.md 5.7 and 7)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The plug-ins that work with any method."""

    participants: int  # per round, over all clusters
    selection: Selection = field(default_factory=lambda: Selection(Uniform(), 0))
    aggregator: Aggregator = field(default_factory=Mean)
    pace: Pace = field(default_factory=Steady)
    weighted: bool = False  # whether a participant counts by its number of samples
    strict_budget: bool = False  # whether slots that a small cluster cannot fill stay empty
    n_steps: int = 1  # local steps of a participant, unless the selection says otherwise
    n_shared: int = 0  # how many numbers at the beginning of a model all clusters share; see ClusterModels
    n_classes: int = 0  # 0 if it is not known
    clip: float | None = None  # see ClusterModels
    private: DpFedAvg | None = None  # noise on what models learn of clients; None for none

    def cluster_models(self, initial: Models, *, has_common: bool = False) -> ClusterModels:
        """Return the models of a method that has no clusters yet; ``has_common``: see :class:`ClusterModels`."""
        models = ClusterModels(
            initial,
            self.aggregator,
            weighted=self.weighted,
            pace=self.pace,
            n_shared=self.n_shared,
            has_common=has_common,
            n_classes=self.n_classes,
            clip=self.clip,
            private=self.private,
        )
        models.on_mix = self.selection.inherit
        return models


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MethodSetting:
    """What a method is made of.

    Parameters
    ----------
    initial
        The model that training starts from, float32, parameters first, shape ``(n_numbers,)``.
    client_ids
        The clients at the start; elsewhere a client is its position here.
    policy
        The config's rules, for a ``Coordinator(setting.policy)``.
    parts
        Selection, aggregation, number of participants; ``parts.cluster_models(initial)`` makes the models.
    seed
        For ``stream(seed, "purpose", round)``, the only source of random numbers.
    n_parameters, n_head
        How many numbers of a model are parameters, and how many of these, at their end, are the last layer.
    draw_model
        Returns another random first model for a number.
    truth
        Returns the true concept of each client in a round, None if that is unknown: for ceilings like ``oracle``.
    n_visible
        How many intervals of data a window shows.
    is_guarded
        Whether clusters are kept only where they pay, unless the method's options say otherwise.
    """

    initial: Models
    client_ids: Sequence[ClientId]
    policy: Policy
    parts: Parts
    seed: int = 0
    n_parameters: int = 0
    n_head: int = 0
    draw_model: Callable[[int], Models] | None = None
    truth: Callable[[int], Codes | None] | None = None
    n_visible: int = 1
    is_guarded: bool = False


class Method(Protocol):
    """Owns membership and models; reaches clients only through the client API, :class:`Clients`.

    A round calls ``adapt`` (if it has that verb), ``plan``, and ``learn`` with what came back; before an evaluation
    ``place`` (if it has that verb); first of all ``grow``, if clients joined.
    """

    @property
    def models(self) -> Models:
        """One row per cluster, float32."""
        ...

    def plan(self, clients: Clients) -> TrainingPlan:
        """Choose which clients train which model in this round (stage 9)."""
        ...

    def learn(self, updates: Updates) -> None:
        """Make new models of what came back (stage 11)."""
        ...

    def membership(self) -> Membership:
        """Return the row of ``models`` that serves each client, -1 for none yet: then the mean of all does."""
        ...

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return everything that decides what the method does next, models included."""
        ...

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:
        """Go on from a snapshot."""
        ...


@runtime_checkable
class Adapts(Protocol):
    """A method that acts on drift before training."""

    def adapt(self, reports: ReportBatch, clients: Clients) -> Decision | None:
        """Act on what clients reported in this round, perhaps on nothing (stages 5 to 8); it may ask clients for more.

        None if there is no coordinator that decides.
        """
        ...


@runtime_checkable
class PlacesClients(Protocol):
    """A method that has to ask clients before it knows which model serves them."""

    def place(self, clients: Clients) -> None:
        """Find a model for clients that need one now and have none; what that costs is charged."""
        ...


@runtime_checkable
class Grows(Protocol):
    """A method that can take in clients that join between rounds; any other refuses a run in which some do."""

    def grow(self, client_ids: Sequence[ClientId]) -> None:
        """Make room for clients that joined, before anything else happens in the round.

        ``client_ids``: all clients from now on: those known so far at the same positions, new ones behind them. A new
        one has no cluster until the method gives it one.
        """
        ...


@runtime_checkable
class Serves(Protocol):
    """A method that may serve clients by other models than those in training."""

    @property
    def served(self) -> Models | None:
        """A row per cluster, then one for the clients of all clusters; None: by ``models``, and by their mean."""
        ...


@runtime_checkable
class Names(Protocol):
    """A method whose clusters keep their identity when rows come and go."""

    def cluster_ids(self) -> tuple[int, ...]:
        """Return the stable id of each row of ``models``."""
        ...


@runtime_checkable
class Measures(Protocol):
    """A method that knows how alike the clients of a cluster are."""

    def heterogeneity(self) -> float | None:
        """Return the mean distance between the representations of clients of the same cluster, where they are known."""
        ...


def client_index(client_ids: Sequence[ClientId]) -> dict[ClientId, int]:
    """Return the position of each client, once for :func:`positions_of`."""
    return {client_id: position for position, client_id in enumerate(client_ids)}


def positions_of(client_ids: Sequence[ClientId], index: Mapping[ClientId, int]) -> Counts:
    """Return where some clients stand among all, as those of a report.

    Examples
    --------
    >>> positions_of(["eve", "ann"], client_index(["ann", "bob", "eve"])).tolist()
    [2, 0]
    """
    return np.array([index[client_id] for client_id in client_ids], dtype=np.int64)


def cluster_ids(method: Method) -> tuple[int, ...]:
    """Return the stable id of each model of a method: its row, unless the method says otherwise."""
    return method.cluster_ids() if isinstance(method, Names) else tuple(range(method.models.shape[0]))


def model_for_all(method: Method) -> Models:
    """Return the model for clients without a cluster: the one for all, where there is one, or the mean of all."""
    served = method.served if isinstance(method, Serves) else None
    return mean_by_members(method.models, method.membership()) if served is None else served[-1]


def measure_heterogeneity(method: Method) -> float | None:
    """Return how different the clients of a cluster are, as far as the method knows."""
    return method.heterogeneity() if isinstance(method, Measures) else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Participants:
    """The clients that are asked to train, by cluster."""

    # Which, of which cluster, and the position of that cluster among those that train, shape (n_asked,).
    clients: Counts
    clusters: Counts
    groups: Counts
    wanted: Counts  # how many answers of each of these clusters are enough, shape (n_groups,)


def select_participants(
    membership: Membership, n_clusters: int, clients: Clients, parts: Parts, *, expected: Vector | None = None
) -> Participants:
    """Share the participants of a round among the clusters and choose them.

    Clients without a cluster are not asked. More are asked than are wanted, as ``clients.invitations`` says. With fewer
    participants than clusters, which clusters train is drawn in every round. ``expected``: of DP-FedAvg, how many
    participants each cluster has on average.
    """
    if parts.private is not None and expected is not None:
        is_asked = parts.private.draw_clients(membership.size, clients.round_index) & clients.askable()
        is_asked &= (membership >= 0) & (expected[membership] > 0.0)
        asked_clients = np.flatnonzero(is_asked)
        order = asked_clients[np.argsort(membership[asked_clients], kind="stable")]
        _, groups, wanted = np.unique(membership[order], return_inverse=True, return_counts=True)
        return Participants(clients=order, clusters=membership[order].astype(np.int64), groups=groups, wanted=wanted)
    askable = np.flatnonzero(clients.askable() & (membership >= 0))
    cluster_of = membership[askable]
    members = np.bincount(cluster_of, minlength=n_clusters)
    lots: Hashes | None = None
    if parts.participants < np.count_nonzero(members):
        # The lot of a cluster, whatever its size, is that of its first member.
        found, first = np.unique(cluster_of, return_index=True)
        lots = np.zeros(found[-1] + 1, dtype=np.uint64)
        lots[found] = clients.draws("clusters", askable[first])
    budget = participant_budget(parts.participants, members, strict=parts.strict_budget, draws=lots)
    draws = clients.draws("select", askable)
    asked: list[Counts] = []
    trained = np.flatnonzero(budget)
    for cluster in trained.tolist():
        own = cluster_of == cluster
        n_asked = clients.invitations(int(budget[cluster]), int(members[cluster]))
        asked.append(
            parts.selection.choose(
                Candidates(clients=askable[own], draws=draws[own]),
                n_asked,
                cluster=cluster,
                round_index=clients.round_index,
                members=np.flatnonzero(membership == cluster) if parts.selection.looks_at_members else None,
            )
        )
    sizes = [group.size for group in asked]
    return Participants(
        clients=np.concatenate([*asked, np.empty(0, dtype=np.int64)]).astype(np.int64),
        clusters=np.repeat(trained, sizes),
        groups=np.repeat(np.arange(trained.size), sizes),
        wanted=budget[trained],
    )


def plan_training(models: ClusterModels, participants: Participants, parts: Parts) -> TrainingPlan:
    """Return the plan in which every participant trains the model of its cluster; change what differs."""
    return TrainingPlan(
        models=models.models,
        clients=participants.clients,
        groups=participants.groups,
        start=participants.clusters,
        wanted=participants.wanted,
        with_start_loss=parts.aggregator.needs_start_loss,
        rate_factors=models.rate_factors(participants.clusters),
        n_steps=parts.selection.steps(
            participants.clients, n_steps=parts.n_steps, n_kept=int(participants.wanted.sum())
        ),
        upload_shares=parts.selection.upload_shares(participants.clients),
        selected_for=participants.clusters,
    )


def plan_by_cluster(
    models: ClusterModels,
    membership: Membership,
    clients: Clients,
    parts: Parts,
    *,
    is_parallel: bool = False,
    sizes: Vector | None = None,
) -> TrainingPlan:
    """Return the plan in which participants of every cluster train its model.

    If there is a model for the clients of all clusters, two of three train that one, in turns.

    ``is_parallel``: whether the method lets no cluster depend on another until data arrive or reports act. It is not so
    if clusters share the body of their models, or the selection ranks the participants of all.

    ``sizes``: how many clients each cluster has, as far as DP-FedAvg may know; None: as many as there are.
    """
    n_clusters, expected = models.models.shape[0], None
    if parts.private is not None:
        members = np.bincount(membership[membership >= 0], minlength=n_clusters).astype(np.float64)
        expected = models.expected = parts.private.expected(members if sizes is None else sizes)
    chosen = select_participants(membership, n_clusters, clients, parts, expected=expected)
    plan = plan_training(models, chosen, parts)
    if models.common is not None and n_clusters > 1:
        is_turn = (np.arange(plan.start.size) + clients.round_index) % 3 != 0
        start = np.where(is_turn, n_clusters, plan.start)
        rows = np.concatenate([models.models, models.common[np.newaxis]])
        plan = replace(plan, models=rows, start=start, rate_factors=models.rate_factors(start))
    return replace(plan, is_parallel=is_parallel and not parts.n_shared and not parts.selection.ranks_all)


def plan_probe(
    who: Counts, models: Models, start: Counts, *, n_steps: int | None = None, downloads: Vector | None = None
) -> TrainingPlan:
    """Return the plan in which clients train models, and their answers are only looked at; all are waited for.

    ``who``: whom to ask, each client once, shape ``(n_asked,)``. ``models``, ``start``: what they start from, and the
    row of each, same shape as ``who``. ``n_steps``: local steps; None for those of the run. ``downloads``: how many
    models' worth of bytes each receives; None for 1.
    """
    return TrainingPlan(
        models=models,
        clients=who,
        groups=np.zeros(who.size, dtype=np.int64),
        start=start,
        wanted=np.array([who.size], dtype=np.int64),
        is_probe=True,
        n_steps=n_steps,
        downloads=downloads,
    )


def draw_clients(clients: Clients, among: Mask, n_wanted: int | None, *, purpose: str) -> Counts:
    """Return so many random clients of some, or all if they are fewer or None are wanted, rising.

    ``among``: which can be drawn, shape ``(n_clients,)``.
    """
    candidates = np.flatnonzero(among)
    if n_wanted is None or candidates.size <= n_wanted:
        return candidates
    return np.sort(candidates[smallest_draws(clients.draws(purpose, candidates), n_wanted)])


def is_sampled(participation: object, n_clients: int) -> bool:
    """Return whether only the participants of the run take part, not all clients.

    Examples
    --------
    >>> is_sampled("auto", 200), is_sampled("auto", 201), is_sampled("sampled", 3)
    (False, True, True)
    """
    return participation == "sampled" or (participation == "auto" and n_clients > MOST_FOR_ALL)
