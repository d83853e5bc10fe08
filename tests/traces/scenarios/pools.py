"""Small pools to deal from, and what a schedule says about one client."""

import numpy as np
import numpy.typing as npt

from fielding.rng import stream
from fielding.traces.pool import Pool
from fielding.traces.scenarios import DealRequest
from fielding.traces.schedule import Schedule


def image_pool(n_samples: int = 60, n_classes: int = 6, *, height: int = 8, width: int = 8) -> Pool:
    """Return images of bytes whose classes take turns."""
    rng = stream(0, "image pool")
    return Pool(
        x=rng.integers(0, 256, (n_samples, height, width), dtype=np.uint8),
        y=np.arange(n_samples, dtype=np.int32) % n_classes,
        classes=tuple(f"class {index}" for index in range(n_classes)),
    )


def vector_pool(n_samples: int = 60, n_classes: int = 6, n_features: int = 5) -> Pool:
    """Return vectors whose classes take turns."""
    rng = stream(0, "vector pool")
    return Pool(
        x=rng.normal(size=(n_samples, n_features)) * 3.0 + 7.0,
        y=np.arange(n_samples, dtype=np.int32) % n_classes,
        classes=tuple(f"class {index}" for index in range(n_classes)),
    )


def request_for(n_clients: int = 40, n_intervals: int = 6, *, n_first: int = 2, samples: int = 10) -> DealRequest:
    return DealRequest(n_clients=n_clients, n_intervals=n_intervals, n_first=n_first, samples_per_interval=samples)


def concepts_of(schedule: Schedule) -> npt.NDArray[np.int32]:
    """Return the concepts of a schedule that knows them, shape ``(n_intervals, n_clients)``."""
    assert schedule.concepts is not None
    return schedule.concepts


def histograms(schedule: Schedule, n_labels: int) -> npt.NDArray[np.float64]:
    """Return the shares of seen labels, shape ``(n_intervals, n_clients, n_labels)``."""
    counts = np.zeros((schedule.n_intervals, schedule.n_clients, n_labels))
    np.add.at(counts, (schedule.interval, schedule.client, schedule.y), 1.0)
    return counts / np.maximum(counts.sum(axis=2, keepdims=True), 1.0)
