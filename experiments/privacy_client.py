"""See what client-level privacy costs: groups by noised sums beside private reports, exact ones and one model.

    python -m experiments.privacy_client runs [--data fashion_mnist] [--clients 1000] [--seeds 3] [--rounds 120]
    python -m experiments.privacy_client groups [--seeds 6]

``runs`` trains: accuracy on the window and on what comes next, and the number of clusters at the end. ``groups`` only
groups clients with 62 labels and 100 samples each, of five well-separated kinds, by all sums of a run of 120 rounds;
and by one step of k-means from the true centers, for the noise of QUALITY.md C2. Data come from FIELDING_DATA.
"""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.tables import Table, markdown
from fielding._typing import Counts, Json, Matrix, Membership
from fielding.client.privacy.gaussian import DiscreteGaussian, epsilon_of_rho
from fielding.client.privacy.geometric import repeatable_words
from fielding.client.privacy.ledger import PrivacyLedger
from fielding.client.privacy.sums import (
    GRID,
    Asked,
    SumRule,
    SumSchedule,
    choose_clusters,
    parts_of,
    read_step,
)
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.policy import Policy
from fielding.federation.evaluation import adjusted_rand_index
from fielding.federation.noised_sums import NoisedSums
from fielding.methods.method import MethodSetting, Parts
from fielding.methods.private_fielding import PrivateFielding, project
from fielding.simulation.experiment import run

MODES: tuple[tuple[str, float], ...] = (
    ("exact", 0.0),
    ("global", 0.0),
    *(("client", epsilon) for epsilon in (8.0, 4.0, 2.0, 1.0)),
    *(("record", epsilon) for epsilon in (8.0, 4.0, 2.0, 1.0)),
)
N_LABELS, N_KINDS, N_SAMPLES = 62, 5, 100


def config_of(data: str, mode: str, epsilon: float, *, clients: int, seed: int, rounds: int) -> Table:
    """Return the config of a run."""
    private: dict[str, Json] = {"privacy": {"mode": mode, "epsilon": epsilon}} if epsilon else {}
    return {
        "seed": seed,
        "rounds": rounds,
        "workers": 1,
        "trace": {"name": data, "scenario": "places", "clients": clients, "samples": 20, "gap": 10, "window": 50},
        "model": {"hidden": 32},
        "training": {"participants": 20, "local_steps": 10, "learning_rate": 0.1},
        "method": {"name": "global" if mode == "global" else "fielding"},
        "evaluation": {"every": 5, "clients": 300},
        **private,
    }


def measure(data: str, mode: str, epsilon: float, *, clients: int, seed: int, rounds: int) -> dict[str, float]:
    """Return the figures of one run."""
    with tempfile.TemporaryDirectory() as name:
        config = config_of(data, mode, epsilon, clients=clients, seed=seed, rounds=rounds)
        result = run(config, Path(name) / "run", page=False)
    assert result.summary is not None
    return {
        "window": float(str(result.summary["final_accuracy"])),
        "next": float(str(result.summary["final_next_accuracy"])),
        "clusters": float(str(result.summary["n_clusters_last"])),
    }


def compare_runs(data: str, *, clients: int, seeds: int, rounds: int) -> None:
    """Train in all modes, seed by seed, and print a table after each."""
    found: dict[tuple[str, float], list[dict[str, float]]] = {mode: [] for mode in MODES}
    for seed in range(1, seeds + 1):
        for mode, epsilon in MODES:
            found[mode, epsilon].append(measure(data, mode, epsilon, clients=clients, seed=seed, rounds=rounds))
            print(seed, mode, epsilon, found[mode, epsilon][-1], flush=True)
        rows = [("mode", "epsilon", "clusters", "window", "next")]
        for (mode, epsilon), runs in found.items():
            accuracy = [100 * one["window"] for one in runs]
            spread = f" ± {statistics.stdev(accuracy):.1f}" if len(accuracy) > 1 else ""
            rows.append(
                (
                    mode,
                    f"{epsilon:g}" if epsilon else "",
                    f"{statistics.mean(one['clusters'] for one in runs):.1f}",
                    f"{statistics.mean(accuracy):.1f}{spread}",
                    f"{100 * statistics.mean(one['next'] for one in runs):.1f}",
                )
            )
        print(markdown(rows), flush=True)


class Answering:
    """Clients with these label counts that answer sums."""

    def __init__(self, counts: Counts, rule: SumRule, seed: int) -> None:
        self.counts, self.round_index = counts, 0
        ledger = PrivacyLedger(None, rule)
        self._sums = NoisedSums(rule, ledger, lambda at: repeatable_words(np.random.default_rng([seed, at])))

    def noised_sum(self, asked: Asked, candidates: tuple[Matrix, ...]) -> Counts | None:
        """Return a sum with noise."""
        if not self._sums.grant(self.round_index):
            return None
        return self._sums.noised(parts_of(asked, self.counts, candidates).sum(axis=0), self.round_index)

    def choose(self, clients: Counts, centers: Matrix) -> Membership:
        """Return the nearest center of clients."""
        return choose_clusters(self.counts[clients], centers)


def population(n_clients: int, seed: int) -> tuple[Counts, Counts, Matrix]:
    """Return label counts of clients, the kind of each, and the shares of the kinds."""
    rng = np.random.default_rng(seed)
    kinds = rng.dirichlet(np.full(N_LABELS, 0.1), N_KINDS)
    kind = rng.integers(N_KINDS, size=n_clients)
    return rng.multinomial(N_SAMPLES, kinds[kind]), kind, kinds


def group_by_run(n_clients: int, epsilon: float, seed: int) -> float:
    """Return the adjusted Rand index of the groups at the end of a run whose sums tell epsilon in all."""
    counts, kind, _ = population(n_clients, seed)
    schedule = SumSchedule(rounds=120, gap=10, window=50, chooses_k=True)
    rule = SumRule(epsilon=epsilon, delta=1e-5, releases=schedule.n_releases)
    setting = MethodSetting(
        initial=np.zeros(1, dtype=np.float32),
        client_ids=range(n_clients),
        policy=Policy(clusterer=Clusterer(k_max=8)),
        parts=Parts(participants=20, n_classes=N_LABELS),
        seed=seed,
    )
    method, clients = PrivateFielding(setting, rule=rule, schedule=schedule), Answering(counts, rule, seed)
    for clients.round_index in range(schedule.rounds):
        method.follow(clients)
    return adjusted_rand_index(kind, method.membership())


def group_by_step(n_clients: int, sigma: float, seed: int) -> float:
    """Return the adjusted Rand index after one step from the true centers, with a noise of sigma."""
    counts, kind, kinds = population(n_clients, seed)
    total = parts_of("step", counts, (kinds,)).sum(axis=0)
    noise = DiscreteGaussian(sigma=round(sigma * GRID))
    noised = total + noise.draw(total.size, repeatable_words(np.random.default_rng([seed, 1])))
    sums = read_step(noised, N_KINDS, SumRule(epsilon=1.0, delta=1e-5, releases=1))  # its scale does not depend on them
    centers = project(sums.shares / np.maximum(sums.counts, 1.0)[:, np.newaxis])
    return adjusted_rand_index(kind, choose_clusters(counts, centers))


def compare_groups(seeds: int) -> None:
    """Group without training, and print two tables."""
    crowds = (300, 1000, 5000)
    rows: list[Sequence[str]] = [("noise of one step", "epsilon of it", *map(str, crowds))]
    for sigma in (1.0, 2.0, 4.0, 8.0, 16.0):
        found = [statistics.mean(group_by_step(n, sigma, seed) for seed in range(seeds)) for n in crowds]
        rows.append((f"{sigma:g}", f"{epsilon_of_rho(0.5 / sigma**2, 1e-5):.2f}", *(f"{one:.2f}" for one in found)))
    print(markdown(rows), flush=True)
    rows = [("epsilon of a run", *map(str, crowds))]
    for epsilon in (8.0, 4.0, 2.0, 1.0):
        found = [statistics.mean(group_by_run(n, epsilon, seed) for seed in range(seeds)) for n in crowds]
        rows.append((f"{epsilon:g}", *(f"{one:.2f}" for one in found)))
    print(markdown(rows), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("runs", "groups"))
    parser.add_argument("--data", default="fashion_mnist")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=120)
    given = parser.parse_args(arguments)
    if given.what == "groups":
        compare_groups(given.seeds)
    else:
        compare_runs(given.data, clients=given.clients, seeds=given.seeds, rounds=given.rounds)


if __name__ == "__main__":
    main()
