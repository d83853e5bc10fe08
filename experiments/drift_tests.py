"""Measure the drift tests: false alarms, power, and what they make of a stream. Prints Markdown tables.

Run ``python experiments/drift_tests.py`` (under two minutes on a quiet core); the same seed gives the same tables.
``--only samples`` measures the tests on samples alone; those of river only where it is installed.
"""

import argparse
import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import chi2 as chi2_table
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fielding._typing import Counts, Features, Mask, Matrix, Vector
from fielding.client.arrivals import Arrivals
from fielding.client.drift import AnyChange, Chi2, DriftTest, Evidence, Never, Threshold
from fielding.client.drift.drift_test import Batch, SampleTest
from fielding.client.drift.pearson import excess_l1, gamma_p_values, p_values, pearson
from fielding.client.drift.predictions import ConfusionTest, rows_of_counts
from fielding.client.drift.sample_tests import (
    KINDS,
    RIVER_TESTS,
    Signs,
    count_labels,
    kinds_of,
    sample_test_named,
    signs_of,
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerChi2:
    """The default before: against the last report alone, at 0.001, with an effect floor of 0.1."""

    is_timed = False

    def drifted(self, evidence: Evidence) -> Mask:
        """Return whose new samples differ from the last report."""
        never = np.zeros(evidence.n_clients, dtype=np.bool_)
        return Chi2(alpha=0.001, delta_min=0.1).drifted(replace(evidence, before=evidence.reported, is_mixed=never))


def power_curve(n_clients: int, seed: int) -> None:
    """Print what the default finds within 1, 2 and 4 arrivals, by the size of a shift and of the window."""
    tests: dict[str, DriftTest] = {"former default": FormerChi2(), "chi2": Chi2(), "any-change": AnyChange()}
    n_labels, n_visible, before_drift = 10, 4, 16
    shares = np.arange(1.0, n_labels + 1) / np.arange(1.0, n_labels + 1).sum()
    rows = []
    for at, (size, shift) in enumerate(product((24, 48, 100, 200), (0.0, 0.26, 0.38, 0.51, 0.8))):
        rng = stream(seed, "power-curve", at)
        mixes = np.stack([rng.permutation(shares) for _ in range(n_clients)])
        others = np.eye(n_labels)[mixes.argmin(axis=1)]
        part = shift / np.abs(mixes - others).sum(axis=1, keepdims=True)
        after = (1 - part) * mixes + part * others
        n_steps = n_visible + before_drift + 4
        arrivals = [
            rng.multinomial(size // n_visible, mixes if step < n_steps - 4 else after) for step in range(n_steps)
        ]
        row = [str(size), f"{shift:g}"]
        for drift_test in tests.values():
            fleet, n_reports = Fleet(n_clients, n_labels, drift_test=drift_test, max_rounds=n_visible), 0
            found = np.full(n_clients, np.inf)
            for step, counts in enumerate(arrivals):
                if step < n_visible:
                    fleet.report_again(np.flatnonzero(fleet.counts.any(axis=1)))
                who = fleet.arrive(Arrivals.from_rows(counts), step).clients
                n_reports += who.size if n_visible <= step < n_steps - 4 else 0
                if step >= n_steps - 4:
                    found[who] = np.minimum(found[who], step - (n_steps - 5))
            delay = [f"{(found <= within).mean():.2f}" for within in (1, 2, 4)]
            row.append(" ".join([*delay, f"({n_reports / n_clients / before_drift:.3f})"]))
        rows.append(row)
    title = f"Found within 1, 2, 4 arrivals (reports per arrival before); {n_clients} clients, 4 arrivals a window"
    print_table(title, ["window", "L1", *tests], rows)


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


LOOKS = {"darker": "x 0.8", "dim": "x 0.6", "mirrored": "flip", "turned": "quarter turn", "inverted": "1 - x"}
SAMPLE_SIZES = ((20, 100), (40, 100), (100, 100))
"""Fresh and reference samples of a client."""
PLANTED = ("none", "label", *LOOKS, "swap", "cycle", "label + swap", "label + dim", "dim + swap")
"""Kinds of drift: other label mix, looks, a client's two most frequent labels swapped, or its four in a cycle."""
EXPECTED = {
    "none": "none",
    "label": "label",
    **dict.fromkeys(LOOKS, "covariate"),
    "swap": "concept",
    "cycle": "concept",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """Images by class as a frozen network sees them, for each look: features and predicted labels."""

    rows_by_class: list[Counts]
    seen: dict[str, tuple[Features, Counts]]


def seen_pool(path: Path, seed: int) -> Pool:
    """Return Fashion-MNIST at 14 x 14 through a network that was trained on 2,000 other images."""
    from sklearn.neural_network import MLPClassifier

    with np.load(path, allow_pickle=False) as source:
        rows = stream(seed, "pool").permutation(len(source["y"]))[:12_000]
        images, labels = source["x"][rows], source["y"][rows].astype(np.int64)
    images = (images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)) / 255).astype(np.float32)
    network = MLPClassifier((64,), max_iter=60, n_iter_no_change=60, tol=0.0, early_stopping=False, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that 60 passes do not converge is as it should be
        network.fit(images[:2000].reshape(2000, -1), labels[:2000])
    images, labels = images[2000:], labels[2000:]
    looks = {
        "plain": images,
        "darker": images * np.float32(0.8),
        "dim": images * np.float32(0.6),
        "mirrored": images[:, :, ::-1],
        "turned": np.rot90(images, axes=(1, 2)),
        "inverted": 1 - images,
    }
    seen = {}
    for name, look in looks.items():
        hidden = np.maximum(look.reshape(len(look), -1) @ network.coefs_[0] + network.intercepts_[0], 0)
        scores = hidden @ network.coefs_[1] + network.intercepts_[1]
        seen[name] = hidden.astype(np.float32), scores.argmax(axis=1).astype(np.int64)
    print(f"(the network is right on {(seen['plain'][1] == labels).mean():.2f} of the plain images)\n")
    return Pool(rows_by_class=[np.flatnonzero(labels == label) for label in range(10)], seen=seen)


def drawn(pool: Pool, mixes: Matrix, size: int, *, look: str, rng: np.random.Generator) -> Batch:
    """Return so many samples of each client, labelled as in the source."""
    labels = np.concatenate([rng.choice(10, size=size, p=mix) for mix in mixes])
    starts = np.cumsum([0, *(rows.size for rows in pool.rows_by_class)])
    places = starts[labels] + rng.integers(np.diff(starts)[labels])
    rows = np.concatenate(pool.rows_by_class)[places]
    features, predicted = (part[rows] for part in pool.seen[look])
    errors = (predicted != labels).astype(np.float64)
    sizes = np.full(len(mixes), size)
    return Batch(sizes=sizes, n_classes=10, labels=labels, predicted=predicted, features=features, errors=errors)


def planted(pool: Pool, drift: str, sizes: tuple[int, int, int], *, rng: np.random.Generator) -> tuple[Batch, Batch]:
    """Return reference and fresh samples of clients that all drift in this way; sizes are clients, fresh, reference."""
    n_clients, n, m = sizes
    mixes, others = rng.dirichlet(np.full(10, 0.5), size=(2, n_clients))
    look = next((look for look in LOOKS if look in drift), "plain")
    reference = drawn(pool, mixes, m, look="plain", rng=rng)
    fresh = drawn(pool, others if "label" in drift else mixes, n, look=look, rng=rng)
    names = np.tile(np.arange(10), (n_clients, 1))
    n_moved = 4 if "cycle" in drift else 2 if "swap" in drift else 1
    top = np.argsort(-mixes, axis=1)[:, :n_moved]
    np.put_along_axis(names, top, np.roll(top, 1, axis=1), axis=1)
    labels = names[fresh.owners, fresh.labels]
    return reference, replace(fresh, labels=labels, errors=(fresh.predicted != labels).astype(np.float64))


@dataclass(frozen=True, slots=True, kw_only=True)
class FisherRows:
    """Confusion with the p-values of its rows combined by Fisher's rule, to compare with the sum of statistics."""

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return combined p-values."""
        logs, n_rows = np.zeros((2, fresh.sizes.size))
        for clients, table in rows_of_counts(reference, fresh, strata=[reference.labels, fresh.labels]):
            told = table.variance > 0
            surprise = -2 * np.log(gamma_p_values(table)[told])
            logs += np.bincount(clients[told], weights=surprise, minlength=logs.size)
            n_rows += np.bincount(clients[told], minlength=logs.size)
        return np.asarray(np.where(n_rows > 0, chi2_table.sf(logs, np.maximum(2 * n_rows, 1)), 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """chi2 on labels, as a test on samples."""

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return p-values of the label counts."""
        return p_values(count_labels(fresh), count_labels(reference))


SAMPLE_RIVALS: dict[str, SampleTest] = {
    "chi2 on labels": Labels(),
    "bbsd": sample_test_named("bbsd"),
    "confusion": ConfusionTest(),
    "confusion, Fisher": FisherRows(),
    "class-shift": sample_test_named("class-shift"),
    "class-shift, 199 deals": sample_test_named("class-shift", {"deals": 199}),
    "class-shift within predicted": sample_test_named("class-shift", {"within": "predicted"}),
    "mmd": sample_test_named("mmd"),
    "mmd, 199 deals": sample_test_named("mmd", {"deals": 199}),
    "ks": sample_test_named("ks"),
    "ks, seeded axes": sample_test_named("ks", {"basis": "seeded"}),
    "error-rate": sample_test_named("error-rate"),
}


def sample_levels(pool: Pool, n_clients: int, seed: int) -> None:
    """Print how often the tests with a closed form fire without drift."""
    names = [name for name in SAMPLE_RIVALS if "deals" not in name]
    answers: dict[str, list[Vector]] = {name: [] for name in names}
    for at, (n, m) in enumerate(SAMPLE_SIZES):
        pair = planted(pool, "none", (n_clients, n, m), rng=stream(seed, "sample-levels", at))
        for name in names:
            answers[name].append(SAMPLE_RIVALS[name].p_values(*pair))
    rows = []
    for name, parts in answers.items():
        pooled = np.concatenate(parts)
        by_size = [f"{(part <= ALPHA).mean():.4f}" for part in parts]
        rows.append([name, *by_size, f"{(pooled <= 0.05).mean():.4f}", f"{(pooled <= 0.001).mean():.4f}"])
    head = [*(f"0.01, {n}/{m}" for n, m in SAMPLE_SIZES), "0.05, all", "0.001, all"]
    print_table(f"False alarms without drift, {n_clients} clients per size", ["test", *head], rows)


def sample_power(pool: Pool, n_clients: int, seed: int) -> None:
    """Print how often each test fires at 0.01, for each kind of drift."""
    rows = [[name] for name in SAMPLE_RIVALS]
    for at, drift in enumerate(PLANTED[:10]):
        pair = planted(pool, drift, (n_clients, 40, 100), rng=stream(seed, "sample-power", at))
        for row, sample_test in zip(rows, SAMPLE_RIVALS.values(), strict=True):
            # Not below: 199 deals give p-values of 0.005, 0.01, 0.015 and so on.
            row.append(f"{(sample_test.p_values(*pair) <= ALPHA).mean():.3f}")
    title = f"Share found at 0.01, 40 fresh and 100 reference samples, {n_clients} clients"
    print_table(title, ["test", *PLANTED[:10]], rows)


def kinds_said(pool: Pool, n_clients: int, seed: int) -> None:
    """Print what kinds are said for each kind that was planted, with features and by counts alone."""
    for column, (n, m) in enumerate(SAMPLE_SIZES):
        rows = []
        for at, drift in enumerate(PLANTED):
            pair = planted(pool, drift, (n_clients, n, m), rng=stream(seed, "kinds", at, column))
            signs = signs_of(*pair)
            bare = [replace(one, features=one.features[:, :0]) for one in pair]
            by_counts = signs_of(bare[0], bare[1])
            cells = [
                [f"{(kinds == kind).mean():.2f}" for kind in range(len(KINDS))] for kinds in _said(signs, by_counts)
            ]
            rows.append([drift, EXPECTED.get(drift, "mixed"), *(" / ".join(pair) for pair in zip(*cells, strict=True))])
        title = (
            f"Kinds said at 0.01, {n} fresh, {m} reference samples, {n_clients} clients: with features / counts alone"
        )
        print_table(title, ["planted", "should be", *KINDS], rows)


def _said(*signs: Signs) -> list[Counts]:
    return [kinds_of(one, alpha=ALPHA).astype(np.int64) for one in signs]


NATURAL = {
    "bbsd": "predictions",
    "confusion": "confusion, soft-confusion",
    "ks": "embedding",
    "class-shift": "class-means, residual-embedding",
    "joint": "gradients, class-directions, losses, combinations",
}
"""The tests on samples that suit a representation unless another one is named."""


def natural_power(pool: Pool, n_clients: int, seed: int) -> None:
    """Print what the natural test of each representation finds within one or two arrivals, a fifth of a window each."""
    levels = (0.001, 0.005, 0.01)
    rows = []
    for column, window in enumerate((50, 100)):
        pairs = {
            drift: planted(pool, drift, (n_clients, 2 * window // 5, window), rng=stream(seed, "natural", at, column))
            for at, drift in enumerate(("none", "label", "dim", "turned", "swap"))
        }
        for name, representations in NATURAL.items():
            sample_test, cells = sample_test_named(name), []
            for reference, fresh in pairs.values():
                first = np.arange(fresh.labels.size) % (2 * window // 5) < window // 5
                half = fresh.rows(np.flatnonzero(first), sizes=fresh.sizes // 2)
                lowest = np.minimum(sample_test.p_values(reference, half), sample_test.p_values(reference, fresh))
                cells.append(" / ".join(f"{(lowest < level).mean():.3f}" for level in levels))
            rows.append([str(window), name, representations, *cells])
    head = ["window", "test", "of", "none", "label", "dim", "turned", "swap"]
    title = f"Found within two arrivals at {' / '.join(f'{level:g}' for level in levels)}, {n_clients} clients"
    print_table(title, head, rows)


def error_power(n_clients: int, seed: int) -> None:
    """Print how often tests on errors fire, for error rates before and after."""
    rates = ((0.1, 0.1), (0.2, 0.2), (0.4, 0.4), (0.2, 0.4), (0.2, 0.6), (0.4, 0.1))
    names = ["error-rate", *(RIVER_TESTS if find_spec("river") else ())]
    rows = []
    for name in names:
        row, some = [name], 40 if name == "kswin" else n_clients
        for at, (before, after) in enumerate(rates):
            rng = stream(seed, "errors", at)
            pair = errors_only(rng.random((some, 100)) < before), errors_only(rng.random((some, 40)) < after)
            row.append(f"{(sample_test_named(name).p_values(*pair) < ALPHA).mean():.3f}")
        rows.append(row)
    head = [f"{before} to {after}" for before, after in rates]
    print_table(
        f"Share found by errors, 40 fresh and 100 reference samples, {n_clients} clients", ["test", *head], rows
    )


def errors_only(errors: np.ndarray) -> Batch:
    """Return a batch with the errors of a client in each row, and nothing else."""
    labels, nothing = np.zeros(errors.size, dtype=np.int64), np.zeros((errors.size, 0), dtype=np.float32)
    sizes, flat = np.full(len(errors), errors.shape[1]), errors.ravel().astype(np.float64)
    return Batch(sizes=sizes, n_classes=1, labels=labels, predicted=labels, features=nothing, errors=flat)


def sample_tests(folder: Path, n_clients: int, seed: int) -> None:
    """Print all that concerns tests on samples."""
    error_power(n_clients * 2, seed)
    if not (folder / "fashion_mnist.npz").is_file():
        print(f"(no fashion_mnist.npz in {folder}; name its folder with FIELDING_DATA)")
        return
    pool = seen_pool(folder / "fashion_mnist.npz", seed)
    sample_levels(pool, n_clients * 5, seed)
    sample_power(pool, n_clients, seed)
    kinds_said(pool, n_clients // 2, seed)
    natural_power(pool, 300, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the drift tests; prints Markdown tables.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=40_000, help="pairs of samples per cell (power: a quarter)")
    parser.add_argument("--clients", type=int, default=200, help="clients per cell of the tests on samples")
    parser.add_argument("--only", choices=["labels", "samples"], help="measure only these tests")
    options = parser.parse_args()
    folder = Path(os.environ.get("FIELDING_DATA") or "../shared/data")
    if options.only != "labels":
        # On one core: with two the small matrix products wait for each other.
        with threadpool_limits(1):
            sample_tests(folder, options.clients, options.seed)
    if options.only == "samples":
        return
    false_alarms(options.pairs, options.seed)
    power(options.pairs // 4, options.seed)
    power_curve(1000, options.seed)
    streams(options.seed)
    natural_traces(folder)


if __name__ == "__main__":
    main()
