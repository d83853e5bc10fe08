"""Fielding of which nothing individual is heard: ``privacy.mode = "client"`` (docs/privacy-client.md).

Read :meth:`PrivateFielding.adapt` first. Clients are sent centers and ask for the model of the nearest one. The centers
follow the clients by steps of k-means over noised sums; whatever is made of these costs no more privacy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from fielding._typing import ClientId, Counts, Json, Mask, Matrix, Membership, Models, Vector
from fielding.client.privacy.sums import CellSums, SumRule, SumSchedule, read_silhouettes, read_step
from fielding.client.report import ReportBatch
from fielding.coordinator.decision import Decision
from fielding.coordinator.noise_floor import Moments
from fielding.coordinator.registry import UNASSIGNED
from fielding.federation.clients import Clients, SumClients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.method import MethodSetting, plan_by_cluster
from fielding.rng import stream

SURE = 3.0  # standard deviations of noise above which a cluster has clients
_STATE = ("centers", "shares", "counts", "n_pooled", "live", "membership")


class PrivateFielding:
    """Keeps centers by noised sums, and trains one model per center.

    ``rule``, ``schedule``: what sums tell of a client at most, and when they are asked for.
    """

    def __init__(self, setting: MethodSetting, *, rule: SumRule, schedule: SumSchedule) -> None:
        self._rule, self._schedule, self._seed = rule, schedule, setting.seed
        self._parts, self._client_ids = setting.parts, tuple(setting.client_ids)
        self._cluster_models = setting.parts.cluster_models(setting.initial, has_common=setting.parts.n_shared > 0)
        k, n_labels = setting.policy.clusterer.k_max, setting.parts.n_classes
        self._is_started = False
        self._centers: Matrix = self._draw_centers(0, k, n_labels)
        # Noised sums behind the centers, of so many releases.
        self._shares: Matrix = np.zeros((k, n_labels))
        self._counts: Vector = np.zeros(k)
        self._n_pooled: Counts = np.zeros(k, dtype=np.int64)
        self._live: Mask = np.ones(k, dtype=np.bool_)
        self._membership: Membership = np.full(len(self._client_ids), UNASSIGNED, dtype=np.int32)

    @property
    def models(self) -> Models:
        """One row per cluster."""
        return self._cluster_models.models

    @property
    def served(self) -> Models | None:
        """Averages over rounds, a row per cluster, then the model for all; None where clusters share nothing."""
        return self._cluster_models.served

    @property
    def centers(self) -> Matrix:
        """What clients are sent, shape ``(n_clusters, n_labels)``."""
        return self._centers

    def grow(self, client_ids: Sequence[ClientId]) -> None:
        """Know clients that joined; they ask for a cluster in this round."""
        joined = len(client_ids) - len(self._client_ids)
        self._client_ids = tuple(client_ids)
        self._membership = np.pad(self._membership, (0, joined), constant_values=UNASSIGNED)

    # ---- centers follow clients ------------------------------------------------------------------------------------

    def adapt(self, reports: ReportBatch, clients: Clients) -> Decision | None:  # noqa: ARG002
        """Act on noised sums if some are due; no report is heard."""
        if not isinstance(clients, SumClients):
            raise RuntimeError("these clients answer no sums")
        return self.follow(clients)

    def follow(self, clients: SumClients) -> Decision:
        """Take a step of k-means if one is due, then let clients ask for the cluster of their nearest center."""
        at, was_started = clients.round_index, self._is_started
        asked = self._schedule.asked_in(at)
        decision = Decision(step=at, mixing=np.eye(len(self.models)))
        if asked == "step":
            decision = self._step(decision, clients)
        elif asked == "silhouettes":
            decision = replace(decision, silhouettes=self._choose_k(clients))
        if at >= self._schedule.last_start and not was_started:
            self._is_started = True
            mixing = np.ones((len(self._centers), 1))
            self._cluster_models.mix(mixing)
            decision = replace(decision, started=True, mixing=mixing)
        if self._is_started:
            is_due = asked is not None or not was_started
            everyone = np.arange(self._membership.size)
            decision = self._ask_clusters(
                decision, everyone if is_due else np.flatnonzero(self._membership == UNASSIGNED), clients
            )
        n_live = int(self._live.sum()) if self._is_started else 0
        return replace(decision, cluster_ids=self.cluster_ids(), n_live=n_live)

    def _ask_clusters(self, decision: Decision, who: Counts, clients: SumClients) -> Decision:
        if not who.size:
            return decision
        old, new = self._membership[who], clients.choose(who, self._centers)
        has_moved = (new != old) & (new != UNASSIGNED) & (old != UNASSIGNED)
        has_joined = (new != UNASSIGNED) & (old == UNASSIGNED)
        self._membership = self._membership.copy()
        self._membership[who] = np.where(new == UNASSIGNED, old, new)
        names = np.array(self._client_ids, dtype=object)
        return replace(
            decision, moved=sorted(names[who[has_moved]].tolist()), joined=sorted(names[who[has_joined]].tolist())
        )

    def _step(self, decision: Decision, clients: SumClients) -> Decision:
        """Move centers to the mean of their clients, as noised sums tell it."""
        total = clients.noised_sum("step", (self._centers,))
        if total is None:
            return decision
        sums = read_step(total, len(self._centers), self._rule)
        self._live = sums.counts > SURE * sums.count_sd
        counts = np.where(self._live, sums.counts, 1.0)
        found = project(sums.shares / counts[:, np.newaxis])
        if not self._is_started:
            reseeded = self._reseed(found, sums, clients.round_index)
            self._centers = as_sent(np.where(self._live[:, np.newaxis], found, reseeded))
            self._shares, self._counts = sums.shares, counts
            self._n_pooled = np.ones(len(counts), dtype=np.int64)
            return decision
        shift = np.sqrt(np.square(found - self._centers).sum(axis=1))
        floor = np.array([self._floor(sums, k, float(count)) for k, count in enumerate(counts)])
        # Sums of several releases have less noise; a center that moved farther than noise explains starts anew.
        stays = self._live & (shift <= floor) & (self._n_pooled > 0)
        starts = self._live & ~stays
        self._shares = np.where(
            stays[:, np.newaxis],
            self._shares + sums.shares,
            np.where(starts[:, np.newaxis], sums.shares, self._shares),
        )
        self._counts = np.where(stays, self._counts + counts, np.where(starts, counts, self._counts))
        self._n_pooled = np.where(stays, self._n_pooled + 1, np.where(starts, 1, self._n_pooled))
        pooled = project(self._shares / np.maximum(self._counts, 1.0)[:, np.newaxis])
        self._centers = as_sent(np.where(self._live[:, np.newaxis], pooled, self._centers))
        if not self._live.any():
            return decision
        most = int(np.argmax(np.where(self._live, shift - floor, -np.inf)))
        return replace(decision, shift=float(shift[most]), threshold=float(floor[most]))

    def _floor(self, sums: CellSums, k: int, count: float) -> float:
        """Return the shift of a center that noise alone stays below in 99 of 100 steps."""
        center, n_labels = self._centers[k], self._centers.shape[1]
        variance = (sums.share_sd / count) ** 2 * (1.0 + 1.0 / max(1, int(self._n_pooled[k])))
        along = float(center @ center) * (sums.count_sd / count) ** 2
        moments = Moments(mean=n_labels * variance + along, variance=2.0 * (n_labels * variance**2 + along**2))
        return sqrt(moments.quantile())

    def _reseed(self, found: Matrix, sums: CellSums, round_index: int) -> Matrix:
        """Return places for centers without clients: on the way from the largest cluster to anywhere."""
        anywhere = self._draw_centers(1 + round_index, *found.shape)
        return (anywhere + found[int(np.argmax(sums.counts))]) / 2.0 if self._live.any() else anywhere

    def _choose_k(self, clients: SumClients) -> dict[int, float]:
        """Merge centers until as many are left as fit clients best; return the silhouette by the number of clusters."""
        if not self._live.any():
            return {}
        path = merge_path(self._shares[self._live], self._counts[self._live])
        sets = [shares_counts for shares_counts in path if len(shares_counts[1]) > 1]
        best, found = path[-1], dict[int, float]()
        candidates = tuple(as_sent(project(shares / counts[:, np.newaxis])) for shares, counts in sets)
        total = clients.noised_sum("silhouettes", candidates) if candidates else None
        if total is not None:
            silhouettes = read_silhouettes(total, float(self._counts[self._live].sum()))
            found = {len(one[1]): float(value) for one, value in zip(sets, silhouettes, strict=True)}
            best = sets[int(np.argmax(silhouettes))]
        self._shares, self._counts = best
        self._centers = as_sent(project(self._shares / self._counts[:, np.newaxis]))
        self._n_pooled, self._live = np.ones(len(self._counts), dtype=np.int64), np.ones(len(self._counts), np.bool_)
        return found

    def _draw_centers(self, number: int, n_centers: int, n_labels: int) -> Matrix:
        return as_sent(stream(self._seed, "private centers", number).dirichlet(np.ones(n_labels), n_centers))

    # ---- models, as Fielding has them ------------------------------------------------------------------------------

    def plan(self, clients: Clients) -> TrainingPlan:
        """Choose participants in every cluster; before there are clusters all clients train the one model.

        How many clients a cluster has is known by noised sums alone: by their mean over releases.
        """
        if not self._is_started:
            everyone = np.zeros_like(self._membership)
            return plan_by_cluster(self._cluster_models, everyone, clients, self._parts, is_parallel=True)
        sizes = np.where(self._live, self._counts / np.maximum(self._n_pooled, 1), 0.0)
        return plan_by_cluster(
            self._cluster_models, self._membership, clients, self._parts, is_parallel=True, sizes=sizes
        )

    def learn(self, updates: Updates) -> None:
        """Combine what came back, cluster by cluster."""
        self._cluster_models.learn(updates)

    def membership(self) -> Membership:
        """Return the cluster that each client asked for last, -1 for none."""
        return self._membership

    def cluster_ids(self) -> tuple[int, ...]:
        """Return the ids of the clusters; before there are any, there is one model."""
        return tuple(range(len(self._centers))) if self._is_started else (0,)

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return centers, the sums behind them, and the models."""
        own = {f"private/{name}": getattr(self, f"_{name}") for name in _STATE}
        return {"is_started": self._is_started}, {**self._cluster_models.arrays(), **own}

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:
        """Go on from a snapshot."""
        self._is_started = values.get("is_started") is True
        for name in _STATE:
            setattr(self, f"_{name}", arrays[f"private/{name}"])
        self._cluster_models.restore(arrays)


def as_sent(centers: Matrix) -> Matrix:
    """Return centers as they travel, in float32: clients choose alike wherever they are."""
    return centers.astype(np.float32).astype(np.float64)


def project(rows: Matrix) -> Matrix:
    """Return the nearest label shares to each row: none below 0, and 1 in all (Duchi et al. 2008).

    Examples
    --------
    >>> project(np.array([[0.9, 0.3, -0.1]])).round(2).tolist()
    [[0.8, 0.2, 0.0]]
    """
    rising = -np.sort(-rows, axis=1)
    over = (np.cumsum(rising, axis=1) - 1.0) / np.arange(1, rows.shape[1] + 1)
    n_above = (rising > over).sum(axis=1)
    return np.asarray(np.maximum(rows - over[np.arange(len(rows)), n_above - 1, np.newaxis], 0.0))


def merge_path(shares: Matrix, counts: Vector) -> list[tuple[Matrix, Vector]]:
    """Return the sums of all clusters, of one less, and so on to one; each time the two nearest are merged (Ward).

    Examples
    --------
    >>> path = merge_path(np.array([[9.0, 1.0], [8.0, 2.0], [0.0, 10.0]]), np.full(3, 10.0))
    >>> [counts.tolist() for _, counts in path]
    [[10.0, 10.0, 10.0], [20.0, 10.0], [30.0]]
    """
    path = [(shares, counts)]
    while len(counts) > 1:
        centers = shares / counts[:, np.newaxis]
        weight = np.outer(counts, counts) / np.add.outer(counts, counts)
        cost = weight * np.square(centers[:, np.newaxis] - centers).sum(axis=2)
        cost[np.tril_indices(len(counts))] = np.inf
        one, other = np.unravel_index(int(np.argmin(cost)), cost.shape)
        shares, counts = shares.copy(), counts.copy()
        shares[one], counts[one] = shares[one] + shares[other], counts[one] + counts[other]
        shares, counts = np.delete(shares, other, axis=0), np.delete(counts, other)
        path.append((shares, counts))
    return path
