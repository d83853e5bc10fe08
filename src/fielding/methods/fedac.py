"""FedAC-style clustering, reconstructed: participants join the model that theirs is most like.

After Zhang et al., "FedAC: An Adaptive Clustered Federated Learning Framework for Heterogeneous Data", 2024, arXiv
2403.16460 (METHODS.md 6). No code of the authors is public; what the paper leaves open is decided here and marked so in
docs/methods/fedac.md. Read :meth:`FedAC.learn` first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fielding._typing import Counts, Json, Matrix, Membership, Models
from fielding.config.options import number, whole
from fielding.coordinator.clustering import KMeans
from fielding.coordinator.clustering.labels import without_gaps
from fielding.coordinator.registry import UNASSIGNED
from fielding.distance import METRICS
from fielding.federation.clients import Clients, Pull, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.federation.models import column_chunks, mean_model
from fielding.methods.kinds import MethodKind
from fielding.methods.method import MethodSetting, plan_by_cluster
from fielding.methods.update_geometry import products, scale_to_unit, subtract
from fielding.rng import client_keys, hashed, stream

FEWEST = 4
"""Clients that a cluster must have after a split; fewer are outliers, and its model would be the work of one or two."""
_ROUNDING = 1e-10  # share of the largest eigenvalue below which another one is rounding


class FedAC:
    """Pulls the embeddings of all clusters together, and gives participants the cluster that their model is most like.

    Parameters
    ----------
    setting
        What it is made of; FedProx of the run is the pull toward the model of the cluster.
    clusters
        How many there are at first.
    mu
        Pull of the embedding (all parameters but the last layer) toward the mean embedding; 0: it is not even sent.
    rank
        Directions along which models are compared.
    pca_every
        Rounds before these directions are found anew; at first, rounds with one model for everybody.
    tune_every
        Rounds before the number of clusters may change by one.
    """

    def __init__(
        self,
        setting: MethodSetting,
        *,
        clusters: int = 4,
        mu: float = 0.1,
        rank: int = 5,
        pca_every: int = 10,
        tune_every: int = 10,
    ) -> None:
        n_clients, self._n_parameters = len(setting.client_ids), setting.n_parameters or setting.initial.size
        self._n_first, self._most = whole("clusters", clusters), setting.policy.clusterer.k_max
        self._mu, self._rank = number("mu", mu, most=1e6), whole("rank", rank, most=1000)
        self._pca_every, self._tune_every = whole("pca_every", pca_every), whole("tune_every", tune_every)
        self._parts, self._seed = setting.parts, setting.seed
        self._keys = client_keys(setting.client_ids)
        self._cluster_models = setting.parts.cluster_models(setting.initial)
        self._embedding = setting.initial[: self._n_parameters - setting.n_head].astype(np.float32)
        self._directions = np.zeros((rank, self._n_parameters), dtype=np.float32)
        self._places = np.zeros((n_clients, rank))
        self._is_seen = np.zeros(n_clients, dtype=np.bool_)
        self._membership = np.zeros(n_clients, dtype=np.int32)
        self._ids, self._next_id = np.zeros(1, dtype=np.int64), 1
        self._refreshed, self._tuned, self._round = -1, -1, 0

    @property
    def models(self) -> Models:
        """One row per cluster."""
        return self._cluster_models.models

    def plan(self, clients: Clients) -> TrainingPlan:
        """Choose participants in every cluster; with its model each gets the mean embedding to be pulled toward."""
        plan = plan_by_cluster(self._cluster_models, self._membership, clients, self._parts)
        if self._ids.size > 1:
            # Newcomers start from the mean of all clusters: a model that starts from one of them remains like it.
            start = np.where(self._is_seen[plan.clients], plan.start, self._ids.size)
            plan = replace(plan, models=_append_mean(plan.models), start=start)
        n_jobs, n_numbers, n_shared = plan.clients.size, self.models.shape[1], self._embedding.size
        if self._mu == 0.0 or n_shared == 0:
            return plan
        anchor, strength = np.zeros((1, n_numbers), dtype=np.float32), np.zeros(n_numbers)
        anchor[0, :n_shared], strength[:n_shared] = self._embedding, self._mu
        return replace(
            plan,
            downloads=np.full(n_jobs, 1.0 + n_shared / n_numbers),
            pull=Pull(anchors=anchor, row=np.zeros(n_jobs, dtype=np.int64), strength=strength),
        )

    def learn(self, updates: Updates) -> None:
        """Give participants the cluster that they are most like, combine their models there, and tune the number."""
        if not updates.clients.size:
            return
        self._round = updates.round_index
        apart = self._deviations(updates)
        if self._refreshed < 0:
            self._refresh(apart, updates.clients)
        if self._refreshed >= 0:
            updates = self._assign(updates, products(apart, self._directions))
        self._cluster_models.learn(updates)
        weights = updates.n_samples.astype(np.float64) if self._parts.weighted else None
        self._embedding = mean_model(updates.models[:, : self._embedding.size], weights)
        self._regroup()
        if self._round - self._refreshed >= self._pca_every:
            self._refresh(apart, updates.clients)

    def _deviations(self, updates: Updates) -> Models:
        """Return how far answers lie from the mean of all clusters, after the step that all made together."""
        starts, answers = _append_mean(self.models[:, : self._n_parameters]), updates.models[:, : self._n_parameters]
        rows, counts = np.unique(updates.start, return_counts=True)
        step = subtract(mean_model(answers), mean_model(starts[rows], counts.astype(np.float64)))
        return subtract(answers, subtract(starts[-1], -step))

    def _refresh(self, apart: Models, clients: Counts) -> None:
        """Find the directions anew, and bring what is known of clients over to them as far as it can be."""
        if apart.shape[0] < max(2, min(self._rank + 1, self._parts.participants)):
            return
        before, self._directions = self._directions, principal_directions(apart, self._rank)
        self._places = self._places @ products(before, self._directions)
        self._places[clients] = products(apart, self._directions)
        self._refreshed = self._round

    def _assign(self, updates: Updates, places: Matrix) -> Updates:
        """Note where participants are now, and return their answers as those of the cluster they are most like."""
        starts = self.models[:, : self._n_parameters]
        centers = products(subtract(starts, mean_model(starts)), self._directions)
        likeness = scale_to_unit(places) @ scale_to_unit(centers).T
        has_place = places.any(axis=1)
        nearest = np.where(has_place, np.argmax(likeness, axis=1), self._membership[updates.clients])
        self._places[updates.clients] = places
        self._is_seen[updates.clients] = True
        self._membership = self._membership.copy()
        self._membership[updates.clients] = nearest
        return replace(updates, start=nearest)

    def _regroup(self) -> None:
        """Make clusters when the first rounds are over; later, drop empty ones and tune their number."""
        if self._refreshed < 0:
            return
        if self._tuned < 0:
            if self._round + 1 >= self._pca_every:
                self._begin()
        elif self._round - self._tuned >= self._tune_every:
            self._tuned = self._round
            self._drop_empty()
            seen = np.flatnonzero(self._is_seen)
            change = better_grouping(
                scale_to_unit(self._places[seen]), self._membership[seen], most=self._most, rng=self._rng()
            )
            if change is not None:
                self._apply(change)

    def _begin(self) -> None:
        """Group all clients that were seen, if they are enough to tell clusters apart."""
        seen = np.flatnonzero(self._is_seen)
        k = min(self._n_first, self._most)
        if k < 2 or seen.size < 2 * k:
            return
        points = scale_to_unit(self._places[seen])
        grouped = KMeans().partitions(points, [k], metric=METRICS["l2"], rng=self._rng())[k]
        labels = without_gaps(grouped)
        while (change := better_grouping(points, labels, most=self._most, rng=self._rng())) is not None:
            labels = change.labels
        found = np.unique(labels)
        self._tuned = self._round
        rows = np.arange(found.size, dtype=np.int32)
        rows[1:] = -1
        self._apply(Change(labels=labels.astype(np.int32), parents=np.ones((found.size, 1)), rows=rows))

    def _drop_empty(self) -> None:
        """Forget clusters that no client that was seen belongs to."""
        seen = np.flatnonzero(self._is_seen)
        kept, labels = np.unique(self._membership[seen], return_inverse=True)
        if kept.size < self._ids.size:
            parents = np.eye(self._ids.size)[kept]
            self._apply(Change(labels=labels.astype(np.int32), parents=parents, rows=kept.astype(np.int32)))

    def _apply(self, change: "Change") -> None:
        """Regroup: a new cluster goes on from its parents, moved by as much as its members lie off theirs."""
        seen, k = np.flatnonzero(self._is_seen), change.rows.size
        places, before = self._places[seen], self._membership[seen]
        offsets = cluster_centers(places, change.labels, k=k)
        offsets -= change.parents @ cluster_centers(places, before, k=self._ids.size)
        self._cluster_models.mix(change.parents)
        # Equal models would be equally like all clients: members would never find back to their cluster.
        moved = self.models.copy()
        part = moved[:, : self._n_parameters]
        most = float(np.finfo(np.float32).max)
        part[:] = np.clip(part + offsets @ self._directions, -most, most)
        self._cluster_models.models = moved
        is_new = change.rows < 0
        self._ids = np.where(is_new, self._next_id + np.cumsum(is_new) - 1, self._ids[change.rows])
        self._next_id += int(is_new.sum())
        dealt = hashed(self._seed, "fedac-deal", self._round, self._keys) % np.uint64(k)
        self._membership = dealt.astype(np.int32)
        self._membership[seen] = change.labels

    def _rng(self) -> np.random.Generator:
        return stream(self._seed, "fedac", self._round)

    def membership(self) -> Membership:
        """Return the cluster of each client, -1 for those that never took part, once there are several."""
        if self._ids.size == 1:
            return self._membership
        return np.where(self._is_seen, self._membership, UNASSIGNED).astype(np.int32)

    def cluster_ids(self) -> tuple[int, ...]:
        """Return the stable ids of the clusters."""
        return tuple(self._ids.tolist())

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return models, embedding, directions, and what is known of clients."""
        values: dict[str, Json] = {"next_id": self._next_id, "refreshed": self._refreshed, "tuned": self._tuned}
        return values, {
            **self._cluster_models.arrays(),
            "embedding": self._embedding,
            "directions": self._directions,
            "places": self._places.copy(),
            "is_seen": self._is_seen.copy(),
            "membership": self._membership,
            "ids": self._ids,
        }

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:
        """Go on from a snapshot."""
        self._cluster_models.restore(arrays)
        self._embedding = arrays["embedding"].astype(np.float32)
        self._directions = arrays["directions"].astype(np.float32)
        self._places = arrays["places"].astype(np.float64)
        self._is_seen = arrays["is_seen"].astype(np.bool_)
        self._membership = arrays["membership"].astype(np.int32)
        self._ids = arrays["ids"].astype(np.int64)
        self._next_id, self._refreshed, self._tuned = (
            int(str(values[name])) for name in ("next_id", "refreshed", "tuned")
        )


def _append_mean(models: Models) -> Models:
    return np.concatenate([models, mean_model(models)[np.newaxis]])


# ---- how many clusters ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Change:
    """Another grouping."""

    labels: Membership  # the cluster of each client that was looked at, shape (n_points,)
    parents: Matrix  # share of each old cluster in each new one, rows sum to 1
    rows: Membership  # the old cluster that each new one goes on as, -1 for one that is new, shape (n_after,)


def variance_ratio(points: Matrix, labels: Membership) -> float:
    """Return the spread between clusters over that within them, each by its degrees of freedom; 0 for one cluster.

    Squared distances and degrees of freedom (Calinski and Harabasz, 1974), not bare means: of two clusters that are
    both cut in half, joining either pair alone would never pay.

    Examples
    --------
    >>> line = np.array([[0.0], [2.0], [8.0], [10.0]])
    >>> variance_ratio(line, np.array([0, 0, 1, 1], dtype=np.int32))
    32.0
    >>> variance_ratio(line, np.array([0, 0, 0, 0], dtype=np.int32))
    0.0
    """
    heads = np.bincount(labels)
    k = int((heads > 0).sum())
    if k < 2 or k >= points.shape[0]:
        return 0.0
    centers = cluster_centers(points, labels, k=heads.size)
    within = float(((points - centers[labels]) ** 2).sum())
    between = float((heads[:, np.newaxis] * (centers - points.mean(axis=0)) ** 2).sum())
    return np.inf if within == 0.0 else (between / (k - 1)) / (within / (points.shape[0] - k))


def cluster_centers(points: Matrix, labels: Membership, *, k: int) -> Matrix:
    """Return the mean of every cluster's points, shape ``(k, n_features)``; 0 for a cluster without any."""
    centers = np.zeros((k, points.shape[1]))
    np.add.at(centers, labels, points)
    return np.asarray(centers / np.maximum(np.bincount(labels, minlength=k), 1)[:, np.newaxis])


def better_grouping(points: Matrix, labels: Membership, *, most: int, rng: np.random.Generator) -> Change | None:
    """Return the grouping with one cluster more or less that raises the ratio most; None if neither raises it.

    ``points``: one row per client. ``labels``: its cluster, from 0 without gaps. ``most``: how many clusters there may
    be; never fewer than two.
    """
    k = int(labels.max()) + 1
    tried: list[Change | None] = []
    if k < most:
        tried.append(_split_loosest(points, labels, rng))
    if k > 2:
        tried.append(_merge_closest(points, labels))
    best, best_ratio = None, variance_ratio(points, labels)
    for change in tried:
        if change is not None and (ratio := variance_ratio(points, change.labels)) > best_ratio:
            best, best_ratio = change, ratio
    return best


def _split_loosest(points: Matrix, labels: Membership, rng: np.random.Generator) -> Change | None:
    """Cut the cluster in two whose clients lie farthest from its center on average."""
    k = int(labels.max()) + 1
    distances = np.linalg.norm(points - cluster_centers(points, labels, k=k)[labels], axis=1)
    loosest = int(np.argmax(np.bincount(labels, weights=distances) / np.bincount(labels)))
    own = np.flatnonzero(labels == loosest)
    if own.size < 2 * FEWEST:
        return None
    halves = KMeans().partitions(points[own], [2], metric=METRICS["l2"], rng=rng)[2]
    if np.bincount(halves, minlength=2).min() < FEWEST:
        return None
    changed = labels.copy()
    changed[own[halves != halves[0]]] = k
    rows = np.append(np.arange(k, dtype=np.int32), np.int32(-1))
    return Change(labels=changed, parents=np.eye(k)[[*range(k), loosest]], rows=rows)


def _merge_closest(points: Matrix, labels: Membership) -> Change:
    """Join the two clusters whose centers are nearest; the larger goes on (ties: the first)."""
    heads = np.bincount(labels)
    centers = cluster_centers(points, labels, k=heads.size)
    gaps = np.linalg.norm(centers[:, np.newaxis] - centers, axis=2)
    gaps[np.tril_indices(heads.size)] = np.inf
    pair = np.unravel_index(int(np.argmin(gaps)), gaps.shape)
    first, second = sorted((int(pair[0]), int(pair[1])), key=lambda one: (-heads[one], one))
    kept = np.delete(np.arange(heads.size, dtype=np.int32), second)
    parents = np.eye(heads.size)
    parents[first] = (heads[first] * parents[first] + heads[second] * parents[second]) / (heads[first] + heads[second])
    row_of = np.zeros(heads.size, dtype=np.int32)
    row_of[kept] = np.arange(kept.size)
    row_of[second] = row_of[first]
    return Change(labels=row_of[labels], parents=parents[kept], rows=kept)


def principal_directions(rows: Models, rank: int) -> Models:
    """Return the directions of unit length along which rows spread most, from their inner products.

    float32, shape ``(rank, n_numbers)``, the first spreads most; O(n_rows^2 n_numbers). ``rows``: deviations from a
    common origin, float32, shape ``(n_rows, n_numbers)``. ``rank``: how many directions; where rows span fewer, the
    last are 0.

    Examples
    --------
    >>> rows = np.array([[3.0, 0.0, 0.0], [-3.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype=np.float32)
    >>> np.abs(principal_directions(rows, 3)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    values, vectors = np.linalg.eigh(products(rows, rows))
    directions = np.zeros((rank, rows.shape[1]), dtype=np.float32)
    order = np.argsort(-values, kind="stable")[:rank]
    order = order[(values[order] > 0.0) & (values[order] > _ROUNDING * values.max())]
    shares = vectors[:, order].T / np.sqrt(values[order])[:, np.newaxis]
    for part in column_chunks(rows.shape[1]):
        directions[: order.size, part] = shares @ rows[:, part].astype(np.float64)
    return directions


KIND = MethodKind(
    summary="FedAC-style (reconstructed): embeddings pulled together, participants join the most similar model",
    sends="the mean embedding, to every participant",
    build=FedAC,
)
