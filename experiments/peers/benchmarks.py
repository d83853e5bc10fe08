"""The data that methods are compared on, each with a validation trace of its own for tuning.

Natural traces are tuned on their first half in time and compared on all of it: final figures come from the last tenth.
Pools are cut in two before anything is dealt: one part for tuning, the other for the comparison.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.tables import Table
from fielding.atomic import replaced_file
from fielding.traces.catalog import Opening, open_source
from fielding.traces.pool import Pool

VALIDATION_SAMPLES = 20_000
"""Images of a pool that are for tuning alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Something to compare methods on.

    Parameters
    ----------
    name, title, about
        For commands, and for people: what it is called, and a paragraph on what it is.
    trace, training
        Sections that all methods share.
    rounds
        Of the comparison.
    tuning_rounds
        Of the runs that knobs are chosen by.
    has_truth
        Whether true concepts are known, so that there is a ceiling.
    is_small
        Whether FedDrift and CFL run as their authors made them, with everybody in every round; else with as many
        participants as all others.
    hidden
        Hidden units of the model.
    """

    name: str
    title: str
    about: str
    trace: Table
    training: Table
    rounds: int
    tuning_rounds: int
    has_truth: bool
    is_small: bool = False
    hidden: int = 64

    @property
    def is_pool(self) -> bool:
        """Whether a scenario deals the samples."""
        return "scenario" in self.trace


SCENARIO: Table = {"gap": 20, "window": 40, "samples": 50, "clients": 100}
"""What the scenarios share: data arrive every 20 rounds and stay for two arrivals."""
LOCAL: Table = {"participants": 20, "local_steps": 10, "batch_size": 20, "learning_rate": 0.05}

BENCHMARKS = {
    one.name: one
    for one in (
        Benchmark(
            name="zephyr",
            title="zephyr: 302 authors of a software project, 62 subsystems, subject lines",
            about=(
                "The [stand-in for FMoW](reproduce/index.md#stand-ins), with 10 local steps of 20 samples. Knobs were "
                "chosen on the first half of the time."
            ),
            trace={
                "name": "zephyr",
                "interval": "7d",
                "gap": 2,
                "window": 52,
                "last": "1050d",
                "clients": 302,
                "fold": "seed",
            },
            training={**LOCAL, "participants": 40},
            rounds=240,
            tuning_rounds=120,
            has_truth=False,
            hidden=32,
        ),
        Benchmark(
            name="extrasensory",
            title="extrasensory: 30 people, 6 activities, sensors of phone and watch",
            about=(
                "The [stand-in for Cityscapes](reproduce/index.md#stand-ins), by 225 features from phone and watch, "
                "with 10 local steps of 20 samples. FedDrift and CFL have everybody in every round, as their authors "
                "made them. Knobs were chosen on the first half of the time."
            ),
            trace={
                "name": "extrasensory",
                "interval": "6h",
                "gap": 10,
                "window": 40,
                "align": "client",
                "fold": "seed",
            },
            training={**LOCAL, "participants": 12},
            rounds=200,
            tuning_rounds=100,
            has_truth=False,
            is_small=True,
        ),
        Benchmark(
            name="fashion-buckets",
            title="Fashion-MNIST in label buckets: 100 clients",
            about=(
                "Fashion-MNIST whose clients see their labels in buckets, one after the other: 100 clients, 50 "
                "samples every 20 rounds, which stay for two arrivals (40 rounds); 160 rounds, 20 participants, 10 "
                "local steps of 20 samples, MLP with 64 hidden units. Knobs were chosen on 20,000 other images."
            ),
            trace={"name": "fashion_mnist", "scenario": "label-buckets", **SCENARIO},
            training=LOCAL,
            rounds=160,
            tuning_rounds=80,
            has_truth=True,
        ),
        Benchmark(
            name="fashion-places",
            title="Fashion-MNIST in places: 50 clients that move between four places",
            about=(
                "Fashion-MNIST whose clients move between four places, each with a label mix and a rotation of its "
                "own: 50 clients, 50 samples every 20 rounds, which stay for two arrivals (40 rounds); 120 rounds, 20 "
                "participants, 10 local steps of 20 samples, MLP with 64 hidden units. Few enough clients for FedDrift "
                "and CFL to run as their authors made them, with everybody in every round. Knobs were chosen on "
                "20,000 other images."
            ),
            trace={"name": "fashion_mnist", "scenario": "places", **SCENARIO, "clients": 50},
            training=LOCAL,
            rounds=120,
            tuning_rounds=60,
            has_truth=True,
            is_small=True,
        ),
    )
}
"""By name."""


def base_table(benchmark: Benchmark, folder: Path, *, is_tuning: bool) -> Table:
    """Return what all runs on a benchmark share; a pool is cut into files in ``folder``."""
    trace = dict(benchmark.trace)
    if benchmark.is_pool:
        trace["file"] = str(_pool_file(str(trace.pop("name")), folder, is_tuning=is_tuning))
    return {
        "preset": "paper",
        "rounds": benchmark.tuning_rounds if is_tuning else benchmark.rounds,
        "trace": trace,
        "model": {"name": "mlp", "hidden": benchmark.hidden},
        "training": dict(benchmark.training),
        "serving": {"correction": "prior"},
    }


def _pool_file(name: str, folder: Path, *, is_tuning: bool) -> Path:
    """Return a file with the part of a pool that is for tuning, or with the other part."""
    path = folder / f"{name}-{'tuning' if is_tuning else 'comparison'}.npz"
    if not path.exists():
        pool = open_source(name, None, Opening())
        if not isinstance(pool, Pool):
            raise TypeError(f"{name} is no pool")
        # By a fixed shuffle, so that both parts hold all classes alike.
        order = np.random.default_rng(20_261_116).permutation(pool.y.size)
        rows = np.sort(order[:VALIDATION_SAMPLES] if is_tuning else order[VALIDATION_SAMPLES:])
        folder.mkdir(parents=True, exist_ok=True)
        with replaced_file(path) as file:
            np.savez(file, x=pool.features(rows), y=pool.y[rows], classes=np.array(pool.classes))
    return path
