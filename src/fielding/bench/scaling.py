"""From ten thousand to a million clients: adjusting all, re-clustering all, and what one client costs.

Each size runs in a process of its own, so that its peak memory is its own too.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from fielding.bench.planted import planted_histograms
from fielding.client.report import ClientReport, ReportBatch
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.policy import Policy
from fielding.coordinator.trigger import Always, Never
from fielding.engine.peak_memory import peak_bytes
from fielding.errors import FieldingError
from fielding.rng import stream

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
    command = [sys.executable, "-m", "fielding.bench.scaling", str(n_clients), str(n_labels), metric]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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
