"""What clustering costs: seconds and memory of the server, and a client's seconds by the simulated clock."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.coordinator import planted_histograms
from experiments.reproduce.results import Figure
from fielding._typing import Floats
from fielding.client.report import ReportBatch
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.points import Points
from fielding.coordinator.policy import Policy
from fielding.coordinator.trigger import CenterShift
from fielding.distance import metric_named
from fielding.federation.ledger import Costs
from fielding.methods.flexcfl import group_by_direction
from fielding.rng import stream
from fielding.simulation.clock import seconds_of
from fielding.simulation.hardware import devices_of

N_CLIENTS, N_LABELS, N_CENTERS = 5_078, 100, 10
"""The paper's largest setting; the paper does not say how many centers there were."""
NEVER = 1e9
"""A threshold that is computed and never exceeded."""
FEW_CLIENTS, FEW_LABELS = 302, 62
"""Those of FMoW."""
N_PARAMETERS = 200_000
"""Numbers of an update; 302 updates of a ResNet-18 would take 13 GB."""
RESNET_BYTES = 4 * 11_200_000
PRETRAIN_SAMPLES = 50 * 20
"""FlexCFL's: 50 steps of 20 samples."""
MEGABYTE = 2**20
"""The paper's: 5,078 x 100 x 4 bytes are 1.9 of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    n_clients: int = N_CLIENTS
    few_clients: int = FEW_CLIENTS
    n_parameters: int = N_PARAMETERS
    n_repeats: int = 5


QUICK = Size(n_clients=200, few_clients=20, n_parameters=500, n_repeats=1)


def measured(size: Size) -> dict[str, Figure]:
    """Return all figures by name; of times the median, with the fastest and slowest as ends."""
    shares = planted_histograms(size.n_clients, N_LABELS, rng=stream(7, "overhead"))
    few = planted_histograms(size.few_clients, FEW_LABELS, rng=stream(8, "overhead"))
    updates = stream(9, "overhead").standard_normal((size.few_clients, size.n_parameters), dtype=np.float32)
    l1 = metric_named("l1")

    def clustered(points: Points) -> Callable[[], object]:
        return lambda: Clusterer(k_max=N_CENTERS).cluster(points, metric=l1, rng=stream(1, "overhead"))

    works: dict[str, Callable[[], object]] = {
        "adjust": _event(shares),
        "recluster": clustered(Points(shares)),
        "labels": clustered(Points(few)),
        "gradients": lambda: group_by_direction(updates, 5, rng=stream(1, "overhead")),
    }
    found = {name: _timed(work, size.n_repeats) for name, work in works.items()}
    return {**found, "memory": Figure(mean=shares.nbytes / MEGABYTE), **_client_seconds()}


def _event(shares: Floats) -> Callable[[], object]:
    """Return an event in which everybody drifted and nobody is grouped anew: moves, new centers, and the trigger."""
    ids, clusterer = list(range(len(shares))), Clusterer(k_min=N_CENTERS, k_max=N_CENTERS)
    coordinator = Coordinator(Policy(trigger=CenterShift(tau=NEVER), clusterer=clusterer, seed=1))
    turns = [ReportBatch(client_ids=ids, representations=rows) for rows in (shares, shares[::-1].copy())]
    coordinator.update(turns[0])

    def work() -> object:
        turns.reverse()
        return coordinator.update(turns[0])

    return work


def _timed(work: Callable[[], object], n_repeats: int) -> Figure:
    work()  # libraries are loaded and memory is touched before anything is timed
    seconds = []
    for _ in range(n_repeats):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return Figure(mean=statistics.median(seconds), low=min(seconds), high=max(seconds))


def _client_seconds() -> dict[str, Figure]:
    """Return what it takes a client of FMoW by the simulated clock, mean over clients."""
    devices, everyone = devices_of("synthetic", range(FEW_CLIENTS), seed=1), np.arange(FEW_CLIENTS)
    asked = {
        "transfer": Costs(down_bytes=RESNET_BYTES, up_bytes=RESNET_BYTES),
        "computing": Costs(train_samples=PRETRAIN_SAMPLES),
        "report": Costs(up_bytes=4 * FEW_LABELS),
    }
    return {name: Figure(mean=float(seconds_of(devices, everyone, one).mean())) for name, one in asked.items()}


def measure(seeds: Sequence[int], out: Path, *, is_quick: bool, n_jobs: int) -> tuple[dict[str, Figure], list[str]]:  # noqa: ARG001
    """Return the figures, and what Fielding asks of a client instead, which the paper does not state."""
    size = QUICK if is_quick else Size()
    found = measured(size)
    words = (
        f"Instead of a model down and an update up, a client of Fielding sends {FEW_LABELS} numbers, "
        f"{4 * FEW_LABELS} bytes: {1000.0 * found['report'].mean:.1f} ms by the same clock. Times of our server are "
        f"medians of {size.n_repeats}, with the fastest and the slowest in brackets."
    )
    return found, [words]
