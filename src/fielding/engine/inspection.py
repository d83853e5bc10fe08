"""What a trace or a stream of reports is like, in the paper's terms: drift, delta, Delta."""

from dataclasses import dataclass

from fielding.client.drift import AnyChange
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.diameter import spread_within
from fielding.coordinator.policy import Policy
from fielding.distance import metric_named
from fielding.rng import stream
from fielding.traces.histograms import WindowPlan, report_stream
from fielding.traces.reports import ReportStream
from fielding.traces.statistics import ReportsDescription, TraceDescription, describe_reports, describe_trace
from fielding.traces.trace import Trace


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
    """A trace: its numbers, and those of its windowed histograms with a report at every change."""

    trace: TraceDescription
    reports: ReportsDescription
    clusters: ClusterSpread


def inspect_reports(reports: ReportStream, metric: str) -> ReportsInspection:
    """Describe reports under a metric."""
    clusters = first_clusters(reports, metric)
    return ReportsInspection(reports=describe_reports(reports, metric_named(metric)), clusters=clusters)


def inspect_trace(trace: Trace, plan: WindowPlan, metric: str) -> TraceInspection:
    """Describe a trace, and the reports that its clients would send if they told every change."""
    description = describe_trace(trace, plan.interval, align=plan.align)
    reports = inspect_reports(report_stream(trace, plan=plan, drift_test=AnyChange()), metric)
    return TraceInspection(trace=description, reports=reports.reports, clusters=reports.clusters)


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
