"""Traces whose kinds of drift are known, because a scenario dealt them."""

import numpy as np

from fielding._typing import Json
from fielding.rng import stream
from fielding.traces.pool import Pool
from fielding.traces.scenarios import DealRequest, deal
from fielding.traces.trace import Trace

INTERVAL = "100s"


def blobs(n_samples: int = 600, n_classes: int = 6, n_features: int = 10) -> Pool:
    """Return vectors of classes that hardly overlap."""
    rng = stream(0, "blobs")
    y = np.arange(n_samples, dtype=np.int32) % n_classes
    centers = 2.0 * rng.normal(size=(n_classes, n_features))
    x = centers[y] + rng.normal(size=(n_samples, n_features))
    return Pool(x=x, y=y, classes=tuple(f"class {index}" for index in range(n_classes)))


def dealt_trace(
    name: str,
    options: dict[str, Json] | None = None,
    *,
    n_clients: int = 40,
    n_intervals: int = 8,
    seed: int = 1,
) -> Trace:
    """Return a trace of intervals of 100 seconds with 30 samples per client, as a scenario deals the blobs."""
    pool = blobs()
    request = DealRequest(n_clients=n_clients, n_intervals=n_intervals, n_first=2, samples_per_interval=30)
    schedule = deal(name, pool, request, seed=seed, options=options)
    x = pool.features(schedule.sample)
    for number, look in enumerate(schedule.looks):
        x[schedule.look == number] = look.apply(x[schedule.look == number])
    return Trace(
        client_ids=schedule.client_ids,
        client=schedule.client,
        time=(100.0 * schedule.interval + np.arange(schedule.client.size) % 100).astype(np.float64),
        y=schedule.y,
        classes=pool.classes,
        x=x,
    )
