"""See what a budget of questions costs: detection delay and accuracy when only some clients are asked what is new.

    python -m experiments.report_budget [--seeds 3] [--svg docs/assets/report-budget.svg]

Digits dealt to 100 clients that move between places; 5 train in a round, and of the others all are asked what is new,
or 40, 20, 10 or 5. Reports travel with training in every case, as on Flower. The delay is counted from the round in
which a client's concept changes to that in which a report of it acts, if one does before the next change. Data come
from FIELDING_DATA. Prints a table, and writes a chart if one is asked for.
"""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from experiments.tables import Table, markdown
from fielding._typing import Json
from fielding.records.logs import read_lines
from fielding.records.run_folder import CONCEPTS, EVENTS
from fielding.simulation.experiment import run

BUDGETS: tuple[Json, ...] = ("all", 40, 20, 10, 5)
HEAD = ("budget", "heard within (rounds)", "mean delay (rounds)", "90 % within", "drifts heard of", "final accuracy")
N_CLIENTS, GAP, N_ROUNDS = 100, 20, 200
COLORS = ("#2a6fb0", "#c2571a")


def config_of(budget: Json, seed: int) -> Table:
    """Return the config of a run."""
    return {
        "seed": seed,
        "rounds": N_ROUNDS,
        "trace": {"clients": N_CLIENTS, "scenario": "places", "samples": 40, "gap": GAP, "window": 2 * GAP},
        "training": {"participants": 5},
        "coordinator": {"reports": "with-training", "participants_per_cluster": 1, "k_max": 4},
        "reports": {"budget": budget},
        "evaluation": {"every": 5},
    }


def delays_of(folder: Path) -> tuple[list[int], int]:
    """Return after how many rounds a report acted on each drift that was heard of, and how many drifts there were."""
    changed: dict[Json, list[int]] = {}
    for line in list(read_lines(folder / CONCEPTS))[1:]:  # the first one tells where clients are at the start
        pairs = line["changed"]
        assert isinstance(pairs, list)
        for pair in pairs:
            assert isinstance(pair, list)
            changed.setdefault(pair[0], []).append(int(str(line["round"])))
    reported: dict[Json, list[int]] = {}
    for line in read_lines(folder / EVENTS):
        names = line["reported"]
        assert isinstance(names, list)
        for name in names:
            reported.setdefault(name, []).append(int(str(line["round"])))
    delays: list[int] = []
    for client, rounds in changed.items():
        for at, until in zip(rounds, [*rounds[1:], N_ROUNDS], strict=True):
            heard = [one for one in reported.get(client, []) if at < one <= until]
            delays += [heard[0] - at] if heard else []
    return delays, sum(len(rounds) for rounds in changed.values())


def measure(budget: Json, seeds: int) -> tuple[list[str], float, float]:
    """Return the row of a budget, its mean delay and its mean accuracy."""
    delays, n_drifts, accuracies = list[int](), 0, list[float]()
    for seed in range(1, seeds + 1):
        with tempfile.TemporaryDirectory() as folder:
            result = run(config_of(budget, seed), Path(folder) / "run", page=False)
            assert result.summary is not None
            accuracies.append(float(str(result.summary["final_accuracy"])))
            found, n_all = delays_of(Path(folder) / "run")
        delays += found
        n_drifts += n_all
    spread = statistics.stdev(accuracies) if seeds > 1 else 0.0
    delay, accuracy = statistics.mean(delays), statistics.mean(accuracies)
    row = [
        str(budget),
        "1" if budget == "all" else str(-(-2 * N_CLIENTS // int(str(budget)))),
        f"{delay:.1f}",
        str(sorted(delays)[int(0.9 * (len(delays) - 1))]),
        f"{len(delays) / n_drifts:.0%}",
        f"{100 * accuracy:.1f} ± {100 * spread:.1f}",
    ]
    return row, delay, accuracy


def chart(budgets: Sequence[Json], delays: Sequence[float], accuracies: Sequence[float]) -> str:
    """Return a chart of delay and accuracy, a panel each, over the budgets."""
    parts = []
    for panel, (title, values, color) in enumerate(
        (("mean delay (rounds)", delays, COLORS[0]), ("final accuracy", accuracies, COLORS[1]))
    ):
        left, low, high = 50 + 330 * panel, min(values), max(values)
        low, high = (0.0, high) if panel == 0 else (low - 0.02, high + 0.02)
        x = [left + 60 * at for at in range(len(values))]
        y = [200 - 150 * (value - low) / (high - low) for value in values]
        words = [f"{value:.1f}" if panel == 0 else f"{100 * value:.1f} %" for value in values]
        parts.append(f'<text x="{left}" y="25" font-weight="bold">{title}</text>')
        points = " ".join(f"{one:.1f},{other:.1f}" for one, other in zip(x, y, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        for one, other, word, budget in zip(x, y, words, budgets, strict=True):
            parts.append(f'<circle cx="{one}" cy="{other:.1f}" r="3.5" fill="{color}"/>')
            parts.append(f'<text x="{one}" y="{other - 9:.1f}" text-anchor="middle">{word}</text>')
            parts.append(f'<text x="{one}" y="225" text-anchor="middle">{budget}</text>')
        parts.append(f'<text x="{left + 120}" y="245" text-anchor="middle">budget</text>')
    body = "\n".join(parts)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 255" font-family="sans-serif" font-size="12" '
        'role="img" aria-label="Detection delay and accuracy against the budget of questions">\n'
        f'<rect width="700" height="255" fill="white"/>\n{body}\n</svg>\n'
    )


def main() -> None:
    """Measure all budgets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args()
    found = [measure(budget, given.seeds) for budget in BUDGETS]
    print(markdown([HEAD, *(row for row, _, _ in found)]))
    if given.svg is not None:
        delays, accuracies = [delay for _, delay, _ in found], [accuracy for _, _, accuracy in found]
        given.svg.write_text(chart(BUDGETS, delays, accuracies), encoding="utf-8")


if __name__ == "__main__":
    main()
