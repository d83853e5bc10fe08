import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import ClientId
from fielding.client.drift import Always, AnyChange, DriftTest, Never
from fielding.errors import InputError, OptionError
from fielding.traces import histograms
from fielding.traces.histograms import WindowPlan, label_reports, report_stream
from fielding.traces.trace import Trace


def make(client: list[int], time: list[float], y: list[int], *, count: list[int] | None = None) -> Trace:
    """Return a trace of clients 0, 1, ... with labels a, b, c."""
    return Trace(
        client_ids=tuple(range(max(client) + 1)),
        client=np.array(client, dtype=np.int32),
        time=np.array(time, dtype=np.float64),
        y=np.array(y, dtype=np.int32),
        classes=("a", "b", "c"),
        count=None if count is None else np.array(count),
    )


def listed(trace: Trace, plan: WindowPlan, drift_test: DriftTest) -> list[tuple[int, dict[ClientId, list[float]]]]:
    return [
        (step, dict(zip(batch.client_ids, batch.representations.tolist(), strict=True)))
        for step, batch in label_reports(trace, plan=plan, drift_test=drift_test)
    ]


@pytest.mark.parametrize(
    ("gap", "n_first", "n_visible", "steps"),
    [
        (2, 50, 50, [0] * 50 + [2, 4]),
        (30, 3, 4, [0, 0, 0, 20, 50]),  # Cityscapes
        (20, 5, 5, [0, 0, 0, 0, 0, 20]),  # Waymo
        (50, 2, 2, [0, 0, 50, 100]),  # Open Images
        (150, 1, 1, [50, 200]),
    ],
)
def test_intervals_map_to_rounds_as_in_the_paper(gap: int, n_first: int, n_visible: int, steps: list[int]) -> None:
    plan = WindowPlan(gap=gap, window=100)

    assert (plan.n_first, plan.n_visible) == (n_first, n_visible)
    assert [plan.step_of(interval) for interval in range(len(steps))] == steps


def test_the_start_sums_up_the_first_window_and_later_steps_slide_it() -> None:
    trace = make([0, 0, 0, 0], [0, 1, 2, 3], [0, 1, 1, 2])

    assert listed(trace, WindowPlan(interval=1.0, gap=2, window=4), AnyChange()) == [
        (0, {0: [0.5, 0.5, 0.0]}),
        (2, {0: [0.0, 1.0, 0.0]}),
        (4, {0: [0.0, 0.5, 0.5]}),
    ]


def test_a_client_goes_silent_when_its_window_is_empty_and_returns() -> None:
    trace = make([0, 1, 1, 1, 0], [0, 0, 1, 2, 3], [0, 1, 1, 1, 2])

    assert listed(trace, WindowPlan(interval=1.0, gap=1, window=1), AnyChange()) == [
        (0, {0: [1.0, 0.0, 0.0], 1: [0.0, 1.0, 0.0]}),
        (1, {0: [0.0, 0.0, 0.0]}),
        (3, {0: [0.0, 0.0, 1.0], 1: [0.0, 0.0, 0.0]}),
    ]


def test_a_client_that_comes_late_reports_when_it_comes() -> None:
    trace = make([0, 0, 0, 1], [0, 1, 2, 2], [0, 0, 0, 1])

    assert listed(trace, WindowPlan(interval=1.0, gap=1, window=2), Never()) == [
        (0, {0: [1.0, 0.0, 0.0]}),
        (1, {1: [0.0, 1.0, 0.0]}),
    ]


def test_aligned_by_client_all_start_together() -> None:
    trace = make([0, 0, 1, 1], [0, 1, 100, 101], [0, 1, 2, 1])

    assert listed(trace, WindowPlan(interval=1.0, gap=1, window=1, align="client"), AnyChange()) == [
        (0, {0: [1.0, 0.0, 0.0], 1: [0.0, 0.0, 1.0]}),
        (1, {0: [0.0, 1.0, 0.0], 1: [0.0, 1.0, 0.0]}),
    ]


def test_a_row_counts_as_often_as_it_says() -> None:
    trace = make([0, 0], [0, 0], [0, 1], count=[3, 1])

    assert listed(trace, WindowPlan(interval=1.0, gap=1, window=1), AnyChange()) == [(0, {0: [0.75, 0.25, 0.0]})]


def test_a_trace_shorter_than_the_window_starts_with_all_it_has() -> None:
    assert listed(make([0, 0], [0, 1], [0, 1]), WindowPlan(interval=1.0), AnyChange()) == [(0, {0: [0.5, 0.5, 0.0]})]


def test_the_order_of_rows_has_no_meaning() -> None:
    trace = make([0, 1, 0, 1], [0, 1, 2, 3], [0, 1, 1, 2])
    shuffled = make([1, 0, 1, 0], [3, 2, 1, 0], [2, 1, 1, 0])
    plan = WindowPlan(interval=1.0, gap=1, window=2)

    assert listed(trace, plan, AnyChange()) == listed(shuffled, plan, AnyChange())


@st.composite
def small_traces(draw: st.DrawFn) -> Trace:
    rows = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 2)), min_size=1, max_size=25))
    client, time, y = (list(column) for column in zip(*rows, strict=True))
    return make(client, [float(one) for one in time], y)


@given(small_traces(), st.integers(1, 3), st.integers(1, 6), st.sampled_from([AnyChange(), Always()]))
def test_what_was_last_reported_is_always_the_window(
    trace: Trace, gap: int, window: int, drift_test: DriftTest
) -> None:
    """Replayed, the reports give the shares of the visible intervals of METHODS.md B6 at every step."""
    plan = WindowPlan(interval=1.0, gap=gap, window=window)
    interval_of = trace.interval_of(1.0)
    n_intervals = int(interval_of.max()) + 1
    reports = dict(label_reports(trace, plan=plan, drift_test=drift_test))
    known = np.zeros((len(trace.client_ids), 3))
    first = max(1, window // gap)

    for complete in range(min(first, n_intervals), n_intervals + 1):
        step = max(0, complete * gap - window)
        batch = reports.pop(step, None)
        if batch is not None:
            known[list(map(int, batch.client_ids))] = batch.representations
        seen = (interval_of < complete) & (interval_of >= complete - math.ceil(window / gap))
        counts = np.zeros((len(trace.client_ids), 3))
        np.add.at(counts, (trace.client[seen], trace.y[seen]), 1.0)
        assert known == pytest.approx(counts / np.maximum(1.0, counts.sum(axis=1, keepdims=True)), abs=1e-6)
    assert reports == {}


def test_far_apart_samples_cost_no_time_in_between() -> None:
    found = listed(make([0, 0], [0, 1e9], [0, 1]), WindowPlan(interval=1.0, gap=1, window=1), AnyChange())

    assert [step for step, _ in found] == [0, 1, 10**9]


def test_a_stream_of_reports_carries_the_names_of_the_classes() -> None:
    stream = report_stream(
        make([0, 1], [0, 0], [0, 1]), plan=WindowPlan(interval=1.0, gap=1, window=1), drift_test=Never()
    )

    assert stream.features == ("a", "b", "c")
    assert stream.kind == "histogram"
    assert stream.representations.dtype == np.float32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gap": 0}, "gap is 0; give a whole number of rounds, at least 1"),
        ({"window": 1.5}, "window is 1.5"),
        ({"interval": "fortnight"}, "'fortnight' is no length of time"),
        ({"align": "moon"}, "unknown alignment 'moon'"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        WindowPlan(**options)  # type: ignore[arg-type]


def test_labels_that_are_no_classes_are_refused_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histograms, "MOST_CELLS", 5)

    with pytest.raises(InputError, match="2 clients times 3 classes are too many histograms to keep; check the label"):
        listed(make([0, 1], [0, 0], [0, 1]), WindowPlan(), AnyChange())
