"""Re-clustering everyone: ours against scikit-learn's KMeans with silhouette_score, same metric, same range of K."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.timing import in_turns
from fielding._typing import Matrix
from fielding.client.report import ClientReport, ReportBatch
from fielding.coordinator.assignment import nearest_clusters
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.points import Points
from fielding.coordinator.policy import Policy
from fielding.coordinator.trigger import Always, Never
from fielding.distance import metric_named
from fielding.engine.round import peak_bytes
from fielding.errors import FieldingError
from fielding.rng import stream

CHUNK = 16_384


def planted_histograms(
    n_clients: int, n_labels: int, *, n_groups: int = 6, n_samples: int = 200, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Return the label shares of clients whose samples come from one of a few label mixes.

    Parameters
    ----------
    n_clients, n_labels
        The shape.
    n_groups
        How many mixes there are, each a draw from a Dirichlet(0.3).
    n_samples
        Samples per client.
    rng
        The generator.

    Examples
    --------
    >>> from fielding.rng import stream
    >>> planted_histograms(4, 3, rng=stream(1, "bench")).sum(axis=1).round(3).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    mixes = rng.dirichlet(np.full(n_labels, 0.3), size=n_groups)
    shares = np.empty((n_clients, n_labels), dtype=np.float32)
    for start in range(0, n_clients, CHUNK):
        rows = shares[start : start + CHUNK]
        # A gamma per label around the mix: as noisy as a multinomial sample and a hundred times faster to draw.
        rows[:] = rng.standard_gamma(mixes[rng.integers(n_groups, size=rows.shape[0])] * n_samples + 1e-3)
        rows /= rows.sum(axis=1, keepdims=True)
    return shares


HEAVY = ("sklearn", "torch", "plotly", "scipy", "pydantic", "rich", "typer")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCost:
    """Median seconds of the import over bare Python's start, numpy's share, and heavy packages that got loaded."""

    import_fielding_s: float
    import_numpy_s: float
    heavy_loaded: str


def import_seconds(repeat: int) -> ImportCost:
    """Start fresh interpreters in turns."""
    timed = in_turns({name: _python(name) for name in ("pass", "import numpy", "import fielding")}, repeat)
    bare = timed["pass"].median
    check = f"import sys, fielding; print(' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.strip()
    return ImportCost(
        import_fielding_s=timed["import fielding"].median - bare,
        import_numpy_s=timed["import numpy"].median - bare,
        heavy_loaded=loaded or "none",
    )


def _python(code: str) -> Callable[[], int]:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True).returncode


N_CENTERS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustingRow:
    """One contender: median milliseconds, times as long as ours, and whether it finds the same clusters."""

    contender: str
    median_ms: float
    times_ours: float
    same_answer: bool


def compare_adjusting(n_clients: int, n_labels: int, *, repeat: int) -> list[AdjustingRow]:
    """Time the contenders in turns."""
    shares = planted_histograms(n_clients, n_labels, rng=stream(7, "bench-adjusting"))
    wide, centers = shares.astype(np.float64), shares[:N_CENTERS].astype(np.float64)
    nobody = np.full(n_clients, -1, dtype=np.int32)

    def ours() -> list[int]:
        nearest = nearest_clusters(Points(shares), centers, metric=metric_named("l1"), current=nobody)
        return [int(cluster) for cluster in nearest]

    def bound() -> list[int]:
        from scipy.spatial.distance import cdist

        return [int(cluster) for cluster in cdist(wide, centers, "cityblock").argmin(axis=1)]

    def broadcast() -> list[int]:
        return [
            int(cluster) for cluster in np.array([np.abs(wide - one).sum(axis=1) for one in centers]).argmin(axis=0)
        ]

    def loop() -> list[int]:
        return [int(np.abs(row - centers).sum(axis=1).argmin()) for row in wide]

    contenders: dict[str, Callable[[], list[int]]] = {
        "ours": ours,
        "scipy cdist (bound)": bound,
        "numpy": broadcast,
        "a loop over clients": loop,
    }
    timed = in_turns(contenders, repeat)
    return [
        AdjustingRow(
            contender=name,
            median_ms=1e3 * timing.median,
            times_ours=timing.median / timed["ours"].median,
            same_answer=timing.result == timed["ours"].result,
        )
        for name, timing in timed.items()
    ]


N_SINGLE = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRow:
    """One size: seconds per stage, what a single client costs, peak memory over the matrix of representations.

    ``recluster_s`` is an event that moves and re-clusters everyone less one that only moves everyone; ``one_event_ms``
    is a whole event with one report, in which the center of its cluster is computed anew from all members;
    ``report_us`` and ``lookup_us`` take one report in and look one client up.
    """

    n_clients: int
    metric: str
    start_s: float
    adjust_s: float
    recluster_s: float
    n_clusters: int
    one_event_ms: float
    report_us: float
    lookup_us: float
    memory_ratio: float


def measure_scaling(n_clients: int, n_labels: int, metric: str) -> ScalingRow:
    """Measure one size in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.coordinator", str(n_clients), str(n_labels), metric]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent)
    if done.returncode:
        raise FieldingError(f"the benchmark of {n_clients} clients failed: {done.stderr.strip().splitlines()[-1:]}")
    return ScalingRow(**json.loads(done.stdout))


def scaling_row(n_clients: int, n_labels: int, metric: str) -> ScalingRow:
    """Measure one size in this process, which should do nothing else."""
    _warm_up(n_labels, metric)
    before = _resident_bytes()
    batch = ReportBatch(
        client_ids=list(range(n_clients)),
        representations=planted_histograms(n_clients, n_labels, rng=stream(5, "bench-scaling")),
    )
    coordinator = Coordinator(Policy(metric=metric, trigger=Never(), seed=1))
    start_s = _seconds(lambda: coordinator.update(batch))
    adjust_s = _seconds(lambda: coordinator.update(batch))
    coordinator.policy = Policy(metric=metric, trigger=Always(), seed=1)
    recluster_s = _seconds(lambda: coordinator.update(batch))
    ratio = ((peak_bytes() or 0) - before) / batch.representations.nbytes
    coordinator.policy = Policy(metric=metric, trigger=Never(), seed=1)
    one = ReportBatch(client_ids=[0], representations=batch.representations[:1])
    one_event_ms = 1e3 * min(_seconds(lambda: coordinator.update(one)) for _ in range(3))
    report_us, lookup_us = _single_client_us(coordinator, batch)
    return ScalingRow(
        n_clients=n_clients,
        metric=metric,
        start_s=start_s,
        adjust_s=adjust_s,
        recluster_s=max(0.0, recluster_s - adjust_s),
        n_clusters=len(coordinator.clusters.ids) if coordinator.clusters else 0,
        one_event_ms=one_event_ms,
        report_us=report_us,
        lookup_us=lookup_us,
        memory_ratio=ratio,
    )


def _warm_up(n_labels: int, metric: str) -> None:
    """Import everything that is imported late, so that it counts neither as time nor as memory."""
    shares = planted_histograms(200, n_labels, rng=stream(5, "bench-warm-up"))
    Coordinator(Policy(metric=metric)).update(ReportBatch(client_ids=range(200), representations=shares))


def _single_client_us(coordinator: Coordinator, batch: ReportBatch) -> tuple[float, float]:
    """Return microseconds to take one report and to look one client up."""
    some = np.linspace(0, len(batch.client_ids) - 1, N_SINGLE).astype(int).tolist()
    reports = [ClientReport(client_id=one, representation=batch.representations[one]) for one in some]
    received = _seconds(lambda: _receive_all(coordinator, reports))
    looked_up = _seconds(lambda: [coordinator.cluster_of(one) for one in some])
    return 1e6 * received / N_SINGLE, 1e6 * looked_up / N_SINGLE


def _receive_all(coordinator: Coordinator, reports: list[ClientReport]) -> None:
    for report in reports:
        coordinator.receive(report)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _resident_bytes() -> int:
    """Return the memory that is held now, where the system tells; else the most so far."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return peak_bytes() or 0


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(scaling_row(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))))


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
