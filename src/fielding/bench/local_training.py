"""A round of local training: ours, the plain loop and the bound, in turns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fielding._typing import Models
from fielding.bench.timing import Timing, in_turns
from fielding.bench.workloads import WORKLOADS, Workload, workload_round, workload_windows
from fielding.runtime.workers import Workers
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import LocalWork, Trainer

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
            PLAIN: _plain(workload, work),
            **{label: _ours(workers, work) for label, workers in pools.items()},
            "one large batch (bound)": _plain(workload, work, is_bound=True),
        }
        in_turns(contenders, 1)  # memory is touched and libraries are loaded before anybody is timed
        return rows_of(name, in_turns(contenders, repeat, on_turn))
    finally:
        for workers in pools.values():
            workers.close()


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


def _plain(workload: Workload, work: LocalWork, *, is_bound: bool = False) -> Callable[[], Models]:
    """Return the plain loop, or the bound, with a module and threads of its own."""
    import torch

    from fielding.bench.plain_loop import large_batches, plain_loop, plain_module

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
