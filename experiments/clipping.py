"""Shortening changes that are longer than usual: what it costs where all are honest, and what it saves where not.

    python experiments/clipping.py [--seeds 5] [--factors 1 2 3] [--jobs 2]
    python experiments/clipping.py --direction [--seeds 5] [--first-seed 111] [--jobs 2]

Digits and Fashion-MNIST in places and with label buckets, 60 clients, 60 rounds; final accuracy with clipping less that
without, paired by seed, in points with 95 % intervals, for the mean and for ``auto``. Then 20 % of the clients send
reversed or tenfold updates (digits in places): accuracy of honest clients by aggregator, without and with clipping.

``--direction``: what leaving out clients would do whose updates point against those of their cluster, on digits with
and without reversed updates; beside leaving out the liars themselves, which no server knows.
"""

import argparse
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from unittest.mock import patch

import numpy as np

from experiments.lying import honest_accuracy, print_table
from fielding import run
from fielding._typing import Json
from fielding.config.reader import config_from
from fielding.federation.clients import Updates
from fielding.federation.cluster_models import ClusterModels
from fielding.records.run_folder import CLIENTS
from fielding.simulation.attacks import draw_liars
from fielding.traces.sources import deal_samples

DATA = tuple(product(("digits", "fashion_mnist"), ("places", "label-buckets")))
SPOILS = ("sign-flip", "scale")
AGGREGATORS = ("mean", "median", "trimmed-mean", "multi-krum")
SHARE = 0.2
T_975 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 8: 2.36, 10: 2.26}  # of Student's t, by number of seeds

Job = tuple[str, str, str, str, str, float, int]  # data, scenario, preset, aggregator, spoil, clip, seed
DIRECTIONS = ("all count", "contrary ones left out", "liars left out")
N_MET, LAST_MET = 3, 12  # a client is judged by as many of its updates at least, and by the last of them


def accuracy_of(job: Job) -> float:
    """Return the accuracy of honest clients at the end of a run: mean over its last five evaluations."""
    data, scenario, preset, aggregator, spoil, clip, seed = job
    lies: dict[str, Json] = {} if spoil == "none" else {"liars": SHARE, "lie": "mimic", "spoil": spoil}
    # Who poses as another client's data would be told by its clusters, not by its updates.
    trace: dict[str, Json] = {"name": data, "scenario": scenario, "clients": 60, "samples": 50, "gap": 10, "window": 20}
    aggregation: dict[str, Json] = {"clip": clip, **({} if preset == "auto" else {"name": aggregator})}
    table: dict[str, Json] = {
        "seed": seed,
        "rounds": 60,
        "workers": 1,
        "trace": {**trace, **lies},
        "training": {"participants": 20},
        "aggregation": aggregation,
        "evaluation": {"every": 3},
    }
    config = config_from({**table, **({"preset": preset} if preset else {})})
    with tempfile.TemporaryDirectory(prefix="clipping-") as folder:
        run(config, Path(folder) / "run", page=False)
        tests = [json.loads(line) for line in (Path(folder) / "run" / CLIENTS).read_text().splitlines()]
    ids = deal_samples(config.trace, rounds=config.rounds, seed=seed).schedule.client_ids
    honest = ~draw_liars(ids, config.trace.liars, seed=seed)
    return mean(honest_accuracy(test, honest) for test in tests[-5:])


def learn_without(left_out: str, liars: np.ndarray) -> Callable[[ClusterModels, Updates], None]:
    """Return how models learn if some answers are left out before they are combined.

    A contrary client is one whose updates had, in the mean, a negative cosine with the sum of the others' (those that
    were not contrary themselves) of their cluster and round, each taken with the same length.
    """
    learn, met = ClusterModels.learn, defaultdict[int, list[float]](list)

    def is_contrary(client: int) -> bool:
        return len(met[client]) >= N_MET and mean(met[client][-LAST_MET:]) < 0.0

    def keep(models: ClusterModels, updates: Updates) -> np.ndarray:
        if left_out != DIRECTIONS[1]:
            return ~liars[updates.clients] if left_out == DIRECTIONS[2] else np.ones(updates.start.size, dtype=np.bool_)
        clients = updates.clients.tolist()
        for row in np.unique(updates.start).tolist():
            at = np.flatnonzero(updates.start == row)
            part = slice(0, updates.n_parameters)
            changes = updates.models[at, part].astype(np.float64) - models.models[row, part]
            changes /= np.maximum(np.linalg.norm(changes, axis=1, keepdims=True), 1e-12)
            good = np.array([not is_contrary(clients[one]) for one in at])
            for one, change in enumerate(changes):
                others = good & (np.arange(at.size) != one)
                total = changes[others].sum(axis=0)
                if others.sum() >= 2:
                    met[clients[at[one]]].append(float(change @ total / max(np.linalg.norm(total), 1e-12)))
        return np.array([not is_contrary(client) for client in clients])

    def learn_some(models: ClusterModels, updates: Updates) -> None:
        kept = keep(models, updates)
        if kept.any():
            rows = {
                one.name: value[kept]
                for one in fields(updates)
                if isinstance(value := getattr(updates, one.name), np.ndarray) and len(value) == kept.size
            }
            learn(models, replace(updates, **rows))

    return learn_some


def accuracy_without(job: tuple[str, str, str, int]) -> float:
    """Return the accuracy of honest clients if some answers are left out."""
    left_out, scenario, spoil, seed = job
    liars = draw_liars(tuple(range(60)), SHARE if spoil != "none" else 0.0, seed=seed)
    with patch.object(ClusterModels, "learn", learn_without(left_out, liars)):
        return accuracy_of(("digits", scenario, "", "mean", spoil, 3.0, seed))


def interval(differences: list[float]) -> str:
    """Return mean and 95 % interval of paired differences, in points."""
    half = T_975[len(differences)] * stdev(differences) / len(differences) ** 0.5
    return f"{100 * mean(differences):+.2f} +- {100 * half:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=21)
    parser.add_argument("--factors", type=float, nargs="+", default=[1.0, 2.0, 3.0], help="times the usual length")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--direction", action="store_true", help="leave out clients whose updates point elsewhere")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    if options.direction:
        rows = [["answers", "places", "label buckets", "places, a fifth reversed"]]
        with ProcessPoolExecutor(options.jobs) as pool:
            clean = {
                scenario: list(pool.map(accuracy_without, [(DIRECTIONS[0], scenario, "none", seed) for seed in seeds]))
                for scenario in ("places", "label-buckets")
            }
            for left_out in DIRECTIONS:
                cells = []
                for scenario, spoil in (("places", "none"), ("label-buckets", "none"), ("places", "sign-flip")):
                    reached = pool.map(accuracy_without, [(left_out, scenario, spoil, seed) for seed in seeds])
                    cells.append(interval([one - other for one, other in zip(reached, clean[scenario], strict=True)]))
                rows.append([left_out, *cells])
        print_table("less accuracy than where nobody lies and all count, points", rows)
        return 0
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = [["data", "clip", "mean: difference", "auto: difference"]]
        for data, scenario in DATA:
            found = {
                (preset, clip): list(
                    pool.map(accuracy_of, [(data, scenario, preset, "mean", "none", clip, seed) for seed in seeds])
                )
                for preset, clip in product(("", "auto"), (0.0, *options.factors))
            }
            for clip in options.factors:
                cells = [
                    interval([one - other for one, other in zip(found[preset, clip], found[preset, 0.0], strict=True)])
                    for preset in ("", "auto")
                ]
                rows.append([f"{data}, {scenario}", f"{clip:g}", *cells])
            print(rows[-len(options.factors) :], file=sys.stderr, flush=True)
        print_table("honest runs, points", rows)
        rows = [
            [
                "aggregation",
                *(f"{spoil}, clip {clip:g}" for spoil in ("none", *SPOILS) for clip in (0.0, *options.factors)),
            ]
        ]
        for name in AGGREGATORS:
            jobs = [
                ("digits", "places", "", name, spoil, clip, seed)
                for spoil in ("none", *SPOILS)
                for clip in (0.0, *options.factors)
                for seed in seeds
            ]
            scores = list(pool.map(accuracy_of, jobs))
            n = len(seeds)
            rows.append([name, *(f"{100 * mean(scores[at : at + n]):.1f}" for at in range(0, len(scores), n))])
        print_table("a fifth spoils its updates: accuracy of honest clients, percent", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
