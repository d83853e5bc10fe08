"""The evaluation of 1,000 clients on 5 models: client by client, and batched per cluster, in turns."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fielding._typing import Counts, Models
from fielding.bench.local_training import SimulatorRow, rows_of, trainers_of
from fielding.bench.timing import in_turns
from fielding.bench.workloads import WORKLOADS, Workload, workload_windows
from fielding.client.ranges import segment_sums
from fielding.runtime.workers import Workers
from fielding.traces.sliding import SlidingWindows

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

    from fielding.bench.plain_loop import load_model, plain_module, plain_predictions

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
