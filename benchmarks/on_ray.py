"""Local training on Ray workers beside workers of this process, and comparisons on Ray beside local ones."""

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.simulator import SimulatorRow, compare_contenders, plain_contender, trainers_of
from benchmarks.timing import in_turns
from benchmarks.workloads import WORKLOADS, workload_round, workload_windows
from fielding._typing import Json, Models
from fielding.comparing.compare import compare
from fielding.ray_cluster import LOCAL, RAY, ray_cluster
from fielding.runtime.workers import Workers
from fielding.simulation.ray_workers import crew_on


def compare_workers(
    name: str, *, n_workers: Sequence[int], repeat: int, on_turn: Callable[[int], None]
) -> list[SimulatorRow]:
    """Time a round of local training of a workload in this process and on Ray actors; results must be the same bits."""
    workload = WORKLOADS[name]
    windows, (trainer,) = workload_windows(workload), trainers_of(workload).values()
    work = workload_round(workload, windows, trainer, 0)
    with ray_cluster(RAY, n_cpus=sum(n_workers) * trainer.path.n_threads), ExitStack() as stack:
        pools = {
            f"{n} worker{'s' * (n > 1)} here": stack.enter_context(closing(Workers(trainer, n))) for n in n_workers
        }
        for n in n_workers:
            crew_of = stack.enter_context(crew_on(RAY, n_actors=n, n_gpus=0, on_note=lambda _note: None))
            pools[f"{n} worker{'s' * (n > 1)} on Ray"] = Workers(trainer, crew=crew_of(trainer, windows))
        results = {label: workers.train(work).models for label, workers in pools.items()}
        first = next(iter(results.values()))
        if not all(np.array_equal(first, one) for one in results.values()):
            raise RuntimeError("Ray workers gave other bits")
        contenders: dict[str, Callable[[], Models]] = {"plain loop": plain_contender(workload, work)}
        contenders |= {label: (lambda one=one: one.train(work).models) for label, one in pools.items()}  # type: ignore[misc]
        return compare_contenders(name, contenders, repeat, on_turn)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """Runs an hour of a comparison, and how many times as long as on local it took."""

    on: str
    runs_per_hour: float
    times_local: float


def compare_comparisons(
    *, n_seeds: int, rounds: int, repeat: int, on_turn: Callable[[int], None]
) -> list[ComparisonRow]:
    """Time a comparison of two methods, two runs at a time, on local and on a Ray cluster that is up."""
    config: dict[str, Json] = {
        "rounds": rounds,
        "trace": {"clients": 100, "samples": 100},
        "model": {"hidden": 256},
        "training": {"participants": 20},
        "workers": 1,
    }

    def run_on(on: str) -> float:
        with tempfile.TemporaryDirectory() as folder:
            begun = time.perf_counter()
            done = compare(
                config, ["global", "fielding"], seeds=n_seeds, out=Path(folder) / "x", jobs=2, on=on, progress=False
            )
            if done.failures:
                raise RuntimeError(str(done.failures))
            return time.perf_counter() - begun

    with ray_cluster(RAY, n_cpus=2):  # it stays up between turns
        timed = in_turns({on: lambda on=on: run_on(on) for on in (LOCAL, RAY)}, repeat, on_turn)  # type: ignore[misc]
    return [
        ComparisonRow(
            on=on, runs_per_hour=3600 * 2 * n_seeds / one.median, times_local=one.median / timed[LOCAL].median
        )
        for on, one in timed.items()
    ]
