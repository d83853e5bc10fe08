import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fielding.client.drift import Always, AnyChange, Chi2, DriftTest, Evidence, Never, Periodic, Threshold
from fielding.client.monitor import Monitor
from fielding.client.window import Window
from fielding.errors import CheckpointError, InputError, OptionError, ReportError


def monitor_with(drift_test: DriftTest, max_rounds: int | None = 10, *, n_labels: int = 2) -> Monitor:
    return Monitor("phone", n_labels, drift_test=drift_test, window=Window(max_rounds=max_rounds))


def shares(monitor: Monitor, labels: list[int], round_index: int) -> list[float] | None:
    report = monitor.observe(labels, round_index)
    return None if report is None else report.representation.tolist()


@pytest.mark.parametrize("drift_test", [AnyChange(), Chi2(), Never(), Periodic(rounds=5), Threshold()])
def test_first_data_are_reported_whatever_the_test(drift_test: DriftTest) -> None:
    monitor = monitor_with(drift_test)

    assert monitor.observe([], round_index=0) is None
    report = monitor.observe([0, 1, 1, 1], round_index=1)
    assert report is not None
    assert (report.client_id, report.n_samples, report.label_version) == ("phone", 4, None)
    assert report.representation.tolist() == [0.25, 0.75]
    assert report.representation.dtype == np.float32


def test_nothing_new_is_not_reported() -> None:
    monitor = monitor_with(AnyChange())
    monitor.observe([0], round_index=0)

    assert monitor.observe([], round_index=1) is None
    assert monitor.observe([0, 0], round_index=2) is None


def test_any_change_is_judged_against_the_last_report_not_the_last_round() -> None:
    monitor = monitor_with(Threshold(eps=0.5))
    monitor.observe([0, 0], round_index=0)

    # Each step is small; from the last report it is 2/3 apart in the end.
    assert shares(monitor, [0, 0, 1], 1) is None
    assert shares(monitor, [1], 2) == pytest.approx([2 / 3, 1 / 3])


def test_samples_that_leave_are_a_change_too() -> None:
    monitor = monitor_with(AnyChange(), max_rounds=2)
    monitor.observe([0], round_index=0)
    monitor.observe([1], round_index=1)

    assert shares(monitor, [], 2) == [0.0, 1.0]


@pytest.mark.parametrize("drift_test", [Always(), AnyChange(), Chi2(), Never(), Periodic(rounds=1)])
def test_client_goes_silent_once_and_comes_back(drift_test: DriftTest) -> None:
    monitor = monitor_with(drift_test, max_rounds=2)
    monitor.observe([0], round_index=0)

    silent = monitor.observe([], round_index=2)
    assert silent is not None
    assert (silent.representation.tolist(), silent.n_samples) == ([0.0, 0.0], 0)
    assert monitor.observe([], round_index=3) is None
    assert monitor.observe([], round_index=30) is None
    assert shares(monitor, [0], 31) == [1.0, 0.0]


def test_chi2_holds_what_came_since_the_report_against_the_report() -> None:
    monitor = monitor_with(Chi2())
    monitor.observe([0] * 50 + [1] * 50, round_index=0)

    assert monitor.observe([0] * 9, round_index=1) is None  # too few to tell
    assert monitor.observe([0, 0, 1], round_index=2) is None  # 11 of 12: that may be chance
    assert shares(monitor, [0] * 8, 3) == pytest.approx([69 / 120, 51 / 120])  # 19 of 20: that is not
    assert monitor.observe([0] * 5 + [1] * 5, round_index=4) is None  # the new reference


def test_test_gets_what_is_fresh_and_how_old_the_report_is() -> None:
    seen: list[Evidence] = []

    class Spy:
        is_timed = False

        def drifted(self, evidence: Evidence) -> np.ndarray:
            seen.append(evidence)
            return np.zeros(1, dtype=np.bool_)

    monitor = Monitor(1, 2, drift_test=Spy(), window=Window(max_samples=3))
    monitor.observe([0, 0], round_index=5)
    monitor.observe([1], round_index=6)
    monitor.observe([1, 0, 1], round_index=9)

    assert [evidence.reported.tolist() for evidence in seen] == [[[2, 0]], [[2, 0]]]
    assert [evidence.current.tolist() for evidence in seen] == [[[2, 1]], [[1, 2]]]
    assert [evidence.fresh.tolist() for evidence in seen] == [[[0, 1]], [[1, 2]]]
    assert [evidence.before.tolist() for evidence in seen] == [[[2, 0]], [[2, 1]]]
    assert [evidence.age.tolist() for evidence in seen] == [[1], [4]]
    assert [evidence.arrived.tolist() for evidence in seen] == [[1], [3]]


def test_what_was_before_grows_until_something_is_noticed() -> None:
    monitor = monitor_with(Chi2(), max_rounds=2)
    for now in range(12):
        monitor.observe([0] * 9 + [1] * 6, now)

    assert monitor.arrays()["monitor.before"].tolist() == [90, 60]  # all but the window
    # 19 of 30 against 66 of 165 is beyond chance; against the 6 of 15 of the last report it would not be.
    assert monitor.observe([0] * 2 + [1] * 13, 12) is not None
    assert monitor.arrays()["monitor.before"].tolist() == [11, 19]
    # That window held 15 samples from before: when they have left, it is reported once more, and then no more.
    reporting = [now for now in range(13, 20) if monitor.observe([0] * 2 + [1] * 13, now) is not None]
    assert reporting == [14]


def test_a_report_that_is_wanted_does_not_stop_the_comparison() -> None:
    asked, alone = monitor_with(Chi2(), max_rounds=3), monitor_with(Chi2(), max_rounds=3)
    for monitor in (asked, alone):
        monitor.observe([0] * 40 + [1] * 40, 0)
        monitor.observe([0] * 5 + [1] * 10, 1)
    asked.report_again()

    assert shares(asked, [0] * 3 + [1] * 12, 2) is not None
    assert alone.observe([0] * 3 + [1] * 12, 2) is None
    assert (asked.observe([1] * 15, 3) is None) == (alone.observe([1] * 15, 3) is None)
    for name in ("monitor.before", "monitor.last"):
        assert asked.arrays()[name].tolist() == alone.arrays()[name].tolist()


def test_what_an_older_version_saved_is_read() -> None:
    monitor, other = monitor_with(Chi2()), monitor_with(Chi2())
    monitor.observe([0] * 30 + [1] * 20, 0)
    saved = monitor.arrays()
    del saved["monitor.before"]
    saved["monitor.last"] = saved["monitor.last"][:3]

    other.restore(saved)

    assert other.arrays()["monitor.before"].tolist() == [30, 20]
    with pytest.raises(CheckpointError, match="before is missing"):
        other.restore({**saved, "monitor.last": monitor.arrays()["monitor.last"]})


def test_periodic_counts_rounds_from_the_last_report() -> None:
    monitor = monitor_with(Periodic(rounds=3), max_rounds=None)

    reporting = [round_index for round_index in range(1, 12) if monitor.observe([0], round_index) is not None]
    assert reporting == [1, 4, 7, 10]


def test_lost_report_is_made_again_with_what_is_known_then() -> None:
    monitor = monitor_with(Never())
    monitor.observe([0], round_index=0)
    monitor.report_again()

    assert shares(monitor, [1], 1) == [0.5, 0.5]
    assert monitor.observe([], round_index=2) is None


def test_lost_farewell_is_said_again() -> None:
    monitor = monitor_with(AnyChange(), max_rounds=1)
    monitor.observe([0], round_index=0)
    monitor.observe([], round_index=1)
    monitor.report_again()

    assert shares(monitor, [], 2) == [0.0, 0.0]
    assert monitor.observe([], round_index=3) is None


def test_longer_class_list_is_no_drift_but_goes_into_later_reports() -> None:
    monitor = Monitor(7, 1, drift_test=AnyChange(), window=Window(), label_version=1)
    monitor.observe([0], round_index=0)
    monitor.grow(3, label_version=2)

    assert monitor.observe([0], round_index=1) is None
    report = monitor.observe([2, 2], round_index=2)
    assert report is not None
    assert report.representation.tolist() == [0.5, 0.0, 0.5]
    assert report.label_version == 2


def test_bad_label_leaves_the_monitor_as_it_was() -> None:
    monitor = monitor_with(AnyChange())
    monitor.observe([0], round_index=0)

    with pytest.raises(InputError, match="label 2 is not in the class list of 2"):
        monitor.observe([1, 2], round_index=50)
    with pytest.raises(InputError, match="whole numbers"):
        monitor.observe([0.5], round_index=50)
    assert monitor.observe([0], round_index=1) is None


def test_backward_round_leaves_the_monitor_as_it_was() -> None:
    monitor = monitor_with(AnyChange())
    monitor.observe([0], round_index=3)

    with pytest.raises(InputError, match="round 2 comes after round 3"):
        monitor.observe([1], round_index=2)
    assert monitor.observe([0], round_index=3) is None


def test_shrinking_class_list_leaves_the_monitor_as_it_was() -> None:
    monitor = Monitor(7, 3, drift_test=AnyChange(), window=Window(), label_version=5)

    with pytest.raises(OptionError, match="n_labels is 2"):
        monitor.grow(2, label_version=6)
    assert monitor.label_version == 5


def test_monitor_wants_a_window_of_its_own_and_a_fit_id() -> None:
    window = Window()
    window.add([0], round_index=0)

    with pytest.raises(OptionError, match="the window holds 1 samples already"):
        Monitor(1, 2, drift_test=Never(), window=window)
    with pytest.raises(ReportError, match="client id"):
        Monitor("", 2, drift_test=Never(), window=Window())


@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, 2), max_size=4)), max_size=15),
    st.none() | st.integers(1, 5),
    st.none() | st.integers(1, 3),
)
@settings(deadline=None, max_examples=100)
def test_any_change_reports_exactly_when_the_last_report_is_out_of_date(
    stream: list[tuple[int, list[int]]], max_samples: int | None, max_rounds: int | None
) -> None:
    monitor = Monitor(1, 3, drift_test=AnyChange(), window=Window(max_samples, max_rounds))
    shadow = Window(max_samples, max_rounds)
    known, now = [0.0, 0.0, 0.0], 0
    for wait, labels in stream:
        now += wait
        shadow.add(labels, now)
        counts = np.bincount(shadow.labels(), minlength=3)
        truth = (counts / max(len(shadow), 1)).astype(np.float32).tolist()

        report = shares(monitor, labels, now)

        assert (report is not None) == (truth != known)
        known = truth


@given(
    st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(0, 2), max_size=6)), min_size=1, max_size=12),
    st.sampled_from([AnyChange(), Chi2(min_fresh=2), Threshold(), Periodic(rounds=3), Always(), Never()]),
    st.integers(0, 12),
)
def test_a_monitor_that_was_saved_goes_on_as_if_it_had_never_stopped(
    arrivals: list[tuple[int, list[int]]], drift_test: DriftTest, stop_at: int
) -> None:
    steady, stopped = (monitor_with(drift_test, max_rounds=4, n_labels=3) for _ in range(2))
    now = 0
    for at, (pause, labels) in enumerate(arrivals):
        now += pause
        if at == stop_at:
            for one in (steady, stopped):
                one.report_again()
        saved = stopped.arrays()
        stopped = monitor_with(drift_test, max_rounds=4, n_labels=3)
        stopped.restore(saved)
        assert shares(stopped, labels, now) == shares(steady, labels, now)
        assert stopped.counts.tolist() == steady.counts.tolist()


def test_a_monitor_takes_over_a_shorter_class_list_but_no_longer_one() -> None:
    short = monitor_with(AnyChange())
    short.observe([0, 1], round_index=0)
    longer = monitor_with(AnyChange(), n_labels=3)

    longer.restore(short.arrays())

    assert longer.observe([], round_index=1) is None
    assert shares(longer, [2, 2], 2) == [0.25, 0.25, 0.5]
    with pytest.raises(CheckpointError, match="no monitor of 2 labels"):
        monitor_with(AnyChange()).restore(longer.arrays())
