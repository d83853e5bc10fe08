"""A trace turned into label-histogram reports: what its clients would have reported, and when."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fielding.client.arrivals import Arrivals
from fielding.client.drift import DriftTest
from fielding.client.fleet import Fleet
from fielding.client.report import ReportBatch
from fielding.errors import InputError, OptionError, echo
from fielding.traces.intervals import Interval, checked_align, parse_interval
from fielding.traces.reports import ReportStream, gather_reports
from fielding.traces.trace import Trace

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
        Rounds that a sample stays visible, and rounds' worth of data before training starts.

    Examples
    --------
    Of intervals of 30 rounds, 3 are complete after 100; the fourth is at round 20 of the training.

    >>> plan = WindowPlan(interval="1d", gap=30, window=100)
    >>> plan.n_first, plan.n_visible, [plan.step_of(interval) for interval in range(5)]
    (3, 4, [0, 0, 0, 20, 50])
    """

    interval: Interval | str = "1d"
    gap: int = 2
    window: int = 100
    align: str = "calendar"

    def __post_init__(self) -> None:
        parse_interval(self.interval)
        checked_align(self.align)
        for name, rounds in (("gap", self.gap), ("window", self.window)):
            if not isinstance(rounds, int) or isinstance(rounds, bool) or not 1 <= rounds < 2**31:
                raise OptionError(f"{name} is {echo(rounds)}; give a whole number of rounds, at least 1")

    @property
    def n_first(self) -> int:
        """How many intervals are complete when training starts; at least one."""
        return max(1, self.window // self.gap)

    @property
    def n_visible(self) -> int:
        """How many intervals a window shows."""
        return -(-self.window // self.gap)

    def step_of(self, interval_index: int) -> int:
        """Return the training round at which an interval is complete; 0 for those before the start."""
        return max(0, (interval_index + 1) * self.gap - self.window)


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
    order = np.argsort(interval_of, kind="stable")
    sorted_intervals, weights = interval_of[order], trace.weights
    n_intervals = int(sorted_intervals[-1]) + 1
    start = min(plan.n_first, n_intervals) - 1
    fleet = Fleet(
        len(trace.client_ids), len(trace.classes), drift_test=drift_test, max_rounds=plan.n_visible * plan.gap
    )
    # Where something may be reported: samples come, samples leave, or the test goes by the clock.
    filled = np.unique(sorted_intervals)
    eventful = np.unique(np.concatenate([filled, filled + plan.n_visible, [start]]))
    for interval in range(n_intervals) if drift_test.is_timed else eventful[eventful < n_intervals].tolist():
        if interval == start:
            # A client that reported while the first window filled up reports all of it now.
            fleet.report_again(np.flatnonzero(fleet.counts.any(axis=1)))
        begin, end = np.searchsorted(sorted_intervals, [interval, interval + 1])
        rows = order[begin:end]
        arrivals = Arrivals(
            clients=trace.client[rows].astype(np.int64), labels=trace.y[rows].astype(np.int64), counts=weights[rows]
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
