"""Measure the drift tests: false alarms, power, and what they make of a stream. Prints Markdown tables.

Run ``python experiments/drift_tests.py`` (under a minute); the same seed gives the same tables.
"""

import argparse
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import chi2 as chi2_table

from fielding._typing import Counts, Matrix
from fielding.client.arrivals import Arrivals
from fielding.client.drift import AnyChange, Chi2, DriftTest, Never, Threshold
from fielding.client.drift.chi2 import excess_l1, p_values, pearson
from fielding.client.fleet import Fleet
from fielding.client.report import row_chunks
from fielding.client.representation.label import shares_of
from fielding.distance import metric_named
from fielding.rng import stream
from fielding.traces.importers import Columns, import_trace
from fielding.traces.intervals import parse_span
from fielding.traces.trace import Trace

N_LABELS = (10, 62, 100)
CONCENTRATIONS = (0.1, 0.3, 5.0)
SIZES = ((10, 100), (20, 20), (20, 100), (50, 100), (100, 100))
POWER_SETTINGS = ((10, 20, 100), (62, 20, 100), (62, 50, 100), (100, 100, 100))
REPLACED = (0.0, 0.2, 0.5, 1.0)
ALPHA = 0.01
DELTA_MIN = 0.1
RULES = ("matched 0.01", "table 0.01", "matched 0.001", "table 0.001", "chi2 rule 0.01", "L1 > 0.1", "L1 > 0.5")
"""The columns of :func:`verdicts`."""
N_CLIENTS, N_GROUPS, N_ARRIVALS = 400, 5, 60
WARM = ((10, 10, 10), (62, 10, 10), (100, 20, 5))
COLD = ((10, 10, 10), (62, 10, 10), (62, 2, 10), (62, 1, 50))
"""Settings of streams: labels, samples per arrival, arrivals in the window."""
TESTS: tuple[tuple[str, DriftTest], ...] = (
    ("any-change", AnyChange()),
    ("threshold 0.2", Threshold(eps=0.2)),
    ("threshold 0.5", Threshold(eps=0.5)),
    ("chi2, growth off", Chi2(growth=math.inf)),
    ("chi2", Chi2()),
)


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"### {title}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def verdicts(fresh: Counts, reported: Counts) -> dict[str, float]:
    """Return how often each rule speaks of drift, over pairs of samples."""
    chunks = [_verdicts(fresh[part], reported[part]) for part in row_chunks(len(fresh), 4096)]
    return dict(zip(RULES, np.concatenate(chunks).mean(axis=0).tolist(), strict=True))


def _verdicts(fresh: Counts, reported: Counts) -> Matrix:
    matched = p_values(fresh, reported)
    freedom = np.maximum(np.count_nonzero(fresh + reported, axis=1) - 1, 1)
    plain = chi2_table.sf(pearson(fresh, reported).statistic, freedom)
    distances = np.abs(shares_of(fresh) - shares_of(reported)).sum(axis=1)
    rule = (matched < ALPHA) & (excess_l1(fresh, reported) >= DELTA_MIN)
    by_p = [matched < ALPHA, plain < ALPHA, matched < 0.001, plain < 0.001]
    return np.column_stack([*by_p, rule, distances > 0.1, distances > 0.5]).astype(np.float64)


def sample_pairs(mixes: Matrix, lam: float, *, n: int, m: int, rng: np.random.Generator) -> tuple[Counts, Counts]:
    """Return new samples and reference samples; a share ``lam`` of each mix was replaced between them."""
    others = mixes[rng.permutation(len(mixes))]
    return rng.multinomial(n, (1 - lam) * mixes + lam * others), rng.multinomial(m, mixes)


def false_alarms(n_pairs: int, seed: int) -> None:
    shapes = list(product(N_LABELS, CONCENTRATIONS))
    seen: dict[tuple[int, int], dict[str, float]] = {}
    for (row, (n_labels, concentration)), (column, (n, m)) in product(enumerate(shapes), enumerate(SIZES)):
        rng = stream(seed, "false-alarms", row, column)
        mixes = rng.dirichlet(np.full(n_labels, concentration), size=n_pairs)
        seen[row, column] = verdicts(*sample_pairs(mixes, 0.0, n=n, m=m, rng=rng))
    head = ["labels, Dirichlet", *(f"{n}/{m}" for n, m in SIZES)]
    for level in ("0.01", "0.001"):
        rows = [[f"{n_labels}, {concentration:g}"] for n_labels, concentration in shapes]
        for (row, _), cell in seen.items():
            rows[row].append(f"{cell[f'matched {level}']:.4f} / {cell[f'table {level}']:.4f}")
        print_table(f"False alarms at nominal {level}: matched / table ({n_pairs} pairs per cell)", head, rows)
    ranges = []
    for rule in RULES:
        shares = [cell[rule] for cell in seen.values()]
        ranges.append([rule, f"{min(shares):.4f}", f"{np.mean(shares):.4f}", f"{max(shares):.4f}"])
    print_table("False alarms over all 45 cells", ["rule", "smallest", "mean", "largest"], ranges)


def power(n_pairs: int, seed: int) -> None:
    rows = []
    rules = ("matched 0.01", "chi2 rule 0.01", "table 0.01", "L1 > 0.1", "L1 > 0.5")
    for at, ((n_labels, n, m), lam) in enumerate(product(POWER_SETTINGS, REPLACED)):
        rng = stream(seed, "power", at)
        mixes = rng.dirichlet(np.full(n_labels, 0.3), size=n_pairs)
        found = verdicts(*sample_pairs(mixes, lam, n=n, m=m, rng=rng))
        rows.append([str(n_labels), f"{n}/{m}", f"{lam:g}", *(f"{found[rule]:.3f}" for rule in rules)])
    print_table(f"Share found, Dirichlet 0.3 ({n_pairs} pairs per row)", ["labels", "n/m", "replaced", *rules], rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drifting:
    """A stream in which every second client goes over to the mix of another group, once.

    ``drift_at`` is ``N_ARRIVALS`` for a client that never drifts, and ``after`` then is its only group.
    """

    mixes: Matrix
    after: Counts
    drift_at: Counts
    arrivals: list[Counts]
    window: int


def drifting(setting: tuple[int, int, int], *, is_warm: bool, rng: np.random.Generator) -> Drifting:
    """Return a stream that starts with a full window (warm) or with a single arrival (cold)."""
    n_labels, per_arrival, window = setting
    mixes = rng.dirichlet(np.full(n_labels, 0.3), size=N_GROUPS)
    after = rng.integers(N_GROUPS, size=N_CLIENTS)
    moves = np.arange(N_CLIENTS) % 2 == 0
    before = np.where(moves, after + rng.integers(1, N_GROUPS, size=N_CLIENTS), after) % N_GROUPS
    drift_at = np.where(moves, rng.integers(20, 40, size=N_CLIENTS), N_ARRIVALS)
    arrivals = [rng.multinomial(per_arrival * (window if is_warm else 1), mixes[before])]
    for at in range(1, N_ARRIVALS):
        arrivals.append(rng.multinomial(per_arrival, mixes[np.where(at < drift_at, before, after)]))
    return Drifting(mixes=mixes, after=after, drift_at=drift_at, arrivals=arrivals, window=window)


def follow(source: Drifting, drift_test: DriftTest) -> list[str]:
    """Return what a drift test makes of a stream, as cells of a table."""
    n_labels = source.mixes.shape[1]
    fleet = Fleet(N_CLIENTS, n_labels, drift_test=drift_test, max_rounds=source.window)
    n_reports, n_false, delay = np.zeros(N_CLIENTS), np.zeros(N_CLIENTS), np.full(N_CLIENTS, np.inf)
    known = np.zeros((N_CLIENTS, n_labels))
    for at, rows in enumerate(source.arrivals):
        reports = fleet.arrive(Arrivals.from_rows(rows), at)
        who, since = reports.clients, at - source.drift_at[reports.clients]
        known[who] = reports.representations
        n_reports[who] += 1
        n_false[who] += (n_reports[who] > 1) & (since < 0)
        delay[who] = np.minimum(delay[who], np.where(since >= 0, since + 1, np.inf))
    moved = source.drift_at < N_ARRIVALS
    is_right = metric_named("l1").between(known, source.mixes).argmin(axis=1) == source.after
    error = np.abs(known - source.mixes[source.after]).sum(axis=1)
    cells = (n_reports.mean(), n_false.mean(), np.isfinite(delay[moved]).mean(), np.median(delay[moved]))
    return [*(f"{cell:.3g}" for cell in cells), f"{is_right.mean():.3f}", f"{error.mean():.2f}"]


def streams(seed: int) -> None:
    head = ["labels", "per arrival", "window", "test", "reports", "of these without drift", "found", "median delay"]
    for is_warm, settings in ((True, WARM), (False, COLD)):
        rows = []
        for at, setting in enumerate(settings):
            source = drifting(setting, is_warm=is_warm, rng=stream(seed, "stream", int(is_warm), at))
            rows += [[*map(str, setting), name, *follow(source, drift_test)] for name, drift_test in TESTS]
        start = "first report from a full window" if is_warm else "first report from one arrival"
        title = f"{N_ARRIVALS} arrivals, {N_CLIENTS} clients, half drift once; {start}"
        print_table(title, [*head, "right group at the end", "L1 to true mix"], rows)


def natural_steps(trace: Trace, interval: str) -> list[tuple[int, Arrivals]]:
    """Return what reaches the clients in each interval of real time."""
    at = trace.interval_of(interval)
    steps = []
    for step in range(int(at.max()) + 1):
        rows = at == step
        steps.append((step, Arrivals(clients=trace.client[rows], labels=trace.y[rows], counts=trace.weights[rows])))
    return steps


def follow_trace(trace: Trace, drift_test: DriftTest, *, interval: str, window: int) -> list[str]:
    """Return what a drift test makes of a real trace, as cells of a table."""
    n_clients = len(trace.client_ids)
    fleet = Fleet(n_clients, len(trace.classes), drift_test=drift_test, max_rounds=window)
    known = np.zeros((n_clients, len(trace.classes)))
    n_reports, errors = 0, []
    for step, arrivals in natural_steps(trace, interval):
        reports = fleet.arrive(arrivals, step)
        known[reports.clients] = reports.representations
        n_reports += int(np.count_nonzero(reports.n_samples))
        active = fleet.counts.any(axis=1)
        errors.append(np.abs(known[active] - shares_of(fleet.counts[active])).sum(axis=1).mean())
    return [f"{n_reports / n_clients:.2f}", f"{np.mean(errors):.3f}"]


def natural_traces(folder: Path) -> None:
    """Print what the drift tests make of real traces."""
    if not folder.is_dir():
        print(f"(no real traces in {folder}; name their folder with FIELDING_DATA)")
        return
    zephyr = import_trace(folder / "zephyr_commits.csv.gz").last(parse_span("1050d")).most_active(302)
    crime = import_trace(folder / "uk_crime_counts.csv.gz", Columns(count="count"))
    rows = []
    for name, drift_test in (*TESTS, ("never", Never())):
        cells = [follow_trace(zephyr, drift_test, interval="1d", window=days) for days in (50, 200)]
        cells.append(follow_trace(crime, drift_test, interval="month", window=12))
        rows.append([name, *(cell for pair in cells for cell in pair)])
    traces = ("zephyr, 50 days", "zephyr, 200 days", "uk_crime, 12 months")
    head = [f"{trace}: {what}" for trace in traces for what in ("reports", "L1")]
    print_table("Real traces: reports per client, L1 from the last report to the window now", ["test", *head], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the drift tests; prints Markdown tables.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=40_000, help="pairs of samples per cell (power: a quarter)")
    options = parser.parse_args()
    false_alarms(options.pairs, options.seed)
    power(options.pairs // 4, options.seed)
    streams(options.seed)
    natural_traces(Path(os.environ.get("FIELDING_DATA") or "../shared/data"))


if __name__ == "__main__":
    main()
