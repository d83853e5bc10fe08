from dataclasses import replace

import numpy as np
import pytest

from fielding.errors import OptionError
from fielding.traces.diagnosis import drift_verdict, inspect_reports, inspect_trace
from fielding.traces.histograms import WindowPlan
from fielding.traces.reports import ReportStream
from fielding.traces.statistics import describe_trace
from fielding.traces.trace import Trace


def two_groups() -> ReportStream:
    rows = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9], [0.5, 0.5]])
    return ReportStream(
        kind="histogram",
        client_ids=("a", "b", "c", "d"),
        client=np.array([0, 1, 2, 3, 0]),
        step=np.array([0, 0, 0, 0, 3]),
        representations=rows,
    )


def test_delta_is_the_largest_step_and_delta_within_the_widest_first_cluster() -> None:
    found = inspect_reports(two_groups(), "l1")

    assert found.reports.delta == pytest.approx(1.0)
    assert (found.clusters.n_clusters, found.clusters.is_exact) == (2, True)
    assert found.clusters.delta_within == pytest.approx(0.2)


def test_a_metric_that_does_not_fit_is_refused_before_anything_is_measured() -> None:
    stream = two_groups()
    vectors = ReportStream(
        kind="vector",
        client_ids=stream.client_ids,
        client=stream.client,
        step=stream.step,
        representations=stream.representations - 0.5,
    )

    with pytest.raises(OptionError, match="use it with kind 'histogram'"):
        inspect_reports(vectors, "hellinger")


def test_a_trace_is_inspected_through_its_windowed_histograms() -> None:
    rng = np.random.default_rng(0)
    trace = Trace(
        client_ids=("a", "b", "c"),
        client=np.tile(np.arange(3, dtype=np.int32), 400),
        time=np.repeat(np.arange(400.0), 3),
        y=rng.integers(0, 2, 1200).astype(np.int32),
        classes=("cat", "dog"),
    )

    found = inspect_trace(trace, WindowPlan(interval="100s", gap=1, window=1), "l1")

    assert found.trace.drift == pytest.approx(found.trace.noise, abs=0.1)
    assert found.reports.n_steps == 4


def drifting(*, is_drifting: bool, n_clients: int = 10, n_intervals: int = 4) -> Trace:
    """Return 40 samples per client and interval of 100 seconds, whose labels turn from cats to dogs or never do."""
    rng = np.random.default_rng(5)
    n_rows = 40 * n_clients * n_intervals
    time = np.linspace(0.0, 100.0 * n_intervals - 1.0, n_rows)
    share = time / time.max() if is_drifting else 0.5
    return Trace(
        client_ids=tuple(range(n_clients)),
        client=np.arange(n_rows, dtype=np.int32) % n_clients,
        time=time,
        y=(rng.random(n_rows) < share).astype(np.int32),
        classes=("cat", "dog"),
    )


@pytest.mark.parametrize(
    ("trace", "interval", "verdict"),
    [
        (drifting(is_drifting=True), "100s", "yes: label shares move by"),
        (drifting(is_drifting=False), "100s", "no: label shares move by"),
        (drifting(is_drifting=True, n_clients=1), "100s", "cannot be told from so little"),
        (drifting(is_drifting=True), "10s", "take a longer --interval"),
        (drifting(is_drifting=True), "1d", "all samples fall into one interval; take a shorter --interval"),
    ],
)
def test_the_verdict_says_whether_it_drifts_and_on_what_that_rests(trace: Trace, interval: str, verdict: str) -> None:
    assert verdict in drift_verdict(describe_trace(trace, interval))


def test_without_drift_the_verdict_is_hardly_ever_yes() -> None:
    rng = np.random.default_rng(6)
    still = drifting(is_drifting=False, n_clients=6)
    told = [
        drift_verdict(describe_trace(replace(still, y=rng.integers(0, 2, still.n_rows).astype(np.int32)), "100s"))
        for _ in range(200)
    ]

    assert sum(one.startswith("yes") for one in told) <= 4
