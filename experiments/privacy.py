"""See what private reports cost, and what an attacker still learns from them.

    python -m experiments.privacy zephyr [--seeds 3] [--svg docs/assets/privacy.svg]
    python -m experiments.privacy fashion_mnist [--seeds 3]

Fielding with exact reports, with none (one global model), and with privacy.mode = "record" for several epsilon and
reports per window m. The attacker sees the reports of a run: it guesses the label that a window holds most of, and
whether a window holds one sample of a label or none, by the reported share of that label (AUC, 0.5 is a guess). Data
come from FIELDING_DATA. Prints a table, and writes a chart of accuracy and AUC if one is asked for.
"""

import argparse
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments.tables import Table, markdown
from fielding._typing import Counts, Matrix
from fielding.config.reader import config_from
from fielding.records.run_folder import read_run_reports
from fielding.simulation.assembly import Own, assemble
from fielding.simulation.experiment import run
from fielding.traces.sliding import SlidingWindows

EXACT, GLOBAL = "exact", "global"
GRID: tuple[tuple[float | str, int], ...] = (
    (EXACT, 0),
    (GLOBAL, 0),
    *((epsilon, m) for m in (1, 2) for epsilon in (8.0, 4.0, 2.0, 1.0, 0.5)),
)
HEAD = ("epsilon", "m", "reports", "moves", "ARI", "window", "next", "top label", "rare label (AUC)")
DATA: Mapping[str, Table] = {
    "zephyr": {"name": "zephyr", "interval": "30d"},
    "fashion_mnist": {"name": "fashion_mnist", "scenario": "places", "clients": 100, "samples": 40},
    "digits": {"name": "digits", "scenario": "places", "clients": 20, "samples": 10},
}


def config_of(data: str, epsilon: float | str, m: int, seed: int, rounds: int = 120) -> Table:
    """Return the config of a run."""
    private: Table = {"privacy": {"mode": "record", "epsilon": epsilon, "reports_per_window": m}} if m else {}
    return {
        "seed": seed,
        "rounds": rounds,
        "workers": 1,
        "trace": {**DATA[data], "gap": 10, "window": 50},
        "model": {"hidden": 32},
        "training": {"participants": 20, "local_steps": 10, "learning_rate": 0.1},
        "method": {"name": "global" if epsilon == GLOBAL else "fielding"},
        "evaluation": {"every": 5},
        **private,
    }


def windows_of(config: Table) -> SlidingWindows:
    """Return the windows that clients report of."""
    simulation = assemble(config_from(config), Own(), n_workers=1)
    simulation.clients.close()
    return simulation.clients.windows


def attack(folder: Path, windows: SlidingWindows) -> tuple[float, float]:
    """Return how often the label that is reported most is the most frequent one, and the AUC of seeing a rare label."""
    reports = None
    for kind in ("histogram", "vector"):
        try:
            reports = read_run_reports(folder, kind)
            break
        except ValueError:
            continue
    assert reports is not None
    position = {client: at for at, client in enumerate(windows.schedule.client_ids)}
    hits, present, absent = list[bool](), list[float](), list[float]()
    for step in np.unique(reports.step).tolist():
        at = np.flatnonzero(reports.step == step)
        clients = np.array([position[reports.client_ids[one]] for one in reports.client[at]], dtype=np.int64)
        told: Matrix = reports.representations[at].astype(np.float64)
        speaks = told.any(axis=1)
        truth = counts_of(windows, clients[speaks], step)
        told = told[speaks]
        hits += (truth[np.arange(len(truth)), told.argmax(axis=1)] == truth.max(axis=1)).tolist()
        present += told[truth == 1].tolist()
        absent += told[truth == 0].tolist()
    return float(np.mean(hits)), auc(present, absent)


def counts_of(windows: SlidingWindows, clients: Counts, round_index: int) -> Counts:
    """Return the label counts of the windows of some clients in a round."""
    rows, sizes = windows.training(round_index).of(clients)
    place = np.repeat(np.arange(clients.size), sizes) * windows.n_classes + windows.labels(rows)
    counted = np.bincount(place, minlength=clients.size * windows.n_classes)
    return counted.reshape(clients.size, windows.n_classes)


def auc(present: Sequence[float], absent: Sequence[float]) -> float:
    """Return how often a value of the first kind is above one of the second; a tie counts half.

    Examples
    --------
    >>> auc([2.0, 1.0], [0.0, 1.0])
    0.875
    """
    from scipy.stats import rankdata

    ranks = rankdata([*present, *absent])[: len(present)]
    return float((ranks.sum() - len(present) * (len(present) + 1) / 2) / max(1, len(present) * len(absent)))


def measure(data: str, epsilon: float | str, m: int, seeds: int, rounds: int) -> dict[str, float]:
    """Return the figures of one choice, means over seeds; accuracy also with its spread."""
    found: dict[str, list[float]] = {}
    for seed in range(1, seeds + 1):
        config = config_of(data, epsilon, m, seed, rounds)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "run"
            result = run(config, folder, page=False)
            assert result.summary is not None
            figures = {"window": result.summary["final_accuracy"], "next": result.summary["final_next_accuracy"]}
            for key, figure in (("reports", "n_reports"), ("moves", "n_moved")):
                figures[key] = sum(int(str(row[figure])) for row in result.rounds)
            known = [float(str(row["ari"])) for row in result.rounds if row.get("ari") is not None]
            figures["ari"] = statistics.mean(known) if known else float("nan")
            if epsilon != GLOBAL:
                figures["top"], figures["auc"] = attack(folder, windows_of(config))
        for key, value in figures.items():
            found.setdefault(key, []).append(float("nan") if value is None else float(str(value)))
    spread = statistics.stdev(found["window"]) if seeds > 1 else 0.0
    return {**{key: statistics.mean(values) for key, values in found.items()}, "spread": spread}


def row_of(epsilon: float | str, m: int, found: Mapping[str, float]) -> list[str]:
    """Return a line of the table."""

    def shown(key: str, factor: float = 1.0, digits: int = 2) -> str:
        value = found.get(key, float("nan"))
        return "" if np.isnan(value) else f"{factor * value:.{digits}f}"

    window = f"{shown('window', 100, 1)} ± {shown('spread', 100, 1)}"
    counts = [shown("reports", digits=0), shown("moves", digits=0)] if epsilon != GLOBAL else ["", ""]
    agreement = shown("ari") if epsilon != GLOBAL else ""
    name = epsilon if isinstance(epsilon, str) else f"{epsilon:g}"
    return [name, str(m or ""), *counts, agreement, window, shown("next", 100, 1), shown("top"), shown("auc")]


def chart(found: Mapping[tuple[float | str, int], Mapping[str, float]]) -> str:
    """Return a chart of accuracy and of the attacker's AUC over epsilon, for m = 1."""
    epsilons = [epsilon for epsilon, m in found if m == 1]
    parts = []
    for panel, (title, key, color) in enumerate(
        (("accuracy on the window", "window", "#2a6fb0"), ("rare label: AUC of an attacker", "auc", "#c2571a"))
    ):
        left = 60 + 330 * panel
        values = [found[epsilon, 1][key] for epsilon in epsilons]
        lines = {name: found[name, 0].get(key, float("nan")) for name in (EXACT, GLOBAL) if (name, 0) in found}
        marks = [*values, *(value for value in lines.values() if not np.isnan(value)), *([0.5] if panel else [])]
        low, high = min(marks) - 0.02, max(marks) + 0.02
        y = [200 - 150 * (value - low) / (high - low) for value in values]
        x = [left + 55 * at for at in range(len(values))]
        parts.append(f'<text x="{left}" y="22" font-weight="bold">{title}</text>')
        for name, value in {**lines, **({"a guess": 0.5} if panel else {})}.items():
            if not np.isnan(value):
                at = 200 - 150 * (value - low) / (high - low)
                parts.append(f'<path d="M{left} {at:.1f}h235" stroke="#888" stroke-dasharray="4 3"/>')
                parts.append(f'<text x="{left + 240}" y="{at + 4:.1f}" fill="#555">{name}</text>')
        points = " ".join(f"{one},{other:.1f}" for one, other in zip(x, y, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        for one, other, value, epsilon in zip(x, y, values, epsilons, strict=True):
            parts.append(f'<circle cx="{one}" cy="{other:.1f}" r="3.5" fill="{color}"/>')
            parts.append(f'<text x="{one}" y="{other - 9:.1f}" text-anchor="middle">{value:.2f}</text>')
            parts.append(f'<text x="{one}" y="225" text-anchor="middle">{epsilon:g}</text>')
        parts.append(f'<text x="{left + 110}" y="245" text-anchor="middle">epsilon</text>')
    body = "\n".join(parts)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 255" font-family="sans-serif" font-size="12" '
        'role="img" aria-label="Accuracy and the success of an attacker against epsilon">\n'
        f'<rect width="700" height="255" fill="white"/>\n{body}\n</svg>\n'
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all choices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=DATA)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args(arguments)
    found: dict[tuple[float | str, int], dict[str, float]] = {}
    rows: list[list[str]] = []
    for epsilon, m in GRID:
        found[epsilon, m] = measure(given.data, epsilon, m, given.seeds, given.rounds)
        rows.append(row_of(epsilon, m, found[epsilon, m]))
        print(" | ".join(rows[-1]), flush=True)
    print(markdown([HEAD, *rows]))
    if given.svg is not None:
        given.svg.write_text(chart(found), encoding="utf-8")


if __name__ == "__main__":
    main()
