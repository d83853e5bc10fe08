"""A round of local training: ours, the plain loop and the bound, in turns."""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.timing import Timing, in_turns
from benchmarks.workloads import WORKLOADS, Workload, workload_pool, workload_round, workload_windows
from fielding._typing import Counts, Json, Models
from fielding.client.drift import Chi2
from fielding.client.ranges import segment_sums
from fielding.config.reader import config_from
from fielding.engine.round import Federation, run_round
from fielding.federation.clients import TrainingPlan
from fielding.federation.models import mean_model
from fielding.rng import stream
from fielding.runtime.observe import LabelObserver
from fielding.runtime.workers import Workers
from fielding.simulation.assembly import Own, Simulation, assemble, initial_model
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.experiment import federation_of, run
from fielding.traces.histograms import WindowPlan
from fielding.traces.pool import Pool
from fielding.traces.scenarios import DealRequest, scenario_named
from fielding.traces.sliding import SlidingWindows
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import LocalWork, Trainer

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


METHODS = ("global", "fielding", "ifca", "flexcfl", "auxo", "fedac")
WARM_UP = 3
"""Rounds that are not timed: the first makes the clusters, and caches fill."""


def method_overhead(*, n_rounds: int, methods: Sequence[str] = METHODS) -> dict[str, Json]:
    """Compare rounds of methods between drift events with bare rounds of federated averaging, in turns, on W1.

    A bare round draws as many participants uniformly, lets them train through the same door with the same trainer, and
    takes the mean. Nobody drifts after the start, and nothing is evaluated or written down.

    Returns
    -------
    ``bare_ms``, and by method ``round_ms`` and ``to_bare``: medians, and the ratio of medians.
    """
    workload = WORKLOADS["w1"]
    own = Own(samples=workload_pool(workload))
    bare = _simulation(workload, own, "global", n_rounds)
    others = {name: _simulation(workload, own, name, n_rounds) for name in methods}
    federations = {name: _federation(one) for name, one in others.items()}
    model = initial_model(bare, None)
    seconds: dict[str, list[float]] = {name: [] for name in ("bare", *methods)}
    for round_index in range(WARM_UP + n_rounds):
        begun = time.perf_counter()
        model = _bare_round(bare.clients, model, round_index, workload.n_participants)
        seconds["bare"].append(time.perf_counter() - begun)
        for name, federation in federations.items():
            begun = time.perf_counter()
            run_round(federation, round_index)
            seconds[name].append(time.perf_counter() - begun)
    for one in (bare, *others.values()):
        one.clients.close()
    medians = {name: statistics.median(times[WARM_UP:]) for name, times in seconds.items()}
    found: dict[str, Json] = {
        name: {"round_ms": 1e3 * medians[name], "to_bare": medians[name] / medians["bare"]} for name in methods
    }
    return {"rounds": n_rounds, "bare_ms": 1e3 * medians["bare"], "methods": found}


def _simulation(workload: Workload, own: Own, method: str, n_rounds: int) -> Simulation:
    config = config_from(
        {
            "rounds": WARM_UP + n_rounds + 1,  # one more, so that the last is not evaluated
            "trace": {
                "scenario": "static",
                "clients": workload.n_clients,
                "samples": 125,
                "gap": 1000,
                "window": 1000,
            },
            "training": {"participants": workload.n_participants, "prox": 0.0},
            "evaluation": {"every": 1_000_000},
            "clock": {"overcommit": 1.0},
            "method": {"name": method},
        }
    )
    return assemble(config, own, n_workers=1)


def _federation(simulation: Simulation) -> Federation:
    method = simulation.method(initial_model(simulation, None))
    return federation_of(simulation, method, simulation.clients)


def _bare_round(clients: SimulatedClients, model: Models, round_index: int, n_participants: int) -> Models:
    clients.begin(round_index)
    everyone = np.flatnonzero(clients.askable())
    order = np.argsort(clients.draws("select", everyone))[:n_participants]
    chosen = np.sort(everyone[order])
    plan = TrainingPlan(
        models=model[np.newaxis],
        clients=chosen,
        groups=np.zeros(chosen.size, dtype=np.int64),
        start=np.zeros(chosen.size, dtype=np.int64),
        wanted=np.array([chosen.size]),
    )
    return mean_model(clients.train(plan).models)


PLAIN = "plain loop"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorRow:
    """One contender: median time, how many times as fast as the first, slowest over fastest turn, and how it agrees.

    ``largest_difference`` is that of any number from the first contender's result; None where the task is another.
    """

    workload: str
    contender: str
    median_ms: float
    times_as_fast: float
    spread: float
    largest_difference: float | None


def compare_training(name: str, *, repeat: int, on_turn: Callable[[int], None]) -> list[SimulatorRow]:
    """Time a round of local training of one workload."""
    workload = WORKLOADS[name]
    windows, trainers = workload_windows(workload), trainers_of(workload)
    work = workload_round(workload, windows, next(iter(trainers.values())), 0)
    pools = worker_pools(trainers)
    try:
        contenders = {
            PLAIN: plain_contender(workload, work),
            **{label: _ours(workers, work) for label, workers in pools.items()},
            "one large batch (bound)": plain_contender(workload, work, is_bound=True),
        }
        return compare_contenders(name, contenders, repeat, on_turn)
    finally:
        for workers in pools.values():
            workers.close()


def compare_contenders(
    name: str, contenders: Mapping[str, Callable[[], Models]], repeat: int, on_turn: Callable[[int], None]
) -> list[SimulatorRow]:
    """Time contenders in turns, once all of them have loaded what they need."""
    in_turns(contenders, 1)
    return rows_of(name, in_turns(contenders, repeat, on_turn))


def trainers_of(workload: Workload) -> dict[str, Trainer]:
    """Return the trainers that can train a workload's model."""
    names = ("numpy", "torch") if workload.model == "mlp" else ("torch",)
    request = {"name": workload.model, "input_shape": workload.shape, "n_classes": workload.n_classes}
    return {name: trainer_for(ModelRequest(trainer=name, **request)) for name in names}  # type: ignore[arg-type]


def worker_pools(trainers: Mapping[str, Trainer]) -> dict[str, Workers]:
    """Return one worker and, where calls may run side by side, two, for each trainer."""
    return {
        f"fielding, {name}, {n_workers} worker{'s' * (n_workers > 1)}": Workers(trainer, n_workers)
        for name, trainer in trainers.items()
        for n_workers in ((1, 2) if trainer.path.n_threads == 1 else (1,))
    }


def _ours(workers: Workers, work: LocalWork) -> Callable[[], Models]:
    return lambda: workers.train(work).models


def plain_contender(workload: Workload, work: LocalWork, *, is_bound: bool = False) -> Callable[[], Models]:
    """Return the plain loop, or the bound, with a module and threads of its own."""
    import torch

    from benchmarks.workloads import large_batches, plain_loop, plain_module

    module, layout = plain_module(workload), next(iter(trainers_of(workload).values())).layout

    def train() -> Models:
        torch.set_num_threads(workload.loop_threads)
        return large_batches(work, module, layout) if is_bound else plain_loop(work, module, layout)

    return train


def rows_of(name: str, timed: Mapping[str, Timing[Models]]) -> list[SimulatorRow]:
    """Return a row per contender, compared with the first."""
    first = next(iter(timed.values()))
    return [
        SimulatorRow(
            workload=name,
            contender=contender,
            median_ms=1e3 * timing.median,
            times_as_fast=first.median / timing.median,
            spread=timing.spread,
            largest_difference=(
                float(np.abs(timing.result - first.result).max()) if timing.result.shape == first.result.shape else None
            ),
        )
        for contender, timing in timed.items()
    ]


N_CLIENTS, N_MODELS = 1000, 5


def compare_evaluation(name: str, *, repeat: int, on_turn: Callable[[int], None]) -> list[SimulatorRow]:
    """Time the evaluation of all clients, about 20 test samples each."""
    workload = replace(WORKLOADS[name], n_clients=N_CLIENTS)
    windows, trainers = workload_windows(workload), trainers_of(workload)
    models = np.stack([next(iter(trainers.values())).initial_model(seed) for seed in range(N_MODELS)])
    row = np.arange(N_CLIENTS) % N_MODELS
    pools = {f"fielding, {label}, 2 workers": Workers(trainer, 2) for label, trainer in trainers.items()}
    try:
        contenders = {
            "client by client": _one_by_one(workload, windows, models, row),
            **{label: _batched(workers, windows, models, row) for label, workers in pools.items()},
        }
        in_turns(contenders, 1)
        return rows_of(f"{name} evaluation", in_turns(contenders, repeat, on_turn))
    finally:
        for workers in pools.values():
            workers.close()


def _one_by_one(workload: Workload, windows: SlidingWindows, models: Models, row: Counts) -> Callable[[], Models]:
    """Return the plain way: every client's samples through its model by themselves."""
    import torch

    from benchmarks.workloads import load_model, plain_module, plain_predictions

    ranges, layout = windows.testing(0), next(iter(trainers_of(workload).values())).layout
    modules = [plain_module(workload) for _ in models]
    for module, model in zip(modules, models, strict=True):
        load_model(module, layout, model)

    def evaluate() -> Models:
        torch.set_num_threads(1)
        right = np.zeros(N_CLIENTS, dtype=np.float32)
        for client in range(N_CLIENTS):
            x, y = windows.gather(ranges.of(np.array([client]))[0])
            right[client] = (plain_predictions(x, modules[row[client]]) == y).sum()
        return right

    return evaluate


def _batched(workers: Workers, windows: SlidingWindows, models: Models, row: Counts) -> Callable[[], Models]:
    """Return our way: the samples of one cluster through its model together, in small chunks."""
    ranges = windows.testing(0)

    def evaluate() -> Models:
        right = np.zeros(N_CLIENTS, dtype=np.float32)
        for at, model in enumerate(models):
            own = np.flatnonzero(row == at)
            entries, sizes = ranges.of(own)
            right[own] = segment_sums(workers.scores(model, entries, windows.gather)[1], sizes)
        return right

    return evaluate
