"""A trace turned into label-histogram reports: what its clients would have reported, and when."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Vector
from fielding.client.arrivals import Arrivals
from fielding.client.drift import DriftTest
from fielding.client.fleet import Fleet
from fielding.client.report import ReportBatch
from fielding.errors import InputError, OptionError, echo
from fielding.traces.intervals import (
    SECONDS,
    Interval,
    checked_align,
    interval_indices,
    parse_interval,
    parse_span,
)
from fielding.traces.reports import ReportStream, gather_reports
from fielding.traces.trace import Trace

MONTH = (28 * SECONDS["d"], 31 * SECONDS["d"])  # the shortest and the longest, seconds
MOST_CELLS = 2**28
"""Clients times classes beyond this would fill the memory: then the labels are no classes but texts or numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlan:
    """How the real time of a trace maps to training rounds (METHODS.md B6).

    Parameters
    ----------
    interval
        Real time between two arrivals of data: seconds, a text such as ``"1d"``, or ``"month"``.
    window
        Rounds that a sample stays visible, and rounds' worth of data before training starts; or a length of time such
        as ``"14d"``, at least an interval: then a window shows the samples of so much time before the end of the newest
        interval, and training starts with as many whole intervals as fit.

    Examples
    --------
    Of intervals of 30 rounds, 3 are complete after 100; the fourth is at round 20 of the training.

    >>> plan = WindowPlan(interval="1d", gap=30, window=100)
    >>> plan.n_first, plan.n_visible, [plan.step_of(interval) for interval in range(5)]
    (3, 4, [0, 0, 0, 20, 50])
    >>> plan = WindowPlan(interval="1d", gap=30, window="84h")
    >>> plan.lead, plan.n_first, plan.n_visible, plan.step_of(3)
    (90, 3, 4, 30)
    """

    interval: Interval | str = "1d"
    gap: int = 2
    window: int | str = 100
    align: str = "calendar"

    def __post_init__(self) -> None:
        length = parse_interval(self.interval)
        checked_align(self.align)
        numbers: dict[str, object] = {"gap": self.gap}
        if isinstance(self.window, str):
            least = max(MONTH) if length == "month" else length
            if window_seconds(self.window) < least:
                raise OptionError(
                    f"window is {echo(self.window)}; it must be at least the interval, {self.interval}: samples would "
                    "leave before they arrive"
                )
        else:
            numbers["window"] = self.window
        for name, rounds in numbers.items():
            if not isinstance(rounds, int) or isinstance(rounds, bool) or not 1 <= rounds < 2**31:
                raise OptionError(f"{name} is {echo(rounds)}; give a whole number of rounds, at least 1")

    @property
    def seconds(self) -> float | None:
        """How long a sample stays visible; None if that is counted in rounds."""
        return window_seconds(self.window) if isinstance(self.window, str) else None

    @property
    def lead(self) -> int:
        """Rounds' worth of data before training starts."""
        return self._n_whole(max(MONTH))[0] * self.gap if isinstance(self.window, str) else self.window

    @property
    def n_first(self) -> int:
        """How many intervals are complete when training starts; at least one."""
        return max(1, self.lead // self.gap)

    @property
    def n_visible(self) -> int:
        """How many intervals a window shows, at most."""
        return sum(self._n_whole(min(MONTH))) if isinstance(self.window, str) else -(-self.window // self.gap)

    def _n_whole(self, month: float) -> tuple[int, bool]:
        """Return how many whole intervals fit into a window by time, and whether there is more to it."""
        length, seconds = parse_interval(self.interval), self.seconds or 0.0
        return whole_part(seconds, month if length == "month" else length)

    def last_intervals(self, time: Vector, interval: Counts, first: Vector) -> Counts | None:
        """Return by the end of which interval each sample has left its window; None if windows count rounds.

        ``interval``: in which it came; ``first``: where interval 0 of its client begins.
        """
        seconds, length = self.seconds, parse_interval(self.interval)
        if seconds is None:
            return None
        if length == "month":
            return interval_indices(time + seconds, length, first)
        n_whole, has_more = whole_part(seconds, length)
        if not has_more:  # exactly, whatever floating-point numbers make of the times
            return interval + n_whole
        return interval_indices(time + (seconds - n_whole * length), length, first) + n_whole

    def step_of(self, interval_index: int) -> int:
        """Return the training round at which an interval is complete; 0 for those before the start."""
        return max(0, (interval_index + 1) * self.gap - self.lead)


def window_seconds(window: str) -> float:
    """Return the length of a window by time; without a unit it may be a number of rounds in quotes, and is refused.

    Examples
    --------
    >>> window_seconds("14d")
    1209600.0
    """
    try:
        if window.strip()[-1:] in SECONDS:
            return parse_span(window)
    except OptionError:
        pass
    raise OptionError(
        f"window is {echo(window)}; give a whole number of rounds, or in quotes a length of time with s, m, h, d or w"
    )


def whole_part(span: float, length: float) -> tuple[int, bool]:
    """Return how often a length fits into a span, and whether something is left over.

    Examples
    --------
    >>> whole_part(0.3, 0.1), whole_part(36.0, 24.0)
    ((3, False), (1, True))
    """
    n_nearest = round(span / length)
    if abs(span - n_nearest * length) <= 1e-9 * span:
        return n_nearest, False
    return int(span // length), True


def label_reports(trace: Trace, *, plan: WindowPlan, drift_test: DriftTest) -> Iterator[tuple[int, ReportBatch]]:
    """Yield the reports of all clients, step by step, as histograms over the classes of the trace.

    Yields
    ------
    The training round and the reports that act in it, rising; rounds without a report are left out. The first is
    START: every client that has data by then. The last interval counts as complete even if the trace ends within it,
    and a trace shorter than the window starts with all it has.
    """
    if len(trace.client_ids) * len(trace.classes) > MOST_CELLS:
        raise InputError(
            f"{len(trace.client_ids)} clients times {len(trace.classes)} classes are too many histograms to keep; "
            "check the label column, or keep fewer clients"
        )
    interval_of = trace.interval_of(plan.interval, align=plan.align)
    first = trace.first_times(parse_interval(plan.interval), checked_align(plan.align))[trace.client]
    last_of = plan.last_intervals(trace.time, interval_of, first)
    order = np.argsort(interval_of, kind="stable")
    sorted_intervals, weights = interval_of[order], trace.weights
    n_intervals = int(sorted_intervals[-1]) + 1
    start = min(plan.n_first, n_intervals) - 1
    fleet = Fleet(
        len(trace.client_ids), len(trace.classes), drift_test=drift_test, max_rounds=plan.n_visible * plan.gap
    )
    # Where something may be reported: samples come, samples leave, or the test goes by the clock.
    filled = np.unique(sorted_intervals)
    leaving = filled + plan.n_visible if last_of is None else np.unique(last_of)
    eventful = np.unique(np.concatenate([filled, leaving, [start]]))
    for interval in range(n_intervals) if drift_test.is_timed else eventful[eventful < n_intervals].tolist():
        if interval == start:
            # A client that reported while the first window filled up reports all of it now.
            fleet.report_again(np.flatnonzero(fleet.counts.any(axis=1)))
        begin, end = np.searchsorted(sorted_intervals, [interval, interval + 1])
        rows = order[begin:end]
        arrivals = Arrivals(
            clients=trace.client[rows].astype(np.int64),
            labels=trace.y[rows].astype(np.int64),
            counts=weights[rows],
            leave=None if last_of is None else (last_of[rows] + 1) * plan.gap,
        )
        reports = fleet.arrive(arrivals, round_index=(interval + 1) * plan.gap)
        if interval >= start and len(reports):
            ids = [trace.client_ids[at] for at in reports.clients.tolist()]
            yield plan.step_of(interval), ReportBatch(client_ids=ids, representations=reports.representations)


def report_stream(trace: Trace, *, plan: WindowPlan, drift_test: DriftTest) -> ReportStream:
    """Return all reports of :func:`label_reports` as one stream, for `write_reports` or `replay`.

    Examples
    --------
    >>> from fielding.client.drift import AnyChange
    >>> trace = Trace(client_ids=("a", "b"), client=np.array([0, 1, 0, 0]), time=np.array([0.0, 0.0, 1.0, 2.0]),
    ...               y=np.array([0, 0, 0, 1]), classes=("cat", "dog"))
    >>> plan = WindowPlan(interval="1s", gap=1, window=2)
    >>> stream = report_stream(trace, plan=plan, drift_test=AnyChange())
    >>> [(step, batch.client_ids, batch.representations.tolist()) for step, batch in stream]
    [(0, ['a', 'b'], [[1.0, 0.0], [1.0, 0.0]]), (1, ['a', 'b'], [[0.5, 0.5], [0.0, 0.0]])]
    """
    reports = label_reports(trace, plan=plan, drift_test=drift_test)
    return gather_reports(reports, kind="histogram", features=trace.classes)
