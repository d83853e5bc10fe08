"""The paper's first figure on real data: how alike the members of clusters stay while the clients' data drift.

    python experiments/heterogeneity.py [--data FOLDER] [--out FOLDER] [--seeds 3] [--only zephyr-100,uk-crime]

Every strategy hears what its clients report at any change, but for the last one, whose clients use the calibrated test;
every one is measured on what the clients' data really are at that step. Writes `heterogeneity.json` and
`heterogeneity.html`.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from rich.progress import Progress

from fielding._typing import Membership
from fielding.client.drift import AnyChange, Chi2, DriftTest
from fielding.client.report import ReportBatch
from fielding.coordinator import Coordinator, Policy, trigger_named
from fielding.coordinator.heterogeneity import mean_client_distance
from fielding.coordinator.registry import Registry
from fielding.reporting.charts.figures import Line, lines_figure
from fielding.reporting.page import Card, Page, Section, page_html
from fielding.rng import stream
from fielding.traces.histograms import WindowPlan, label_reports
from fielding.traces.importers import Columns, import_trace
from fielding.traces.intervals import parse_span
from fielding.traces.trace import Trace

T_95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A way to keep clusters: how it is called, what makes its clients report, what makes it re-cluster."""

    name: str
    drift_test: DriftTest = field(default_factory=AnyChange)
    trigger: str = "center-shift"
    keeps_first_clusters: bool = False
    has_clusters: bool = True


STRATEGIES = (
    Strategy(name="no clustering", trigger="never", has_clusters=False),
    Strategy(name="static", trigger="never", keeps_first_clusters=True),
    Strategy(name="moves only", trigger="never"),
    Strategy(name="re-cluster always", trigger="always"),
    Strategy(name="Fielding (paper)"),
    Strategy(name="Fielding, chi2 reports", drift_test=Chi2()),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A trace and how its time maps to rounds."""

    name: str
    title: str
    file: str
    plan: WindowPlan
    columns: Columns = field(default_factory=Columns)
    last: str | None = None
    clients: int | None = None


ZEPHYR = {"file": "zephyr_commits.csv.gz", "last": "1050d", "clients": 302}
SETTINGS = (
    *(
        Setting(
            name=f"zephyr-{window}",
            title=f"zephyr: 302 authors, 62 subsystems, 1 day = 2 rounds, window {window} rounds ({window // 2} days)",
            plan=WindowPlan(interval="1d", gap=2, window=window),
            **ZEPHYR,  # type: ignore[arg-type]
        )
        for window in (100, 200, 400)
    ),
    Setting(
        name="uk-crime",
        title="uk_crime: 7,560 areas, 14 kinds of crime, 1 month = 1 round, window 6 months",
        file="uk_crime_counts.csv.gz",
        columns=Columns(count="count"),
        plan=WindowPlan(interval="month", gap=1, window=6),
    ),
)


@dataclass(kw_only=True)
class Run:
    """What one strategy did on one trace with one seed."""

    strategy: str
    seed: int
    steps: list[int] = field(default_factory=list)
    distance: list[float | None] = field(default_factory=list)
    n_clusters: list[int] = field(default_factory=list)
    reclustered: list[int] = field(default_factory=list)
    n_reports: int = 0
    n_moves: int = 0

    @property
    def mean_distance(self) -> float:
        """Mean over the steps at which it is defined."""
        return mean(value for value in self.distance if value is not None)


def true_steps(trace: Trace, plan: WindowPlan) -> Iterator[tuple[int, Registry]]:
    """Yield the data of all clients as they are at each step, whoever reports them."""
    truth = Coordinator(Policy(trigger=trigger_named("never")))
    for step, batch in label_reports(trace, plan=plan, drift_test=AnyChange()):
        truth.update(batch, step=step)
        yield step, truth.registry


def run_strategy(strategy: Strategy, trace: Trace, plan: WindowPlan, seed: int) -> Run:
    """Follow one strategy through a trace."""
    coordinator = Coordinator(Policy(trigger=trigger_named(strategy.trigger), seed=seed))
    reports = label_reports(trace, plan=plan, drift_test=strategy.drift_test)
    run, waiting = Run(strategy=strategy.name, seed=seed), next(reports, None)
    for step, truth in true_steps(trace, plan):
        while waiting is not None and waiting[0] <= step:
            hear(strategy, coordinator, waiting, run)
            waiting = next(reports, None)
        membership = clusters_of(coordinator, truth) if strategy.has_clusters else None
        rows = truth.active_rows()
        measured = mean_client_distance(
            truth.active_points(),
            np.zeros(rows.size, dtype=np.int32) if membership is None else membership[rows],
            metric=coordinator.metric,
            rng=stream(seed, "measure", step),
        )
        run.steps.append(step)
        run.distance.append(None if np.isnan(measured.mean) else measured.mean)
        run.n_clusters.append(
            int(coordinator.clusters.live.sum()) if membership is not None and coordinator.clusters else 1
        )
    return run


def hear(strategy: Strategy, coordinator: Coordinator, waiting: tuple[int, ReportBatch], run: Run) -> None:
    """Give the coordinator one step of reports; a static one listens only to clients that have no cluster yet."""
    step, batch = waiting
    if not strategy.has_clusters:
        return
    if strategy.keeps_first_clusters and coordinator.clusters is not None:
        batch = newcomers(batch, coordinator)
    decision = coordinator.update(batch, step=step)
    run.n_reports += len(decision.reported)
    run.n_moves += len(decision.moved)
    if decision.reclustered:
        run.reclustered.append(step)


def newcomers(batch: ReportBatch, coordinator: Coordinator) -> ReportBatch:
    """Return the reports of clients that are in no cluster yet."""
    known = coordinator.registry
    chosen = [
        at
        for at, client_id in enumerate(batch.client_ids)
        if client_id not in known or coordinator.cluster_of(client_id) is None
    ]
    return ReportBatch(
        client_ids=[batch.client_ids[at] for at in chosen], representations=batch.representations[chosen]
    )


def clusters_of(coordinator: Coordinator, truth: Registry) -> Membership:
    """Return the cluster of every client in the order of the truth's rows; one that never reported is on its own."""
    alone = iter(range(-1, -len(truth) - 1, -1))
    ids = coordinator.cluster_ids()
    known = coordinator.registry
    table = [int(ids[known.row_of(client_id)]) if client_id in known else next(alone) for client_id in truth.client_ids]
    _, labels = np.unique(table, return_inverse=True)
    return labels.astype(np.int32)


def read(setting: Setting, data: Path) -> Trace:
    """Return the trace of a setting."""
    trace = import_trace(data / setting.file, setting.columns)
    trace = trace.last(parse_span(setting.last)) if setting.last else trace
    return trace.most_active(setting.clients) if setting.clients else trace


def interval(values: list[float]) -> str:
    """Return the mean over seeds with the half width of its 95 % interval; a single seed has none."""
    if len(values) < 2:
        return f"{values[0]:.3f}"
    return f"{mean(values):.3f} ± {T_95[len(values)] * stdev(values) / len(values) ** 0.5:.3f}"


def table(runs: list[Run]) -> list[list[str]]:
    """Return the totals of all strategies as a table."""
    heads = ["strategy", "mean distance", "against no clustering", "re-clusterings", "moves", "reports", "clusters"]
    base = mean(run.mean_distance for run in runs if run.strategy == STRATEGIES[0].name)
    rows = [heads]
    for strategy in STRATEGIES:
        mine = [run for run in runs if run.strategy == strategy.name]
        levels = [run.mean_distance for run in mine]
        rows.append(
            [
                strategy.name,
                interval(levels),
                f"{100.0 * (mean(levels) / base - 1.0):+.1f} %",
                f"{mean(len(run.reclustered) for run in mine):.1f}",
                f"{mean(run.n_moves for run in mine):.0f}",
                f"{mean(run.n_reports for run in mine):.0f}",
                f"{mean(mean(run.n_clusters) for run in mine):.1f}",
            ]
        )
    return rows


def sections(setting: Setting, runs: list[Run]) -> list[Section]:
    """Return the figure of the first seed and the table over all seeds."""
    first = [next(run for run in runs if run.seed == 1 and run.strategy == one.name) for one in STRATEGIES]
    lines = [
        Line(name=run.strategy, x=run.steps, y=run.distance, style=at, is_main=run.strategy == "Fielding (paper)")
        for at, run in enumerate(first)
    ]
    paper = next(run for run in first if run.strategy == "Fielding (paper)")
    return [
        Section(
            title=setting.title,
            text="Mean L1 distance of a client to the other members of its cluster (seed 1; the axis does not begin "
            "at 0); dotted vertical lines: Fielding re-clustered everyone.",
            figure=lines_figure(
                lines, x_title="round", y_title="mean client distance", events=paper.reclustered, from_zero=False
            ),
        ),
        Section(
            title="Totals",
            text=f"Mean over {len({run.seed for run in runs})} seeds of the clusterer with 95 % intervals.",
            table=table(runs),
        ),
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("FIELDING_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(default), help="folder of the traces")
    parser.add_argument("--out", type=Path, default=Path("out/heterogeneity"), help="folder for the results")
    parser.add_argument("--seeds", type=int, default=3, choices=range(1, 11), metavar="1..10")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--only", help="names of settings, comma-separated")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    chosen = [one for one in SETTINGS if not options.only or one.name in options.only.split(",")]
    missing = [one.file for one in chosen if not (options.data / one.file).exists()]
    if missing or not chosen:
        print(f"error: {options.data} has no {missing or options.only}; name the folder with --data", file=sys.stderr)
        return 2
    results: dict[str, list[Run]] = {setting.name: [] for setting in chosen}
    with ProcessPoolExecutor(options.jobs) as pool, Progress() as progress:
        for setting in chosen:
            jobs = [
                pool.submit(run_job, setting, options.data, strategy, seed)
                for strategy in reversed(STRATEGIES)
                for seed in range(1, options.seeds + 1)
            ]
            for job in progress.track(as_completed(jobs), total=len(jobs), description=setting.name):
                results[setting.name].append(job.result())
    write(options.out, chosen, results)
    return 0


def run_job(setting: Setting, data: Path, strategy: Strategy, seed: int) -> Run:
    """Follow one strategy in a process of its own."""
    return run_strategy(strategy, read(setting, data), setting.plan, seed)


def write(out: Path, chosen: list[Setting], results: dict[str, list[Run]]) -> None:
    """Write the numbers and the page, and print the tables."""
    out.mkdir(parents=True, exist_ok=True)
    record = {name: [asdict(run) for run in runs] for name, runs in results.items()}
    (out / "heterogeneity.json").write_text(json.dumps(record))
    parts = [section for setting in chosen for section in sections(setting, results[setting.name])]
    page = Page(
        title="Do clusters stay alike while data drift?",
        lead="The first figure of the Fielding paper on stand-ins for its data: commits to zephyr by author, recorded "
        "crimes by area. Lower is better.",
        cards=[
            Card(name=setting.name, value=fall(results[setting.name]), note="Fielding (paper)") for setting in chosen
        ],
        sections=parts,
    )
    (out / "heterogeneity.html").write_text(page_html(page))
    for setting in chosen:
        print(f"\n### {setting.title}\n")
        rows = table(results[setting.name])
        for at, row in enumerate(rows):
            print(f"| {' | '.join(row)} |")
            if at == 0:
                print(f"|{'---|' * len(row)}")
    print(f"\nwritten: {out}/heterogeneity.html, {out}/heterogeneity.json")


def fall(runs: list[Run]) -> str:
    """Return by how much the paper's rules lower the distance against no clustering."""
    rows = table(runs)
    return next(row[2] for row in rows if row[0] == "Fielding (paper)")


if __name__ == "__main__":
    sys.exit(main())
