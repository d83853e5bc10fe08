"""Re-clustering everyone: ours against scikit-learn's KMeans with silhouette_score, same metric, same range of K."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fielding._typing import Matrix
from fielding.bench.planted import planted_histograms
from fielding.bench.timing import in_turns
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.points import Points
from fielding.distance import metric_named
from fielding.rng import stream

METRICS = ("l1", "l2", "hellinger")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringRow:
    """One metric: median seconds of ours, the peer and the bound, the ratio, and the K that each chose."""

    metric: str
    ours_s: float
    peer_s: float
    bound_s: float
    speedup: float
    spread: float
    k_ours: int
    k_peer: int


def compare_clustering(
    n_clients: int, n_labels: int, *, k_max: int, repeat: int, on_turn: Callable[[int], None] = lambda _n: None
) -> list[ClusteringRow]:
    """Time the contenders in turns for each metric, on the same histograms with 6 planted groups."""
    shares = planted_histograms(n_clients, n_labels, rng=stream(7, "bench-clustering"))
    rows = []
    for name in METRICS:
        wide = shares.astype(np.float64)
        timed = in_turns(
            {
                "ours": _ours(Points(shares), name, k_max),
                "peer": _peer(wide, name, k_max),
                "bound": _bound(wide, name),
            },
            repeat,
            on_turn,
        )
        ours, peer = timed["ours"], timed["peer"]
        rows.append(
            ClusteringRow(
                metric=name,
                ours_s=ours.median,
                peer_s=peer.median,
                bound_s=timed["bound"].median,
                speedup=peer.median / ours.median,
                spread=max(ours.spread, peer.spread),
                k_ours=ours.result,
                k_peer=peer.result,
            )
        )
    return rows


def _ours(points: Points, metric: str, k_max: int) -> Callable[[], int]:
    clusterer = Clusterer(k_max=k_max)

    def run() -> int:
        return clusterer.cluster(points, metric=metric_named(metric), rng=stream(1, "bench-ours")).n_clusters

    return run


def _peer(shares: Matrix, metric: str, k_max: int) -> Callable[[], int]:
    """Return what a careful user of scikit-learn writes: it has k-means for the Euclidean distance only."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    space = np.sqrt(shares / 2.0) if metric == "hellinger" else shares
    distance = "manhattan" if metric == "l1" else "euclidean"

    def run() -> int:
        scores = {}
        for k in range(2, k_max + 1):
            labels = KMeans(n_clusters=k, n_init=10, random_state=1).fit_predict(space)
            scores[k] = silhouette_score(space, labels, metric=distance)
        return max(scores, key=lambda k: scores[k])

    return run


def _bound(shares: Matrix, metric: str) -> Callable[[], int]:
    """Return the least work that an exact silhouette takes outside L1: all pairs once, as one matrix product."""
    space = np.sqrt(shares / 2.0) if metric == "hellinger" else shares

    def run() -> int:
        squares = (space**2).sum(axis=1)
        distances = squares[:, np.newaxis] + squares - 2.0 * (space @ space.T)
        return int(np.sqrt(np.maximum(distances, 0.0)).shape[0])

    return run
