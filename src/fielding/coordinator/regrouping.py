"""Changes of clusters decided by somebody who saw more than representations: merging them, and placing clients."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fielding._typing import ClientId, Counts, Matrix
from fielding.coordinator.assignment import recomputed_centers
from fielding.coordinator.clusters import Clusters, live_clusters
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.registry import UNASSIGNED
from fielding.errors import InputError, echo


def merge_clusters(coordinator: Coordinator, into: Counts) -> Matrix:
    """Merge clusters, and return the share of each old model in each that is left.

    Parameters
    ----------
    coordinator
        Its clusters change; those that are left keep their ids.
    into
        For each cluster the position of the one that takes its members in, itself if it is left, shape
        ``(n_clusters,)``.

    Returns
    -------
    Shape ``(n_left, n_clusters)``, rows sum to 1: merged models count by their numbers of active members.

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
    if into.shape != (len(clusters.ids),) or not (into[left] == left).all():
        raise InputError(
            f"into is {echo(into.tolist())}; name one that is left for each of {len(clusters.ids)} clusters"
        )
    registry = coordinator.registry
    sizes = np.bincount(registry.membership[registry.active_rows()], minlength=into.size).astype(np.float64)
    place = np.searchsorted(left, into)
    has = registry.membership != UNASSIGNED
    registry.membership[has] = place[registry.membership[has]]
    mixing = np.zeros((left.size, into.size))
    mixing[place, np.arange(into.size)] = sizes
    empty = mixing.sum(axis=1) == 0.0
    mixing[empty, left[empty]] = 1.0
    coordinator.clusters = Clusters(
        ids=tuple(clusters.ids[at] for at in left.tolist()),
        centers=recomputed_centers(registry, clusters.centers[left], range(left.size)),
        live=live_clusters(registry, left.size),
        since_global=recomputed_centers(registry, clusters.since_global[left], range(left.size)),
    )
    return np.asarray(mixing / mixing.sum(axis=1, keepdims=True))


def place_clients(coordinator: Coordinator, client_ids: Sequence[ClientId], clusters: Counts) -> None:
    """Give clients clusters by position, whatever they reported; their next report moves them by what it says.

    Parameters
    ----------
    coordinator
        Its membership and centers change.
    client_ids
        Clients that have reported before.
    clusters
        The position of the cluster of each.
    """
    before, registry = _clusters(coordinator), coordinator.registry
    rows = registry.rows_for(client_ids)
    touched = {*registry.membership[rows].tolist(), *clusters.tolist()} - {UNASSIGNED}
    registry.membership[rows] = clusters
    centers = recomputed_centers(registry, before.centers, sorted(touched))
    coordinator.clusters = replace(before, centers=centers, live=live_clusters(registry, len(before.ids)))


def _clusters(coordinator: Coordinator) -> Clusters:
    if coordinator.clusters is None:
        raise InputError("there are no clusters yet; let clients report first")
    return coordinator.clusters
