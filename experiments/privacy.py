"""See what private reports cost, and what an attacker still learns from them.

    python -m experiments.privacy zephyr | extrasensory | places | buckets [--seeds 5] [--kept found.jsonl]
    python -m experiments.privacy chart [--page docs/results/privacy.md] [--svg docs/assets/privacy.svg]

Fielding with exact reports, with none (one global model), and with privacy.mode = "record" for several epsilon and
reports per window m. A gain is the difference to the global model, paired by seeds, with its 95 % interval. ARI is that
of the clusters with those of the run with exact reports, the mean over rounds. A wrong move takes a client away from
the cluster whose members have label shares more like its own. The attacker sees the reports of a run: it guesses the
label that a window holds most of, and whether a window holds one sample of a label or none, by the reported share of
that label (AUC, 0.5 is a guess). Data come from FIELDING_DATA. Prints a table; runs that a file of --kept holds are not
run again. ``chart`` draws the tables of a page.
"""

import argparse
import json
import re
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from experiments.tables import Table, markdown
from fielding._typing import Counts, Mask, Matrix
from fielding.config.reader import config_from
from fielding.federation.evaluation import adjusted_rand_index
from fielding.records.run_folder import read_run_reports
from fielding.reporting.numbers.paired import paired_difference
from fielding.reporting.numbers.run_record import read_run
from fielding.simulation.assembly import Own, assemble
from fielding.simulation.experiment import run
from fielding.traces.sliding import SlidingWindows

EXACT, GLOBAL = "exact", "global"
GRID: tuple[tuple[float | str, int], ...] = (
    (EXACT, 0),
    (GLOBAL, 0),
    *((epsilon, m) for m in (1, 2) for epsilon in (8.0, 4.0, 2.0, 1.0, 0.5)),
)
HEAD = (
    *("epsilon", "m", "moves", "wrong", "ARI", "window", "gain", "next", "gain", "worst decile"),
    *("top label", "rare label"),
)
SCORES = ("window", "next")
FASHION: Table = {"name": "fashion_mnist", "clients": 100, "samples": 40}
DATA: Mapping[str, Table] = {
    "zephyr": {"name": "zephyr", "interval": "30d"},
    "extrasensory": {"name": "extrasensory"},
    "places": {**FASHION, "scenario": "places"},
    "buckets": {**FASHION, "scenario": "label-buckets"},
    "digits": {"name": "digits", "scenario": "places", "clients": 20, "samples": 10},
}
Figures: TypeAlias = dict[str, float]


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


def memberships_of(folder: Path, windows: SlidingWindows, rounds: int) -> Counts:
    """Return the cluster of each client after each round, -1 for none, shape ``(rounds, n_clients)``."""
    position = {client: at for at, client in enumerate(windows.schedule.client_ids)}
    found = np.full((rounds, len(position)), -1, dtype=np.int64)
    for at, changed in read_run(folder).memberships():
        for client, cluster in changed:
            found[at:, position[client]] = cluster
    return found


def count_wrong_moves(memberships: Counts, is_clustered_anew: Mask, windows: SlidingWindows) -> int:
    """Return how many moves, outside re-clusterings, lead away from the members that are more alike by exact counts."""
    n_wrong, everybody = 0, np.arange(memberships.shape[1])
    for at in np.flatnonzero(~is_clustered_anew[1:]) + 1:
        before, after = memberships[at - 1], memberships[at]
        moved = np.flatnonzero((before != after) & (before >= 0) & (after >= 0))
        if not moved.size:
            continue
        counts = counts_of(windows, everybody, int(at)).astype(np.float64)
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
        for client in moved.tolist():
            others = (before == after) & counts.any(axis=1)
            old, new = (others & (before == one[client]) for one in (before, after))
            if old.any() and new.any():
                ways = [float(((shares[client] - shares[one].mean(axis=0)) ** 2).sum()) for one in (old, new)]
                n_wrong += ways[0] < ways[1]
    return n_wrong


def measure(
    data: str, epsilon: float | str, m: int, seed: int, rounds: int, exact: Counts | None
) -> tuple[Figures, Counts]:
    """Return the figures of one run, and the cluster of each client after each round; ``exact``: with exact reports."""
    config = config_of(data, epsilon, m, seed, rounds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        result = run(config, folder, page=False)
        assert result.summary is not None
        names = {"window": "final_accuracy", "next": "final_next_accuracy", "decile": "worst_decile"}
        figures = {key: result.summary[name] for key, name in names.items()}
        windows = windows_of(config)
        memberships = memberships_of(folder, windows, rounds)
        if epsilon != GLOBAL:
            for key, figure in (("reports", "n_reports"), ("moves", "n_moved")):
                figures[key] = sum(int(str(row[figure])) for row in result.rounds)
            is_anew = np.zeros(rounds, dtype=np.bool_)
            is_anew[[int(str(row["round"])) for row in read_run(folder).events if row.get("fired")]] = True
            figures["wrong"] = count_wrong_moves(memberships, is_anew, windows)
            same = memberships if exact is None else exact
            figures["ari"] = statistics.mean(map(adjusted_rand_index, same, memberships))
            figures["top"], figures["auc"] = attack(folder, windows)
    return {key: float("nan") if one is None else float(str(one)) for key, one in figures.items()}, memberships


def mean_figures(found: Sequence[Figures], beside: Sequence[Figures]) -> Figures:
    """Return the means over seeds; of accuracy also the gain over other runs of these seeds, and half its interval."""
    means = {key: statistics.mean(one[key] for one in found) for key in found[0]}
    for score in SCORES:
        gain = paired_difference(*([one[score] for one in each] for each in (found, beside)))
        means[f"{score} gain"] = gain.mean
        means[f"{score} half"] = float("nan") if gain.half_width is None else gain.half_width
    return means


def row_of(epsilon: float | str, m: int, found: Mapping[str, float]) -> list[str]:
    """Return a line of the table."""

    def shown(key: str, form: str = ".2f", factor: float = 1.0) -> str:
        value = found.get(key, float("nan"))
        return "" if np.isnan(value) else f"{factor * value:{form}}"

    name = epsilon if isinstance(epsilon, str) else f"{epsilon:g}"
    scores = list[str]()
    for score in SCORES:
        gain = f"{shown(f'{score} gain', '+.1f', 100)} ± {shown(f'{score} half', '.1f', 100)}"
        scores += [shown(score, ".1f", 100), "" if epsilon == GLOBAL else gain]
    counts = [shown("moves", ".0f"), shown("wrong", ".0f"), shown("ari")]
    return [name, str(m or ""), *counts, *scores, shown("decile", ".1f", 100), shown("top"), shown("auc")]


def read_tables(page: str) -> dict[str, list[dict[str, str]]]:
    """Return the lines of the tables of a page by the data that they are of; of columns of one name the first."""
    found: dict[str, list[dict[str, str]]] = {}
    for part in page.split("\n## ")[1:]:
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"]
        lines = [dict(zip(reversed(rows[0]), reversed(row), strict=True)) for row in rows[2:]]
        found[re.split("[:,]", part.splitlines()[0])[0]] = lines
    return found


LINES = (  # of which panel, with which color, and what it says
    ("window", 0, "#2a6fb0", "accuracy on the window, %"),
    ("rare label", 1, "#c2571a", "rare label: AUC"),
    ("top label", 1, "#3c8d50", "top label guessed"),
)
STEP, WIDE, HIGH, LEFT = 34, 215, 120, 42


def chart(tables: Mapping[str, Sequence[Mapping[str, str]]]) -> str:
    """Return a chart of what clients are served and of what an attacker learns over epsilon, a column per data set."""
    parts = []
    for column, (data, lines) in enumerate(tables.items()):
        left = LEFT + WIDE * column
        parts.append(f'<text x="{left}" y="18" font-weight="bold">{data}</text>')
        known = {line["epsilon"]: float(line["window"]) for line in lines if not line["m"]}
        for panel, fixed in ((0, known), (1, {"a guess": 0.5})):
            values = {
                (name, m): {line["epsilon"]: float(line[name]) for line in lines if line["m"] == m}
                for name, where, *_ in LINES
                for m in ("1", "2")
                if where == panel
            }
            marks = [*fixed.values(), *(value for each in values.values() for value in each.values())]
            low, high = (0.0, 1.02) if panel else (min(marks) - 0.5, max(marks) + 0.5)
            bottom = 40 + HIGH + panel * (HIGH + 35)

            def y(value: float, bottom: int = bottom, low: float = low, high: float = high) -> float:
                return bottom - HIGH * (value - low) / (high - low)

            for tick in (0.0, 0.5, 1.0) if panel else np.linspace(low + 0.5, high - 0.5, 3):
                words = f"{tick:.2f}" if panel else f"{tick:.1f}"
                parts.append(f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end" fill="#555">{words}</text>')
            heights = {name: y(value) + 4 for name, value in fixed.items()}
            if not panel and abs(heights[EXACT] - heights[GLOBAL]) < 12:  # the words would lie on each other
                top = min(heights, key=lambda name: heights[name])
                heights = {name: height + (-5 if name == top else 6) for name, height in heights.items()}
            for name, value in fixed.items():
                parts.append(f'<path d="M{left} {y(value):.1f}h{4 * STEP}" stroke="#888" stroke-dasharray="2 3"/>')
                parts.append(f'<text x="{left + 4 * STEP + 4}" y="{heights[name]:.1f}" fill="#555">{name}</text>')
            for (name, m), each in values.items():
                color = next(one for line, _, one, _ in LINES if line == name)
                points = " ".join(f"{left + STEP * at},{y(value):.1f}" for at, value in enumerate(each.values()))
                dash = ' stroke-dasharray="6 3"' if m == "2" else ""
                parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"{dash}/>')
            for at, epsilon in enumerate(next(iter(values.values()))):
                parts.append(f'<text x="{left + STEP * at}" y="{bottom + 16}" text-anchor="middle">{epsilon}</text>')
    width, height = LEFT + WIDE * len(tables), 2 * HIGH + 130
    for at, (_, _, color, text) in enumerate(LINES):
        parts.append(f'<text x="{LEFT + 190 * at}" y="{height - 12}" fill="{color}">{text}</text>')
    note = "over epsilon; m = 1 solid, 2 dashed"
    parts.append(f'<text x="{LEFT + 190 * len(LINES)}" y="{height - 12}" fill="#555">{note}</text>')
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12" role="img" aria-label="Accuracy and the success of an attacker against epsilon">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n{body}\n</svg>\n'
    )


def read_kept(path: Path | None, data: str, seed: int) -> dict[tuple[float | str, int], Figures]:
    """Return the figures of runs that a file holds."""
    if path is None or not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {(one["epsilon"], one["m"]): one["figures"] for one in lines if (one["data"], one["seed"]) == (data, seed)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all choices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=(*DATA, "chart"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument("--page", type=Path, default=Path("docs/results/privacy.md"))
    parser.add_argument("--svg", type=Path, default=Path("docs/assets/privacy.svg"))
    parser.add_argument("--kept", type=Path)
    given = parser.parse_args(arguments)
    if given.data == "chart":
        given.svg.write_text(chart(read_tables(given.page.read_text(encoding="utf-8"))), encoding="utf-8")
        return
    found: dict[tuple[float | str, int], list[Figures]] = {choice: [] for choice in GRID}
    for seed in range(1, given.seeds + 1):
        known = read_kept(given.kept, given.data, seed)
        exact: Counts | None = None
        for epsilon, m in GRID:
            if (figures := known.get((epsilon, m))) is None:
                if exact is None and epsilon not in (EXACT, GLOBAL):
                    exact = measure(given.data, EXACT, 0, seed, given.rounds, None)[1]
                figures, memberships = measure(given.data, epsilon, m, seed, given.rounds, exact)
                exact = memberships if epsilon == EXACT else exact
                if given.kept is not None:
                    line = {"data": given.data, "seed": seed, "epsilon": epsilon, "m": m, "figures": figures}
                    with given.kept.open("a", encoding="utf-8") as file:
                        file.write(f"{json.dumps(line)}\n")
            found[epsilon, m].append(figures)
    means = {choice: mean_figures(each, found[GLOBAL, 0]) for choice, each in found.items()}
    print(markdown([HEAD, *(row_of(*choice, one) for choice, one in means.items())]))


if __name__ == "__main__":
    main()
