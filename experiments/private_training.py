"""See what private training costs: one global model on Fashion-MNIST in places, with DP-SGD and with DP-FedAvg.

    python -m experiments.private_training sample [--seeds 3] [--kept found.jsonl]
    python -m experiments.private_training client [--seeds 3]

Data come from FIELDING_DATA. Prints a table; runs that a file of --kept holds are not run again.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from experiments.tables import Table, markdown
from fielding.config.reader import config_from
from fielding.engine.plugins import private_training_of
from fielding.simulation.experiment import run

EPSILONS = (None, 8.0, 4.0, 2.0, 1.0)
N_CLIENTS = {"sample": 100, "client": 500}


def config_of(training: str, epsilon: float | None, seed: int, rounds: int = 100) -> Table:
    """Return the config of a run; clip and rates were set before any run."""
    private: Table = {}
    if epsilon is not None:
        private = {"training": training, "training_epsilon": epsilon}
    if epsilon is not None and training == "sample":  # with 20 of 100 clients in a round a client trains 10 times
        private["trainings_per_window"] = 12
    return {
        "seed": seed,
        "rounds": rounds,
        "workers": 1,
        "trace": {
            **{"name": "fashion_mnist", "scenario": "places", "clients": N_CLIENTS[training]},
            **{"samples": 40, "gap": 10, "window": 50},
        },
        "model": {"name": "softmax"},
        "training": {
            "participants": N_CLIENTS[training] // (5 if training == "sample" else 10),
            "local_steps": 10,
            "learning_rate": 0.5 if private and training == "sample" else 0.1,
        },
        "method": {"name": "global"},
        "evaluation": {"every": 10, "clients": 100},
        "privacy": private,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all epsilons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("training", choices=N_CLIENTS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--kept", type=Path)
    given = parser.parse_args(arguments)
    kept: dict[str, list[float]] = {}
    if given.kept is not None and given.kept.exists():
        kept = dict(json.loads(line) for line in given.kept.read_text(encoding="utf-8").splitlines())
    rows = [("epsilon", "noise multiplier", "window", "next")]
    for epsilon in EPSILONS:
        found = []
        for seed in range(1, given.seeds + 1):
            config, name = config_of(given.training, epsilon, seed, given.rounds), f"{given.training} {epsilon} {seed}"
            if name not in kept:
                summary = run(config, page=False).summary
                assert summary is not None
                kept[name] = [float(str(summary[one])) for one in ("final_accuracy", "final_next_accuracy")]
                if given.kept is not None:
                    with given.kept.open("a", encoding="utf-8") as file:
                        file.write(f"{json.dumps([name, kept[name]])}\n")
            found.append(kept[name])
        private = private_training_of(config_from(config))
        window, following = zip(*found, strict=True)
        spread = statistics.stdev(window) if len(window) > 1 else 0.0
        rows.append(
            (
                "none" if epsilon is None else f"{epsilon:g}",
                "" if private is None else f"{private.noise:.2f}",
                f"{100 * statistics.mean(window):.1f} ± {100 * spread:.1f}",
                f"{100 * statistics.mean(following):.1f}",
            )
        )
    print(markdown(rows))


if __name__ == "__main__":
    main()
