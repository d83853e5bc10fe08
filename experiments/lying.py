"""Clients that lie about their data: what becomes of the others' clusters and accuracy, by kind of lie and by metric.

    python experiments/lying.py [--seeds 3] [--participants 20] [--jobs 2] [--quick]

Fielding on digits whose clients move between four places; some clients report lies and train honestly. Everything is
measured on the clients that do not lie: how well their clusters agree with their places (adjusted Rand index, mean over
the evaluations of the second half), their accuracy at the end, and how often everyone was grouped anew. There are never
more clusters than a quarter of the participants: with 20 of them, liars and honest clients share five. Prints a table
for each metric, with the accuracy of one global model, which hears no lies; the same seeds give the same tables.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean

import numpy as np

from fielding import run
from fielding._typing import Codes, Json
from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.federation.evaluation import adjusted_rand_index
from fielding.records.run_folder import CLIENTS
from fielding.simulation.attacks import LIES, draw_liars
from fielding.traces.sliding import SlidingWindows
from fielding.traces.sources import deal_samples

METRICS = ("l1", "hellinger")
SHARES = (0.1, 0.2, 0.3)
N_ROUNDS, QUICK_ROUNDS = 100, 20
PARTICIPANTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run: the method, who lies how, and how the coordinator measures distances."""

    method: str = "fielding"
    kind: str = "permute"
    share: float = 0.0
    metric: str = "l1"
    seed: int = 1
    rounds: int = N_ROUNDS
    participants: int = PARTICIPANTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run came to, for its honest clients."""

    case: Case
    ari: float
    accuracy: float
    n_reclusterings: int


def config_of(case: Case) -> Config:
    """Return the config of a run; that of an honest one has no key about lies."""
    lies: dict[str, Json] = {"liars": case.share, "lie": case.kind} if case.share else {}
    places: dict[str, Json] = {"name": "digits", "scenario": "places", "clients": 100, "samples": 50}
    return config_from(
        {
            "preset": "paper",
            "seed": case.seed,
            "rounds": case.rounds,
            "workers": 1,
            "trace": {**places, "gap": 10, "window": 10, **lies},
            "method": {"name": case.method},
            "training": {"participants": case.participants},
            "coordinator": {"metric": case.metric},
            "evaluation": {"every": 5},
        }
    )


def run_case(case: Case) -> Outcome:
    """Run one case and measure its honest clients."""
    config = config_of(case)
    with tempfile.TemporaryDirectory(prefix="lying-") as folder:
        result = run(config, Path(folder) / "run", page=False)
        tests = [json.loads(line) for line in (Path(folder) / "run" / CLIENTS).read_text().splitlines()]
    dealt = deal_samples(config.trace, rounds=config.rounds, seed=config.seed)
    windows = SlidingWindows(dealt.pool, dealt.schedule, dealt.plan)
    liars = draw_liars(dealt.schedule.client_ids, case.share, seed=case.seed)
    late = [test for test in tests if test["round"] >= config.rounds // 2]
    return Outcome(
        case=case,
        ari=mean(honest_ari(test, windows.concepts(test["round"]), ~liars) for test in late),
        accuracy=mean(honest_accuracy(test, ~liars) for test in late[-5:]),
        n_reclusterings=sum(bool(row["reclustered"]) for row in result.rounds),
    )


def honest_ari(test: dict[str, list[int]], places: Codes | None, honest: np.ndarray) -> float:
    """Return how well the clusters of honest clients agree with where they are; the ids of places are 0, 1, ..."""
    if places is None:
        raise ValueError("nobody knows the true groups of these data")
    clients, clusters = np.array(test["client"]), np.array(test["cluster"])
    kept = honest[clients]
    return adjusted_rand_index(clusters[kept], places[clients[kept]])


def honest_accuracy(test: dict[str, list[int]], honest: np.ndarray) -> float:
    """Return the mean over honest clients of the share of their test samples that are right."""
    kept = honest[np.array(test["client"])]
    return float((np.array(test["correct"])[kept] / np.array(test["n_test"])[kept]).mean())


def cases(seeds: int, participants: int, *, quick: bool) -> list[Case]:
    """Return all runs; quick: one seed, one share, few rounds."""
    shares, rounds = ((0.2,), QUICK_ROUNDS) if quick else (SHARES, N_ROUNDS)
    honest = [Case(method="global"), *(Case(metric=metric) for metric in METRICS)]
    lying = [Case(kind=kind, share=share, metric=one) for kind, share, one in product(LIES, shares, METRICS)]
    return [
        replace(case, seed=seed, rounds=rounds, participants=participants)
        for case, seed in product([*honest, *lying], range(1, 2 if quick else 1 + seeds))
    ]


def table(outcomes: Sequence[Outcome], metric: str) -> list[list[str]]:
    """Return the rows of a metric: one per lie, with the figures of every share beside each other."""
    shares = sorted({one.case.share for one in outcomes} - {0.0})
    rows = [["lie", *(f"{what}, {share:.0%}" for what in ("ARI", "accuracy", "re-clusterings") for share in shares)]]
    for kind in LIES:
        by_share = [figures(outcomes, Case(kind=kind, share=share, metric=metric)) for share in shares]
        rows.append([kind, *(cells[at] for at in range(3) for cells in by_share)])
    honest, single = figures(outcomes, Case(metric=metric)), figures(outcomes, Case(method="global"))
    rows.append(["none", *(cell for cell in honest for _ in shares)])
    rows.append(["global model", *(cell for cell in ("-", single[1], "-") for _ in shares)])
    return rows


def figures(outcomes: Sequence[Outcome], like: Case) -> tuple[str, str, str]:
    """Return the means over the seeds of a case; the agreement with its lowest."""
    mine = [
        one
        for one in outcomes
        if replace(like, seed=one.case.seed, rounds=one.case.rounds, participants=one.case.participants) == one.case
    ]
    lowest = min(one.ari for one in mine)
    return (
        f"{mean(one.ari for one in mine):.2f} ({lowest:.2f})",
        f"{mean(one.accuracy for one in mine):.3f}",
        f"{mean(one.n_reclusterings for one in mine):.1f}",
    )


def print_table(title: str, rows: Sequence[Sequence[str]]) -> None:
    print(f"\n### {title}\n")
    for at, row in enumerate(rows):
        print(f"| {' | '.join(row)} |")
        if at == 0:
            print(f"|{'---|' * len(row)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--participants", type=int, default=PARTICIPANTS, help="a round; four for each cluster")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--quick", action="store_true", help="a look whether it works: one seed, one share, 20 rounds")
    options = parser.parse_args()
    chosen = cases(options.seeds, options.participants, quick=options.quick)
    with ProcessPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(run_case, chosen))
    n_seeds = len({case.seed for case in chosen})
    for metric in METRICS:
        print_table(f"{metric}: honest clients, mean (lowest) over {n_seeds} seeds", table(outcomes, metric))
    return 0


if __name__ == "__main__":
    sys.exit(main())
