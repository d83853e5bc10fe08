"""What a round of a run costs beside its training, and how long a trace of thousands takes to set up and to advance."""

import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from fielding._typing import Json
from fielding.bench.workloads import WORKLOADS, workload_pool
from fielding.client.drift import Chi2
from fielding.rng import stream
from fielding.runtime.observe import LabelObserver
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import run
from fielding.traces.histograms import WindowPlan
from fielding.traces.pool import Pool
from fielding.traces.scenarios import DealRequest, scenario_named
from fielding.traces.sliding import SlidingWindows

GAP = 20
"""Rounds between arrivals of data, as by default."""


def whole_rounds(*, n_rounds: int) -> dict[str, Json]:
    """Run W1 as `fielding run` does, drifting, and compare a whole round with its training stage and its local steps.

    The stage also draws the batches, asks the clock and keeps the ledger; the steps are what the trainer does.

    Windows, reports, clustering, selection, aggregation, logs and checkpoints are all in it; the first round, which
    makes the clusters, and the last one, which evaluates, are not.
    """
    workload = WORKLOADS["w1"]
    config: dict[str, Json] = {
        "rounds": n_rounds,
        "trace": {
            "scenario": "places",
            "looks": False,  # turning samples is part of their training, which would look slower for it
            "clients": workload.n_clients,
            "samples": 125,
            "gap": GAP,
            "window": GAP,
        },
        "training": {"participants": workload.n_participants, "prox": 0.0},
        "evaluation": {"every": n_rounds},
        "clock": {"overcommit": 1.0},
    }
    ends: list[float] = []

    def watch(_row: object) -> bool:
        ends.append(time.perf_counter())
        return True

    with tempfile.TemporaryDirectory(prefix="fielding-") as scratch:
        own = Own(samples=workload_pool(workload))
        run(config, Path(scratch) / "run", own=own, watch=watch, page=False)
        log = (Path(scratch) / "run" / "timings.jsonl").read_text(encoding="utf-8")
    stages = [json.loads(line) for line in log.splitlines()][1:-1]
    whole = float(np.mean(np.diff(ends)[:-1]))
    training, steps = (float(np.mean([stage[name] for stage in stages])) for name in ("train", "steps"))
    return {
        "rounds": n_rounds,
        "whole_ms": 1e3 * whole,
        "training_ms": 1e3 * training,
        "steps_ms": 1e3 * steps,
        "whole_to_training": whole / training,
        "whole_to_steps": whole / steps,
    }


def large_trace(*, n_clients: int = 5078, n_labels: int = 100) -> dict[str, Json]:
    """Set up a trace as large as the paper's and advance it event by event."""
    rng = stream(3, "bench-trace")
    y = rng.integers(0, n_labels, 50_000).astype(np.int32)
    pool = Pool(x=rng.random((y.size, 8), dtype=np.float32), y=y, classes=tuple(map(str, range(n_labels))))
    plan = WindowPlan(gap=1, window=5)
    begun = time.perf_counter()
    request = DealRequest(n_clients=n_clients, n_intervals=25, n_first=plan.n_first, samples_per_interval=20)
    windows = SlidingWindows(pool, scenario_named("places", {"looks": False}).deal(pool, request, seed=1), plan)
    observer = LabelObserver(windows, Chi2())
    ready = time.perf_counter()
    observer.observe(0)
    steps: list[float] = []
    for round_index in range(1, 20):
        start = time.perf_counter()
        windows.training(round_index)
        observer.observe(round_index)
        steps.append(time.perf_counter() - start)
    return {
        "clients": n_clients,
        "labels": n_labels,
        "samples": int(windows.schedule.client.size),
        "set_up_s": ready - begun,
        "advance_ms": 1e3 * statistics.median(steps),
    }
