import numpy as np
import pytest

from fielding.engine.inspection import inspect_reports, inspect_trace
from fielding.errors import OptionError
from fielding.traces.histograms import WindowPlan
from fielding.traces.reports import ReportStream
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
