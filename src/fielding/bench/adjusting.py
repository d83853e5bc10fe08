"""Moving every client to its nearest center: ours, scipy alone, numpy and a plain loop."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fielding.bench.planted import planted_histograms
from fielding.bench.timing import in_turns
from fielding.coordinator.assignment import nearest_clusters
from fielding.coordinator.points import Points
from fielding.distance import metric_named
from fielding.rng import stream

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
