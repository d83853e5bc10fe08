from dataclasses import asdict

import numpy as np
import pytest

from fielding.client.report import ReportBatch
from fielding.distance import METRICS, metric_named
from fielding.rng import stream
from fielding.traces.reports import ReportStream, gather_reports
from fielding.traces.statistics import describe_reports, describe_trace, paired_distances
from fielding.traces.trace import Trace

L1 = metric_named("l1")


def reports(*rows: tuple[int, str, list[float]]) -> ReportStream:
    return gather_reports(
        [(step, ReportBatch(client_ids=[who], representations=np.array([shares]))) for step, who, shares in rows],
        kind="histogram",
    )


def test_a_trace_is_described_in_numbers() -> None:
    trace = Trace(
        client_ids=("a", "b"),
        client=np.array([0, 0, 1]),
        time=np.array([0.0, 86_400.0, 90_000.0]),
        y=np.array([0, 1, 0]),
        classes=("cat", "dog"),
        count=np.array([30, 30, 5]),
    )

    found = describe_trace(trace, "1d")

    assert (found.n_rows, found.n_samples, found.n_clients, found.n_classes) == (3, 65, 2, 2)
    assert (found.first_time, found.last_time, found.span) == (0.0, 90_000.0, 90_000.0)
    assert (found.samples_per_client.least, found.samples_per_client.median, found.samples_per_client.most) == (
        5.0,
        32.5,
        60.0,
    )
    assert (found.interval, found.align, found.n_intervals, found.active_per_interval) == (86_400.0, "calendar", 2, 1.5)
    assert (found.drift, found.n_pairs, found.n_clients_compared) == (2.0, 1, 1)
    assert found.noise is not None
    assert 0.0 < found.noise < 0.3
    assert asdict(found)["samples_per_client"]["upper"] == 46.25


def test_a_trace_without_two_full_windows_has_no_drift_to_tell() -> None:
    trace = Trace(client_ids=(1,), client=np.array([0]), time=np.array([0.0]), y=np.array([0]), classes=("cat",))

    assert describe_trace(trace).drift is None
    assert describe_trace(trace).noise is None


def test_the_largest_step_is_that_of_one_client_between_two_of_its_reports() -> None:
    found = describe_reports(
        reports(
            (0, "a", [1.0, 0.0]),
            (0, "b", [0.0, 1.0]),
            (4, "a", [0.5, 0.5]),
            (2, "a", [0.75, 0.25]),
            (9, "b", [0.0, 1.0]),
        ),
        L1,
    )

    assert (found.n_rows, found.n_steps, found.n_clients, found.n_features) == (5, 4, 2, 2)
    assert (found.first_step, found.last_step) == (0, 9)
    assert (found.delta, found.drift, found.n_pairs) == (0.5, 0.25, 3)
    assert found.mean_step == pytest.approx(1 / 3)
    assert (found.reports_per_client.least, found.reports_per_client.most) == (2.0, 3.0)


def test_silence_is_no_step() -> None:
    found = describe_reports(reports((0, "a", [1.0, 0.0]), (1, "a", [0.0, 0.0]), (2, "a", [0.5, 0.5])), L1)

    assert found.n_silent == 1
    assert found.delta == 1.0
    assert found.n_pairs == 1


def test_clients_that_report_once_have_no_step() -> None:
    found = describe_reports(reports((0, "a", [1.0, 0.0])), L1)

    assert (found.delta, found.mean_step, found.drift, found.n_pairs) == (None, None, None, 0)


@pytest.mark.parametrize("name", sorted(METRICS))
@pytest.mark.parametrize("n_rows", [0, 1, 16, 41])
def test_pairs_are_as_far_apart_as_the_metric_says(name: str, n_rows: int) -> None:
    first, second = stream(1, "test").dirichlet([0.5] * 4, size=(2, n_rows))
    metric = metric_named(name)

    expected = [metric.between(first[[row]], second[[row]])[0, 0] for row in range(n_rows)]
    assert paired_distances(first, second, metric).tolist() == pytest.approx(expected, abs=1e-12)
