"""Clients that lie about their data: what becomes of the others' clusters and accuracy, by kind of lie and by metric.

    python experiments/lying.py [--seeds 3] [--participants 20] [--robust] [--alpha 5] [--jobs 2] [--quick]
    python experiments/lying.py --matrix [--seeds 2] [--first-seed 1] [--jobs 2]
    python experiments/lying.py --auto --alpha 5 [--seeds 1] [--first-seed 12] [--shares 0.03 0.2] [--jobs 2]

Fielding on digits whose clients move between four places; some clients report lies and train honestly. Everything is
measured on the clients that do not lie: how well their clusters agree with their places (adjusted Rand index, mean over
the evaluations of the second half), their accuracy at the end, and how often everyone was grouped anew. There are never
more clusters than a quarter of the participants: with 20 of them, liars and honest clients share five. Prints a table
for each metric, with the accuracy of one global model, which hears no lies; the same seeds give the same tables.

``--matrix`` trains nothing: reports go straight to the coordinator, up to ten clusters, by the published rules and with
``coordinator.robust``, for every lie, share and metric, and for places that lie far apart, near and nearer (alpha 0.5,
5, 20; 300 samples of each client every 20 rounds, of which a fifth moves).

``--auto``: whole runs of ``preset = "auto"``, 60 clients, 24 participants, 40 rounds, with the worst lies: agreement,
share of honest clients in a cluster where most honest ones are from their place, and what honest clients are served.
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
from fielding.client.drift.label_tests import AnyChange
from fielding.client.report import ReportBatch
from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.coordinator.coordinator import Coordinator
from fielding.engine.plugins import policy_of
from fielding.federation.evaluation import adjusted_rand_index
from fielding.records.run_folder import CLIENTS
from fielding.runtime.observe import LabelObserver, Observer
from fielding.simulation.attacks import LIES, Lie, LyingObserver, draw_liars
from fielding.traces.sliding import SlidingWindows
from fielding.traces.sources import deal_samples

METRICS = ("l1", "hellinger")
SHARES = (0.1, 0.2, 0.3)
N_ROUNDS, QUICK_ROUNDS = 100, 20
PARTICIPANTS = 20
MATRIX_METRICS, ALPHAS = ("l1", "hellinger", "l2"), (5.0, 20.0, 0.5)
AUTO_LIES = ("collude", "one-hot", "permute")
MATRIX_SHARES = (0.03, 0.05, 0.1, 0.2, 0.3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run: the method, who lies how, and how the coordinator measures distances.

    ``alpha``: how close places lie, with 300 samples of each client every 20 rounds, of which a fifth moves; None for
    few samples, and places far apart.
    """

    method: str = "fielding"
    kind: str = "permute"
    share: float = 0.0
    metric: str = "l1"
    seed: int = 1
    rounds: int = N_ROUNDS
    participants: int = PARTICIPANTS
    robust: bool = False
    alpha: float | None = None
    clients: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run came to, for its honest clients; ``accuracy``: as they are served, where there are experts."""

    case: Case
    ari: float
    among_own: float
    accuracy: float
    n_reclusterings: int


def config_of(case: Case) -> Config:
    """Return the config of a run; that of an honest one has no key about lies."""
    lies: dict[str, Json] = {"liars": case.share, "lie": case.kind} if case.share else {}
    places: dict[str, Json] = {"name": "digits", "scenario": "places", "clients": case.clients}
    if case.alpha is None:
        places |= {"samples": 50, "gap": 10, "window": 10}
    else:
        places |= {"samples": 300, "gap": 20, "window": 20, "alpha": case.alpha, "share": 0.2}
    table: dict[str, Json] = {
        "seed": case.seed,
        "rounds": case.rounds,
        "workers": 1,
        "trace": {**places, **lies},
        "training": {"participants": case.participants},
        "evaluation": {"every": 5},
    }
    if case.method == "auto":
        return config_from({**table, "preset": "auto"})
    rules: dict[str, Json] = {"metric": case.metric, "robust": case.robust}
    return config_from({**table, "preset": "paper", "method": {"name": case.method}, "coordinator": rules})


def report_only(config: Config) -> tuple[float, int]:
    """Return the agreement of honest clients, mean over events, and how often all were grouped anew; nobody trains."""
    section, seed = config.trace, config.seed
    dealt = deal_samples(section, rounds=config.rounds, seed=seed)
    windows = SlidingWindows(dealt.pool, dealt.schedule, dealt.plan)
    observer: Observer = LabelObserver(windows, AnyChange())
    if section.liars:
        observer = LyingObserver(observer, windows, lie=Lie(kind=section.lie, share=section.liars), seed=seed)
    honest = ~draw_liars(dealt.schedule.client_ids, section.liars, seed=seed)
    coordinator = Coordinator(policy_of(config, kind="histogram", metric=str(config.coordinator.metric)))
    agreement, n_reclusterings = [], 0
    for number in range(config.rounds):
        reports = observer.observe(number)
        if not len(reports):
            continue
        batch = ReportBatch(
            client_ids=reports.clients.tolist(), representations=reports.representations, n_samples=reports.n_samples
        )
        n_reclusterings += coordinator.update(batch, number).reclustered
        places = windows.concepts(number)
        if places is None:
            raise ValueError("nobody knows the true groups of these data")
        clients = np.array(coordinator.registry.client_ids)
        kept = honest[clients]
        agreement.append(adjusted_rand_index(coordinator.cluster_ids()[kept], places[clients[kept]]))
    return mean(agreement), n_reclusterings


def matrix_cell(job: tuple[str, float, str, float, int]) -> tuple[float, float]:
    """Return the honest agreement of one cell and seed, by the published rules and by the robust ones."""
    metric, alpha, kind, share, seed = job
    case = Case(metric=metric, kind=kind, share=share, seed=seed, participants=40, alpha=alpha)
    published, robust = (report_only(config_of(replace(case, robust=one)))[0] for one in (False, True))
    return published, robust


def print_matrix(n_seeds: int, first: int, jobs: int) -> None:
    seeds = range(first, first + n_seeds)
    cells = [("none", 0.0), *product(LIES, MATRIX_SHARES)]
    with ProcessPoolExecutor(jobs) as pool:
        for alpha, metric in product(ALPHAS, MATRIX_METRICS):
            keys = [(metric, alpha, "permute" if kind == "none" else kind, share) for kind, share in cells]
            found = list(pool.map(matrix_cell, [(*key, seed) for key in keys for seed in seeds]))
            shown = [
                " -> ".join(f"{mean(one[side] for one in found[at : at + n_seeds]):.2f}" for side in (0, 1))
                for at in range(0, len(found), n_seeds)
            ]
            rows = [["lie", *(f"{share:.0%}" for share in MATRIX_SHARES)], ["none", *[shown[0]] * len(MATRIX_SHARES)]]
            for at, kind in enumerate(LIES):
                start = 1 + at * len(MATRIX_SHARES)
                rows.append([kind, *shown[start : start + len(MATRIX_SHARES)]])
            lowest = min(one[1] for one in found)
            print_table(f"{metric}, alpha {alpha:g}: published -> robust, lowest robust run {lowest:.2f}", rows)
            sys.stdout.flush()


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
        among_own=mean(honest_share(test, windows.concepts(test["round"]), ~liars) for test in late),
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


def honest_share(test: dict[str, list[int]], places: Codes | None, honest: np.ndarray) -> float:
    """Return the share of honest clients in whose clusters most honest ones are where they are."""
    if places is None:
        raise ValueError("nobody knows the true groups of these data")
    clients, clusters = np.array(test["client"]), np.array(test["cluster"])
    kept = honest[clients]
    n_own = sum(np.bincount(places[clients[kept & (clusters == one)]]).max() for one in np.unique(clusters[kept]))
    return float(n_own / kept.sum())


def honest_accuracy(test: dict[str, list[int]], honest: np.ndarray) -> float:
    """Return the mean over honest clients of the share of their test samples that are right, as they are served."""
    kept = honest[np.array(test["client"])] & (np.array(test["n_test"]) > 0)
    return float((np.array(test.get("served", test["correct"]))[kept] / np.array(test["n_test"])[kept]).mean())


def cases(
    seeds: int,
    participants: int,
    *,
    quick: bool,
    robust: bool = False,
    alpha: float | None = None,
    shares: Sequence[float] = SHARES,
    first_seed: int = 1,
) -> list[Case]:
    """Return all runs; quick: one seed, one share, few rounds."""
    shares, rounds = ((0.2,), QUICK_ROUNDS) if quick else (shares, N_ROUNDS)
    honest = [Case(method="global"), *(Case(metric=metric) for metric in METRICS)]
    lying = [Case(kind=kind, share=share, metric=one) for kind, share, one in product(LIES, shares, METRICS)]
    return [
        replace(case, seed=seed, rounds=rounds, participants=participants, robust=robust, alpha=alpha)
        for case, seed in product([*honest, *lying], range(first_seed, first_seed + (1 if quick else seeds)))
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
        if replace(one.case, **{name: getattr(like, name) for name in ("method", "kind", "share", "metric")})
        == one.case
    ]
    lowest = min(one.ari for one in mine)
    return (
        f"{mean(one.ari for one in mine):.2f} ({lowest:.2f})",
        f"{mean(one.accuracy for one in mine):.3f}",
        f"{mean(one.n_reclusterings for one in mine):.1f}",
    )


def print_auto(cases: Sequence[Case], shares: Sequence[float], jobs: int) -> None:
    with ProcessPoolExecutor(jobs) as pool:
        outcomes = list(pool.map(run_case, cases))

    def cell(method: str, kind: str, share: float) -> str:
        wanted = (method, kind, share)
        mine = [one for one in outcomes if (one.case.method, one.case.kind, one.case.share) == wanted]
        return ", ".join(f"{mean(getattr(one, name) for one in mine):.3f}" for name in ("ari", "among_own", "accuracy"))

    rows = [["liars report", *(f"{share:.0%}" for share in shares)]]
    rows += [[kind, *(cell("auto", kind, share) for share in shares)] for kind in AUTO_LIES]
    print_table("auto: honest clients, agreement, share among their own, accuracy as served", rows)
    print(f"\nWithout liars {cell('auto', 'permute', 0.0)}; one model {cell('global', 'permute', 0.0)}.")


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
    parser.add_argument("--robust", action="store_true", help="with coordinator.robust, which the preset leaves out")
    parser.add_argument("--alpha", type=float, help="how close places lie, such as 5; by default far apart")
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES, help="of clients that lie")
    parser.add_argument("--matrix", action="store_true", help="no training: every lie, share, metric and distance")
    parser.add_argument("--auto", action="store_true", help="whole runs of auto, with the worst lies")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a look whether it works: one seed, one share, 20 rounds")
    options = parser.parse_args()
    if options.matrix:
        print_matrix(options.seeds, options.first_seed, options.jobs)
        return 0
    if options.auto:
        kinds = [("auto", kind, share) for kind, share in product(AUTO_LIES, options.shares)]
        one = Case(rounds=QUICK_ROUNDS if options.quick else 40, participants=24, clients=60, alpha=options.alpha)
        chosen = [
            replace(one, method=method, kind=kind, share=share, seed=seed)
            for method, kind, share in [("auto", "permute", 0.0), ("global", "permute", 0.0), *kinds]
            for seed in range(options.first_seed, options.first_seed + options.seeds)
        ]
        print_auto(chosen, options.shares, options.jobs)
        return 0
    chosen = cases(
        options.seeds,
        options.participants,
        quick=options.quick,
        robust=options.robust,
        alpha=options.alpha,
        shares=options.shares,
        first_seed=options.first_seed,
    )
    with ProcessPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(run_case, chosen))
    n_seeds = len({case.seed for case in chosen})
    for metric in METRICS:
        print_table(f"{metric}: honest clients, mean (lowest) over {n_seeds} seeds", table(outcomes, metric))
    return 0


if __name__ == "__main__":
    sys.exit(main())
