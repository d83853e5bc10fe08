"""Changes of clusters that the guard decides, which sees losses: merging clusters, and placing clients."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from fielding._typing import ClientId, Counts, Matrix, Membership
from fielding.coordinator.assignment import Clusters, live_clusters, nearest_clusters, recompute_centers
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.points import Points
from fielding.coordinator.registry import UNASSIGNED
from fielding.coordinator.trigger import Always, Never
from fielding.errors import InputError, echo


def merge_clusters(coordinator: Coordinator, into: Counts) -> Matrix:
    """Merge clusters, and return the share of each old model in each that is left.

    For triggers and noise floors this counts as a global clustering: centers are compared with those of now.

    ``into``: for each cluster the position of the one that takes its members in, itself if it is left. The clusters
    that are left keep their ids. Shape ``(n_left, n_clusters)``, rows sum to 1: merged models count by their numbers of
    active members.

    Examples
    --------
    >>> from fielding.client.report import ReportBatch
    >>> shares = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]])
    >>> coordinator = Coordinator()
    >>> _ = coordinator.update(ReportBatch(client_ids=["ann", "bob", "cid"], representations=shares))
    >>> merge_clusters(coordinator, np.array([0, 0])).round(3).tolist()
    [[0.667, 0.333]]
    """
    clusters = _clusters(coordinator)
    left = np.unique(into)
    n_clusters = len(clusters.ids)
    if into.shape != (n_clusters,) or left[0] < 0 or left[-1] >= n_clusters or not (into[left] == left).all():
        raise InputError(f"into is {echo(into.tolist())}; name one that is left for each of {n_clusters} clusters")
    registry = coordinator.registry
    sizes = np.bincount(registry.membership[registry.active_rows()], minlength=into.size).astype(np.float64)
    place = np.searchsorted(left, into)
    has = registry.membership != UNASSIGNED
    registry.membership[has] = place[registry.membership[has]]
    mixing = np.zeros((left.size, into.size))
    mixing[place, np.arange(into.size)] = sizes
    empty = mixing.sum(axis=1) == 0.0
    mixing[empty, left[empty]] = 1.0
    centers = recompute_centers(registry, clusters.centers[left], range(left.size), robust=coordinator.robust)
    registry.samples.settle(registry.active_rows(), registry.membership)
    coordinator.clusters = Clusters(
        ids=tuple(clusters.ids[at] for at in left.tolist()),
        centers=centers,
        live=live_clusters(registry, left.size),
        since_global=centers,
    )
    return np.asarray(mixing / mixing.sum(axis=1, keepdims=True))


def place_clients(coordinator: Coordinator, client_ids: Sequence[ClientId], clusters: Counts) -> None:
    """Give clients clusters by position, whatever they reported; their next report moves them by what it says."""
    before, registry = _clusters(coordinator), coordinator.registry
    rows = registry.rows_for(client_ids)
    touched = {*registry.membership[rows].tolist(), *clusters.tolist()} - {UNASSIGNED}
    registry.membership[rows] = clusters
    centers = recompute_centers(registry, before.centers, sorted(touched), robust=coordinator.robust)
    coordinator.clusters = replace(before, centers=centers, live=live_clusters(registry, len(before.ids)))


def moved_membership(
    coordinator: Coordinator, before: Clusters, membership: Membership, reported: Sequence[ClientId]
) -> Membership:
    """Return where all clients stood when those that reported had moved, before all were grouped anew.

    A position in ``before`` for each client of the registry, -1 for none: also of clients that came after
    ``membership``. Clients that ``reported`` silence stay where they were; the coordinator, which has grouped anew
    since, is not changed.
    """
    registry = coordinator.registry
    stood = np.full(len(registry), UNASSIGNED, dtype=np.int32)
    stood[: membership.size] = membership
    rows = np.sort(registry.rows_for(reported))
    speaking = rows[registry.active[rows]]
    drifted = Points(registry.representations, speaking)
    stood[speaking] = nearest_clusters(drifted, before.centers, metric=coordinator.metric, current=stood[speaking])
    return stood


@contextmanager
def rule_regrouping(coordinator: Coordinator, *, allowed: bool, wanted: bool = False) -> Iterator[None]:
    """Say for the events of a block whether clients may, or even should, be grouped anew.

    ``allowed``: whether a trigger that fires has an effect. ``wanted``: whether the next reports fire whatever the
    trigger says, unless it is one that never does.
    """
    policy, before = coordinator.policy, coordinator.may_regroup
    coordinator.may_regroup = allowed
    is_never = isinstance(policy.trigger, Never) or math.isinf(getattr(policy.trigger, "tau", 0.0))
    if wanted and not is_never:
        coordinator.policy = replace(policy, trigger=Always())
    try:
        yield
    finally:
        coordinator.policy, coordinator.may_regroup = policy, before


def _clusters(coordinator: Coordinator) -> Clusters:
    if coordinator.clusters is None:
        raise InputError("there are no clusters yet; let clients report first")
    return coordinator.clusters
