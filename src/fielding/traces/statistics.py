"""What `fielding data info` tells of a trace, a pool or a reports file: size, span, and how much it drifts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fielding._typing import Codes, Counts, Floats, Vector
from fielding.client.report import row_chunks, silent_rows
from fielding.client.representation.label import shares_of
from fielding.distance import Metric
from fielding.errors import OptionError, echo
from fielding.traces.intervals import Align, Interval, checked_align, parse_interval
from fielding.traces.reports import ReportStream
from fielding.traces.trace import Trace

MIN_SAMPLES = 20  # windows with fewer samples are not compared: their shares are mostly noise
CHUNK_CELLS = 2**21  # counts that are looked at together: windows times labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How much the label shares of clients change, as L1 distances from 0 to 2.

    Parameters
    ----------
    drift
        Distance between the shares of a client in two adjacent windows: mean over its pairs of windows, then over
        clients; None if there is no pair.
    noise
        What the same would be if the samples of each two windows were dealt to them anew at random.
    excess
        How many standard errors drift lies above noise, at most the root of the number of pairs; None if there is none.
    """

    drift: float | None
    noise: float | None
    excess: float | None
    n_pairs: int
    n_clients: int


def measure_drift(trace: Trace, window_of: Counts, *, min_samples: int = MIN_SAMPLES) -> Drift:
    """Return how much a trace drifts from window to window, and how much of that is sampling noise.

    ``window_of``: from :meth:`Trace.interval_of`. Pairs in which a window has fewer than ``min_samples`` are left out.

    Examples
    --------
    >>> trace = Trace(client_ids=("a",), client=np.zeros(80, dtype=np.int32), time=np.arange(80.0),
    ...               y=np.repeat([0, 1], 40), classes=("cat", "dog"))
    >>> measured = measure_drift(trace, trace.interval_of("40s"))
    >>> measured.drift, round(measured.noise, 3), measured.excess
    (2.0, 0.177, 1.0)
    """
    if min_samples < 1:
        raise OptionError(f"min_samples is {echo(min_samples)}; a window needs at least 1 sample to be compared")
    clients, distances, expected = [np.empty(0, dtype=np.int64)], [np.empty(0)], [np.empty(0)]
    for client, first, second in _adjacent_pairs(trace, window_of, min_samples):
        clients.append(client)
        distances.append(np.abs(shares_of(first) - shares_of(second)).sum(axis=1))
        expected.append(dealt_distance(first, second))
    who, pairs_of = np.unique(np.concatenate(clients), return_inverse=True)
    n_pairs = int(pairs_of.size)
    if n_pairs == 0:
        return Drift(drift=None, noise=None, excess=None, n_pairs=0, n_clients=0)
    weights = (1.0 / (who.size * np.bincount(pairs_of)))[pairs_of]
    drift, noise = np.concatenate(distances) * weights, np.concatenate(expected) * weights
    return Drift(
        drift=float(drift.sum()),
        noise=float(noise.sum()),
        excess=standard_errors(drift - noise),
        n_pairs=n_pairs,
        n_clients=int(who.size),
    )


def standard_errors(parts: Vector) -> float:
    """Return how many standard errors a sum lies above 0 if its parts are independent and 0 on average.

    Nothing is assumed of their spread, so that a few parts never prove much. Neighboring pairs share a window, which
    makes them a little alike: ask for three standard errors where two would do.
    """
    error = float(np.sqrt((parts**2).sum()))
    return float(parts.sum()) / error if error > 0.0 else 0.0


def _adjacent_pairs(trace: Trace, window_of: Counts, min_samples: int) -> Iterator[tuple[Counts, Counts, Counts]]:
    """Yield, in chunks, the client and the two histograms of each pair of adjacent windows with enough samples."""
    n_windows, n_labels = int(window_of.max()) + 2, len(trace.classes)
    keys, cell_of = np.unique(trace.client.astype(np.int64) * n_windows + window_of, return_inverse=True)
    cells, counts_of = np.unique(cell_of * n_labels + trace.y, return_inverse=True)
    counts = np.bincount(counts_of, weights=trace.count).astype(np.int64)
    enough = np.bincount(cells // n_labels, weights=counts) >= min_samples
    # The key of the window after the last of a client is never used, so that neighbours are of one client.
    size = max(1, CHUNK_CELLS // n_labels)
    for start in range(0, keys.size - 1, size):
        stop = min(start + size + 1, keys.size)
        begin, end = np.searchsorted(cells, [start * n_labels, stop * n_labels])
        dense = np.zeros((stop - start, n_labels), dtype=np.int64)
        dense.reshape(-1)[cells[begin:end] - start * n_labels] = counts[begin:end]
        paired = (np.diff(keys[start:stop]) == 1) & enough[start : stop - 1] & enough[start + 1 : stop]
        first = np.flatnonzero(paired)
        yield keys[start + first] // n_windows, dense[first], dense[first + 1]


def dealt_distance(first: Counts, second: Counts) -> Vector:
    """Return the expected L1 distance of shares if the samples of both were dealt to the two sides at random.

    Shape ``(n_pairs,)``, exact: what a permutation test would give after infinitely many permutations. The number of
    samples of a label on the first side is hypergeometric, and its mean absolute deviation is known in closed form
    (De Moivre's telescoping sum); no normal approximation, which is too low for rare labels.

    Examples
    --------
    Of the six ways to deal two cats and two dogs to two sides, two part them (distance 2) and four do not (0).

    >>> dealt_distance(np.array([[2, 0]]), np.array([[0, 2]])).round(4).tolist()
    [0.6667]
    """
    from scipy.special import gammaln

    size, other = first.sum(axis=1, keepdims=True), second.sum(axis=1, keepdims=True)
    total, of_label = size + other, first + second
    above = size * of_label // total + 1  # the first whole number above the mean
    possible = above <= np.minimum(size, of_label)
    drawn = np.where(possible, above, np.maximum(0, of_label - other))

    def log_choose(n: Counts, k: Counts) -> Vector:
        return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))

    log_share = log_choose(of_label, drawn) + log_choose(total - of_label, size - drawn) - log_choose(total, size)
    deviation = 2.0 * drawn * (total - of_label - size + drawn) / total * np.exp(log_share)
    return np.asarray((np.where(possible, deviation, 0.0) * (total / (size * other))).sum(axis=1))


PAIR_BLOCK = 16
"""Pairs whose distances are taken from the diagonal of one small matrix: metrics only know all against all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """The minimum, the quartiles and the maximum of many numbers."""

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
    shape
        Of a sample's features; None for labels alone.
    first_time, last_time, span
        When the samples came, in the unit of the trace (unix seconds).
    active_per_interval
        In how many clients an interval finds samples, on average.
    drift, noise
        Mean L1 distance between the label shares of adjacent intervals, and what chance alone would make of it; None
        if no client has two adjacent intervals with ``min_samples`` samples each.
    """

    n_rows: int
    n_samples: int
    n_clients: int
    n_classes: int
    shape: tuple[int, ...] | None
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

    ``shape`` of a sample's features; of images the one that they are brought to.
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

    Drift is measured between windows; those with fewer than ``min_samples`` samples are left out of drift and noise.
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
        shape=None if trace.x is None else tuple(int(size) for size in trace.x.shape[1:]),
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
    """Return labelled samples in numbers; the shape is that of the features of a sample, if it is known."""
    counts = np.bincount(y, minlength=len(classes)).tolist()
    return PoolDescription(
        n_samples=int(y.size),
        n_classes=len(classes),
        shape=shape,
        samples_per_class=dict(zip(classes, counts, strict=True)),
    )


def describe_reports(reports: ReportStream, metric: Metric) -> ReportsDescription:
    """Return a stream of reports in numbers; the metric measures the distance between two reports of one client."""
    silent = silent_rows(reports.representations)
    # Pairs of consecutive reports of one client.
    spoken = np.flatnonzero(~silent)
    order = spoken[np.lexsort((reports.step[spoken], reports.client[spoken]))]
    first = np.flatnonzero(np.diff(reports.client[order]) == 0)
    before, after = order[first], order[first + 1]
    distances = np.empty(first.size)
    for part in row_chunks(first.size, 4096):
        earlier, later = reports.representations[before[part]], reports.representations[after[part]]
        distances[part] = paired_distances(earlier, later, metric)
    clients = reports.client[before].astype(np.int64)
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


def paired_distances(first: Floats, second: Floats, metric: Metric) -> Vector:
    """Return the distance between each row of one matrix and the same row of another."""
    ends = [*range(0, first.shape[0], PAIR_BLOCK), first.shape[0]]
    blocks = [metric.between(first[start:stop], second[start:stop]).diagonal() for start, stop in pairwise(ends)]
    return np.concatenate([np.empty(0), *blocks])
