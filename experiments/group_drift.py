"""See how soon the drift of a whole group is heard of when few clients are on-line and few of these are asked.

    python -m experiments.group_drift [--clients 10000] [--seed 1]

Digits dealt to many clients, each of which can be reached a twentieth of the time, at its own hour. Halfway a new label
appears for 2 % of them at once. Per budget: rounds until the first of them is heard, half and nine in ten of them, and
what docs/scaling.md expects. Data come from FIELDING_DATA. Prints a table.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from experiments.tables import Table, markdown
from fielding.records.logs import read_lines
from fielding.records.run_folder import CONCEPTS, EVENTS, ROUNDS
from fielding.simulation.experiment import run

BUDGETS = (1000, 300, 100, 30)
HEAD = (
    *("budget", "heard of the group", "turn", "first (expected)", "acted on", "half (expected)"),
    "9 in 10 (expected)",
)
PARTICIPANTS, ONLINE, SHARE = 10, 0.05, 0.02


def config_of(budget: int, n_clients: int, availability: Path, n_rounds: int, seed: int) -> Table:
    """Return the config of a run whose group drifts after half of its rounds; data come twice."""
    gap = n_rounds // 2
    return {
        "seed": seed,
        "rounds": n_rounds,
        "trace": {
            "clients": n_clients, "scenario": "new-label", "at": 1, "share": SHARE, "intensity": 1.0,
            "samples": 20, "gap": gap, "window": gap,
        },
        "training": {"participants": PARTICIPANTS, "local_steps": 1, "batch_size": 10},
        "model": {"name": "softmax"},
        "coordinator": {"reports": "with-training"},
        "reports": {"budget": budget},
        "clock": {"availability": str(availability)},
        "evaluation": {"every": n_rounds, "clients": 100},
        "checkpoint": {"every": n_rounds},
    }  # fmt: skip


def write_availability(path: Path, n_clients: int, period_s: float, seed: int) -> None:
    """Let every client be there for a twentieth of a period, at an hour of its own."""
    starts = np.random.default_rng(seed).uniform(0.0, period_s, n_clients)
    rows = ["client,start_s,stop_s,finish_s"]
    for client, start in enumerate(starts.tolist()):
        stop = start + ONLINE * period_s
        pieces = [(start, min(stop, period_s)), *([(0.0, stop - period_s)] if stop > period_s else [])]
        rows += [f"{client},{first:.3f},{last:.3f},{period_s:.3f}" for first, last in sorted(pieces)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def measure(budget: int, n_clients: int, seed: int) -> list[str]:
    """Return the row of a budget."""
    turn = n_clients / (budget + PARTICIPANTS)
    n_rounds = 2 * max(60, int(3.0 * turn))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        probe = folder / "probe"  # how long a round is
        config = config_of(budget, n_clients, folder / "none", 4, seed)
        run({**config, "clock": {}}, probe, page=False)
        round_s = [float(str(row["time_s"])) for row in read_lines(probe / ROUNDS)][-1] / 4
        period_s = 25.0 * round_s
        write_availability(folder / "there.csv", n_clients, period_s, seed)
        run(config_of(budget, n_clients, folder / "there.csv", n_rounds, seed), folder / "run", page=False)
        lasts_s = [float(str(row["time_s"])) for row in read_lines(folder / "run" / ROUNDS)][-1]
        turn = max(turn, period_s * n_rounds / lasts_s)  # no client is asked more often than it is there
        lines = list(read_lines(folder / "run" / CONCEPTS))
        (drifted,) = lines[1:]
        at, group = int(str(drifted["round"])), {pair[0] for pair in drifted["changed"]}  # type: ignore[union-attr, index]
        heard: dict[object, int] = {}
        acted: int | None = None  # when clusters were made anew first, or a client of the group moved
        for line in read_lines(folder / "run" / EVENTS):
            since = int(str(line["round"])) - at
            for client in line["reported"] if since > 0 else []:  # type: ignore[union-attr]
                heard.setdefault(client, since)
            moved = set(line["moved"]) & group if since > 0 else set()  # type: ignore[arg-type]
            if acted is None and since > 0 and (line["fired"] or moved):
                acted = since
    delays = sorted(heard[client] for client in group if client in heard)
    found = [delays[0], *(delays[min(len(delays) - 1, int(share * len(group)))] for share in (0.5, 0.9))]
    expected = [1 + turn / len(group), 1 + turn / 2, 1 + 0.9 * turn]
    told = [f"{one} ({other:.1f})" for one, other in zip(found, expected, strict=True)]
    return [str(budget), f"{len(delays)} of {len(group)}", f"{turn:.0f}", told[0], str(acted), *told[1:]]


def main() -> None:
    """Measure all budgets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(markdown([HEAD, *(measure(budget, given.clients, given.seed) for budget in BUDGETS)]))


if __name__ == "__main__":
    main()
