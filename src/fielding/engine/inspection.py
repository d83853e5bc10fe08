"""What a trace or a stream of reports is like, in the paper's terms: drift, delta, Delta; and whether it drifts."""

from dataclasses import dataclass

from fielding.client.drift import AnyChange
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.heterogeneity import spread_within
from fielding.coordinator.policy import Policy
from fielding.distance import metric_named
from fielding.rng import stream
from fielding.traces.histograms import WindowPlan, report_stream
from fielding.traces.reports import ReportStream
from fielding.traces.statistics import ReportsDescription, TraceDescription, describe_reports, describe_trace
from fielding.traces.trace import Trace

SURE, UNSURE = 3.0, 2.0
"""Standard errors above noise from which on drift counts as seen, and as possible."""
FEWEST_PAIRS = 10
"""With fewer pairs of intervals, no drift could ever be seen surely."""
LITTLE = 1.2
"""Drift of less than so many times the noise is little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpread:
    """How far apart the clients of one cluster lie at the first step.

    Parameters
    ----------
    n_clusters
        Clusters that the coordinator makes of the first reports.
    delta_within
        The paper's Delta: the largest distance between two clients of one cluster; None if all are singletons.
    is_exact
        False if a cluster was too large for all its pairs, so that the number is a lower bound.
    """

    n_clusters: int
    delta_within: float | None
    is_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportsInspection:
    """A stream of reports: its numbers, and the spread of its first clusters."""

    reports: ReportsDescription
    clusters: ClusterSpread


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceInspection:
    """A trace: its numbers, those of its windowed histograms with a report at every change, and whether it drifts."""

    trace: TraceDescription
    reports: ReportsDescription
    clusters: ClusterSpread
    verdict: str


def inspect_reports(reports: ReportStream, metric: str) -> ReportsInspection:
    """Describe reports under a metric."""
    clusters = first_clusters(reports, metric)
    return ReportsInspection(reports=describe_reports(reports, metric_named(metric)), clusters=clusters)


def inspect_trace(trace: Trace, plan: WindowPlan, metric: str) -> TraceInspection:
    """Describe a trace, and the reports that its clients would send if they told every change."""
    description = describe_trace(trace, plan.interval, align=plan.align)
    reports = inspect_reports(report_stream(trace, plan=plan, drift_test=AnyChange()), metric)
    return TraceInspection(
        trace=description, reports=reports.reports, clusters=reports.clusters, verdict=drift_verdict(description)
    )


def drift_verdict(trace: TraceDescription) -> str:
    """Return in words whether label shares drift beyond sampling noise, and on what that rests."""
    if trace.drift is None or trace.noise is None or trace.excess is None:
        if trace.n_intervals == 1:
            return "cannot be told: all samples fall into one interval; take a shorter --interval"
        return (
            f"cannot be told: no client has two consecutive intervals with at least {trace.min_samples} samples each; "
            "take a longer --interval"
        )
    told = f"label shares move by {trace.drift:.2g} from interval to interval, sampling alone gives {trace.noise:.2g}"
    told += f" ({trace.n_pairs:,} pairs of intervals of {trace.n_clients_compared:,} clients)"
    if trace.excess >= SURE:
        return f"{'yes' if trace.drift >= LITTLE * trace.noise else 'yes, but little'}: {told}"
    if trace.n_pairs < FEWEST_PAIRS:
        return f"cannot be told from so little: {told}"
    return f"{'perhaps' if trace.excess >= UNSURE else 'no'}: {told}"


def first_clusters(reports: ReportStream, metric: str) -> ClusterSpread:
    """Cluster the reports of the first step and measure how far apart the clients of a cluster lie."""
    coordinator = Coordinator(Policy(metric=metric, kind=reports.kind))
    step, batch = next(iter(reports))
    decision = coordinator.update(batch, step=step)
    registry = coordinator.registry
    spread = spread_within(
        registry.active_points(),
        registry.membership[registry.active_rows()],
        metric=coordinator.metric,
        rng=stream(0, "spread"),
    )
    return ClusterSpread(n_clusters=decision.n_live, delta_within=spread.largest, is_exact=spread.is_exact)
