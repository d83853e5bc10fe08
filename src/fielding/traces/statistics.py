"""What `fielding data info` tells of a trace, a pool or a reports file: size, span, and how much it drifts."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fielding._typing import Codes, Counts, Floats, Mask, Vector
from fielding.client.report import row_chunks, silent_rows
from fielding.distance import Metric
from fielding.traces.intervals import Align, Interval, checked_align, parse_interval
from fielding.traces.reports import ReportStream
from fielding.traces.trace import Trace
from fielding.traces.windows import MIN_SAMPLES, measure_drift

PAIR_BLOCK = 16
"""Pairs whose distances are taken from the diagonal of one small matrix: metrics only know all against all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Five numbers that stand for many.

    Parameters
    ----------
    least, lower, median, upper, most
        The minimum, the quartiles and the maximum.
    """

    least: float
    lower: float
    median: float
    upper: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceDescription:
    """A trace in numbers.

    Parameters
    ----------
    n_rows, n_samples, n_clients, n_classes
        Sizes; samples are rows times their counts.
    first_time, last_time, span
        When the samples came, in the unit of the trace (unix seconds).
    samples_per_client
        Their spread over clients.
    interval, align, n_intervals
        How the time was cut.
    active_per_interval
        In how many clients an interval finds samples, on average.
    drift, noise
        Mean L1 distance between the label shares of adjacent intervals, and what chance alone would make of it; None
        if no client has two adjacent intervals with ``min_samples`` samples each.
    excess
        How many standard errors drift lies above noise.
    min_samples, n_pairs, n_clients_compared
        What drift and noise were measured on.
    """

    n_rows: int
    n_samples: int
    n_clients: int
    n_classes: int
    first_time: float
    last_time: float
    span: float
    samples_per_client: Quantiles
    interval: Interval
    align: Align
    n_intervals: int
    active_per_interval: float
    drift: float | None
    noise: float | None
    excess: float | None
    min_samples: int
    n_pairs: int
    n_clients_compared: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDescription:
    """Samples without clients and times in numbers.

    Parameters
    ----------
    n_samples, n_classes
        Sizes.
    shape
        Of the features of a sample; None for images that are not decoded yet.
    samples_per_class
        How many samples each class has, in the order of the classes.
    """

    n_samples: int
    n_classes: int
    shape: tuple[int, ...] | None
    samples_per_class: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportsDescription:
    """A reports file in numbers.

    Parameters
    ----------
    n_rows, n_steps, n_clients, n_features, n_silent
        Sizes; silent are the reports that say that a client has no data any more.
    first_step, last_step
        Where it begins and ends.
    reports_per_client
        Their spread over clients.
    metric
        The name of the distance.
    delta, mean_step
        The largest and the mean distance between two consecutive reports of one client (silence in between does not
        count as a report); None if no client reports twice.
    drift, n_pairs
        The mean over clients of their mean distance, and how many pairs of reports there are.
    """

    n_rows: int
    n_steps: int
    n_clients: int
    n_features: int
    n_silent: int
    first_step: int
    last_step: int
    reports_per_client: Quantiles
    metric: str
    delta: float | None
    mean_step: float | None
    drift: float | None
    n_pairs: int


def describe_trace(
    trace: Trace, interval: Interval | str = "1d", *, align: str = "calendar", min_samples: int = MIN_SAMPLES
) -> TraceDescription:
    """Return a trace in numbers.

    Parameters
    ----------
    trace
        The trace.
    interval, align
        How its time is cut into windows between which drift is measured; see :meth:`Trace.interval_of`.
    min_samples
        Windows with fewer samples are left out of drift and noise.
    """
    window_of = trace.interval_of(interval, align=align)
    measured = measure_drift(trace, window_of, min_samples=min_samples)
    samples, n_intervals = trace.samples_per_client(), int(window_of.max()) + 1
    first, last = float(trace.time.min()), float(trace.time.max())
    return TraceDescription(
        n_rows=trace.n_rows,
        n_samples=int(samples.sum()),
        n_clients=len(trace.client_ids),
        n_classes=len(trace.classes),
        first_time=first,
        last_time=last,
        span=last - first,
        samples_per_client=_quantiles(samples),
        interval=parse_interval(interval),
        align=checked_align(align),
        n_intervals=n_intervals,
        active_per_interval=np.unique(trace.client.astype(np.int64) * n_intervals + window_of).size / n_intervals,
        drift=measured.drift,
        noise=measured.noise,
        excess=measured.excess,
        min_samples=min_samples,
        n_pairs=measured.n_pairs,
        n_clients_compared=measured.n_clients,
    )


def describe_pool(y: Codes, classes: Sequence[str], *, shape: tuple[int, ...] | None = None) -> PoolDescription:
    """Return labelled samples in numbers.

    Parameters
    ----------
    y
        The label of each sample, as a position in ``classes``, shape ``(n_samples,)``.
    classes
        The names of the labels.
    shape
        Of the features of a sample, if it is known.

    Examples
    --------
    >>> describe_pool(np.array([0, 1, 1], dtype=np.int32), ("cat", "dog"), shape=(8, 8)).samples_per_class
    {'cat': 1, 'dog': 2}
    """
    counts = np.bincount(y, minlength=len(classes)).tolist()
    return PoolDescription(
        n_samples=int(y.size),
        n_classes=len(classes),
        shape=shape,
        samples_per_class=dict(zip(classes, counts, strict=True)),
    )


def describe_reports(reports: ReportStream, metric: Metric) -> ReportsDescription:
    """Return a stream of reports in numbers.

    Parameters
    ----------
    reports
        The stream.
    metric
        The distance between two reports of one client.
    """
    silent = silent_rows(reports.representations)
    clients, distances = _steps_of_clients(reports, silent, metric)
    who, pairs_of = np.unique(clients, return_inverse=True)
    means = np.bincount(pairs_of, distances) / np.bincount(pairs_of) if who.size else np.empty(0)
    steps = reports.steps()
    return ReportsDescription(
        n_rows=reports.n_rows,
        n_steps=int(steps.size),
        n_clients=len(reports.client_ids),
        n_features=int(reports.representations.shape[1]),
        n_silent=int(silent.sum()),
        first_step=int(steps[0]),
        last_step=int(steps[-1]),
        reports_per_client=_quantiles(np.bincount(reports.client, minlength=len(reports.client_ids))),
        metric=metric.name,
        delta=float(distances.max()) if distances.size else None,
        mean_step=float(distances.mean()) if distances.size else None,
        drift=float(means.mean()) if means.size else None,
        n_pairs=int(distances.size),
    )


def _quantiles(values: Counts) -> Quantiles:
    five = np.quantile(values, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist()
    return Quantiles(least=five[0], lower=five[1], median=five[2], upper=five[3], most=five[4])


def _steps_of_clients(reports: ReportStream, silent: Mask, metric: Metric) -> tuple[Counts, Vector]:
    """Return, for each pair of consecutive reports of one client, the client and the distance."""
    spoken = np.flatnonzero(~silent)
    order = spoken[np.lexsort((reports.step[spoken], reports.client[spoken]))]
    first = np.flatnonzero(np.diff(reports.client[order]) == 0)
    before, after = order[first], order[first + 1]
    distances = np.empty(first.size)
    for part in row_chunks(first.size, 4096):
        earlier, later = reports.representations[before[part]], reports.representations[after[part]]
        distances[part] = paired_distances(earlier, later, metric)
    return reports.client[before].astype(np.int64), distances


def paired_distances(first: Floats, second: Floats, metric: Metric) -> Vector:
    """Return the distance between each row of one matrix and the same row of another.

    Examples
    --------
    >>> from fielding.distance import metric_named
    >>> paired_distances(np.eye(2), np.array([[1.0, 0.0], [1.0, 0.0]]), metric_named("l1")).tolist()
    [0.0, 2.0]
    """
    ends = [*range(0, first.shape[0], PAIR_BLOCK), first.shape[0]]
    blocks = [metric.between(first[start:stop], second[start:stop]).diagonal() for start, stop in pairwise(ends)]
    return np.concatenate([np.empty(0), *blocks])
