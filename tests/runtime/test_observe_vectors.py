"""Reports of a representation of one's own: when they are due, what they hold, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fielding._typing import Counts, Features, Floats
from fielding.client.drift import Always, AnyChange, Chi2, DriftTest, Never, Periodic, Threshold
from fielding.client.fleet import FleetReports
from fielding.distance import metric_named
from fielding.errors import InputError, OptionError
from fielding.runtime.observe import LabelObserver, VectorObserver
from fielding.traces.histograms import WindowPlan
from fielding.traces.sliding import SlidingWindows
from tests.simulation.run_cases import Sample, planted_windows

PLAN = WindowPlan(gap=1, window=1)
"""Every round brings an interval, and a window shows the newest one only."""


def mean_and_one(x: Features, y: Counts, n_classes: int) -> Floats:
    return np.array([x.mean(), 1.0])


def observer_of(
    windows: SlidingWindows, drift_test: DriftTest, represent: Callable[..., Any] = mean_and_one
) -> VectorObserver:
    return VectorObserver(windows, represent, drift_test=drift_test, metric=metric_named("l1"))


def steady(values: list[float], plan: WindowPlan = PLAN) -> SlidingWindows:
    """Return one client that gets a sample of these values, one per interval."""
    samples = [Sample(client=0, interval=at, value=value) for at, value in enumerate(values)]
    return planted_windows(samples, n_clients=1, plan=plan, n_intervals=len(values))


def rounds_with_reports(observer: VectorObserver | LabelObserver, n_rounds: int) -> list[int]:
    return [at for at in range(n_rounds) if len(observer.observe(at))]


def told(reports: FleetReports) -> dict[int, list[float]]:
    return dict(zip(reports.clients.tolist(), reports.representations.tolist(), strict=True))


@pytest.mark.parametrize("drift_test", [Always(), AnyChange(), Never(), Periodic(rounds=9), Threshold(eps=2.0)])
def test_at_the_start_everyone_with_data_reports_its_training_window(drift_test: DriftTest) -> None:
    samples = [
        Sample(client=0, interval=0, value=2.0),
        Sample(client=0, interval=0, value=4.0),
        Sample(client=0, interval=0, value=99.0, for_testing=True),
        Sample(client=1, interval=0, value=99.0, for_testing=True),
        Sample(client=2, interval=0, value=5.0),
        Sample(client=2, interval=1, value=99.0),
    ]
    windows = planted_windows(samples, n_clients=4, plan=PLAN, n_intervals=2)

    first = observer_of(windows, drift_test).observe(0)

    assert told(first) == {0: [3.0, 1.0], 2: [5.0, 1.0]}
    assert first.n_samples.tolist() == [2, 1]
    assert first.representations.dtype == np.float32


def test_any_change_reports_whatever_moved_and_nothing_else() -> None:
    observer = observer_of(steady([1.0, 1.0, 1.0001, 1.0001, 7.0]), AnyChange())

    assert rounds_with_reports(observer, 5) == [0, 2, 4]


def test_a_threshold_is_passed_just_above_and_not_just_below_or_on_it() -> None:
    below, on, above = (observer_of(steady([1.0, 1.0 + step]), Threshold(eps=0.5)) for step in (0.4999, 0.5, 0.5001))

    assert rounds_with_reports(below, 2) == [0]
    assert rounds_with_reports(on, 2) == [0]
    assert rounds_with_reports(above, 2) == [0, 1]


def test_a_threshold_is_measured_since_the_last_report_and_in_the_metric() -> None:
    creeping = [1.0, 1.4, 1.8, 2.2]
    samples = [Sample(client=0, interval=at, value=value) for at, value in enumerate(creeping)]
    windows = planted_windows(samples, n_clients=1, plan=PLAN, n_intervals=4)

    def along_both(x: Features, y: Counts, n_classes: int) -> Floats:
        return np.array([x.mean(), x.mean()])

    by_l1, by_l2 = (
        VectorObserver(windows, along_both, drift_test=Threshold(eps=1.2), metric=metric_named(name))
        for name in ("l1", "l2")
    )

    assert rounds_with_reports(by_l1, 4) == [0, 2], "0.8 after one step, 1.6 after two"
    assert rounds_with_reports(by_l2, 4) == [0, 3], "0.57, 1.13, 1.70"


def test_periodic_reports_after_so_many_rounds_and_not_before() -> None:
    observer = observer_of(steady([1.0] * 8), Periodic(rounds=3))

    assert rounds_with_reports(observer, 8) == [0, 3, 6]


def test_always_reports_whenever_an_interval_comes_and_never_not_at_all() -> None:
    values = [1.0, 5.0, 1.0, 5.0]
    plan = WindowPlan(gap=2, window=2)

    assert rounds_with_reports(observer_of(steady(values, plan), Always()), 7) == [0, 2, 4, 6]
    assert rounds_with_reports(observer_of(steady(values, plan), Never()), 7) == [0]


@pytest.mark.parametrize("drift_test", [Always(), AnyChange(), Never(), Periodic(rounds=1), Threshold(eps=2.0)])
def test_whoever_loses_all_samples_reports_zeros_once_and_comes_back_with_the_next(drift_test: DriftTest) -> None:
    samples = [
        *(Sample(client=0, interval=at) for at in (0, 3)),
        *(Sample(client=1, interval=at) for at in range(4)),
    ]
    windows = planted_windows(samples, n_clients=2, plan=PLAN, n_intervals=4)
    observer = observer_of(windows, drift_test)
    observer.observe(0)

    gone, quiet, back = (observer.observe(at) for at in (1, 2, 3))

    assert told(gone)[0] == [0.0, 0.0]
    assert gone.n_samples[gone.clients == 0].tolist() == [0]
    assert 0 not in quiet.clients
    assert told(back)[0] == [1.0, 1.0]


def test_a_held_report_is_told_in_the_next_round_and_wakes_nobody_else() -> None:
    samples = [Sample(client=at, interval=0, value=at + 1.0) for at in range(3)]
    windows = planted_windows(samples, n_clients=3, plan=WindowPlan(gap=5, window=5), n_intervals=1)
    observer = observer_of(windows, Always())
    observer.observe(0)

    observer.hold(np.array([1]))

    assert told(observer.observe(1)) == {1: [2.0, 1.0]}
    assert len(observer.observe(2)) == 0


@pytest.mark.parametrize("drift_test", [Always(), Periodic(rounds=2), Periodic(rounds=3)])
def test_tests_by_the_clock_ask_everyone_with_data_as_they_do_for_labels(drift_test: DriftTest) -> None:
    # Client 1 has data in its window all the time, but nothing comes and nothing leaves in most intervals.
    samples = [
        *(Sample(client=0, interval=at, label=at % 2) for at in range(8)),
        *(Sample(client=1, interval=at) for at in (0, 5)),
    ]
    windows = planted_windows(samples, n_clients=3, plan=WindowPlan(gap=1, window=6), n_intervals=12)
    by_vector, by_label = observer_of(windows, drift_test), LabelObserver(windows, drift_test)

    for at in range(6):
        vectors, labels = by_vector.observe(at), by_label.observe(at)
        assert vectors.clients.tolist() == labels.clients.tolist(), f"round {at}"
        assert vectors.n_samples.tolist() == labels.n_samples.tolist(), f"round {at}"
        assert at % getattr(drift_test, "rounds", 1) or {0, 1} <= set(vectors.clients.tolist()), f"round {at}"


def by_size(x: Features, y: Counts, n_classes: int) -> Floats:
    return np.ones(y.size)


def failing(x: Features, y: Counts, n_classes: int) -> Floats:
    raise KeyError("a\nb")


@pytest.mark.parametrize(
    ("represent", "words"),
    [
        (by_size, "one has 1 numbers, another one 2; make all alike"),
        (lambda *_: np.zeros(3), "all zeros.* add a constant 1"),
        (lambda *_: np.array([1.0, np.nan]), "return a vector of finite numbers"),
        (lambda *_: np.array([1.0, -np.inf]), "return a vector of finite numbers"),
        (lambda *_: np.ones((2, 2)), "return a vector of finite numbers"),
        (lambda *_: np.empty(0), "return a vector of finite numbers"),
        (lambda *_: 3.0, "return a vector of finite numbers"),
        (lambda *_: "words", "return a vector of finite numbers"),
        (lambda *_: None, "return a vector of finite numbers"),
        (lambda *_: [[1.0], [1.0, 2.0]], "coordinator.representation"),
        (failing, "KeyError"),
    ],
)
def test_what_cannot_be_reported_is_refused_in_one_line(represent: Callable[..., Any], words: str) -> None:
    samples = [Sample(client=client, interval=0) for client in (0, 1, 1)]
    windows = planted_windows(samples, n_clients=2, plan=PLAN, n_intervals=1)

    with pytest.raises((InputError, OptionError), match=words) as refusal:
        observer_of(windows, AnyChange(), represent).observe(0)

    assert "coordinator.representation" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_length_that_changes_later_is_refused_too() -> None:
    samples = [Sample(client=0, interval=at) for at in (0, 1, 1)]
    observer = observer_of(planted_windows(samples, n_clients=1, plan=PLAN, n_intervals=2), AnyChange(), by_size)
    observer.observe(0)

    with pytest.raises(InputError, match=r"coordinator\.representation.* 2 numbers, another one 1; make all alike"):
        observer.observe(1)


def test_tests_that_compare_label_counts_are_refused() -> None:
    with pytest.raises(OptionError, match="Chi2 compares label counts"):
        observer_of(steady([1.0]), Chi2())
