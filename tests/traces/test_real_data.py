"""The real traces of the data folder: sizes as its README says, drift as measured there."""

from pathlib import Path

import pytest

from fielding.client.drift import AnyChange, Chi2
from fielding.traces.histograms import WindowPlan, report_stream
from fielding.traces.importers import Columns, import_trace
from fielding.traces.statistics import describe_trace
from fielding.traces.trace import Trace, read_trace

DAY = 86_400.0


@pytest.fixture(scope="module")
def zephyr(data_folder: Path) -> Trace:
    return import_trace(data_folder / "zephyr_commits.csv.gz")


@pytest.fixture(scope="module")
def authors(zephyr: Trace) -> Trace:
    """The stand-in for FMoW: the last 1,050 days and the 302 most active authors of that span."""
    return zephyr.last(1050 * DAY).most_active(302)


@pytest.fixture(scope="module")
def crime(data_folder: Path) -> Trace:
    return import_trace(data_folder / "uk_crime_counts.csv.gz", Columns(count="count"))


def test_zephyr_is_as_large_as_its_readme_says(zephyr: Trace) -> None:
    assert zephyr.n_rows == 191_993
    assert len(zephyr.client_ids) == 4445
    assert len(zephyr.classes) == 62
    assert sorted(zephyr.samples_per_client().tolist())[-302] == 103


@pytest.mark.parametrize(
    ("interval", "drift", "noise"),
    # The noise is exact, hence above the normal approximation of the README (0.62 and 0.49).
    [("30d", 0.93, 0.67), ("90d", 0.80, 0.61)],
)
def test_authors_drift(authors: Trace, interval: str, drift: float, noise: float) -> None:
    found = describe_trace(authors, interval)

    assert found.drift == pytest.approx(drift, abs=0.01)
    assert found.noise == pytest.approx(noise, abs=0.01)


def test_a_day_of_the_authors_is_two_rounds(authors: Trace) -> None:
    stream = report_stream(authors, plan=WindowPlan(interval="1d", gap=2, window=100), drift_test=AnyChange())

    steps = stream.steps()
    assert (int(steps[0]), int(steps[-1])) == (0, 2000)
    assert all(steps % 2 == 0)
    start = next(iter(stream))[1]
    assert len(start.client_ids) == pytest.approx(120, abs=5)


@pytest.mark.slow
def test_crime_is_as_large_as_its_readme_says(crime: Trace) -> None:
    assert len(crime.client_ids) == 7560
    assert len(crime.classes) == 14
    assert int(crime.samples_per_client().sum()) == pytest.approx(12.0e6, rel=0.01)
    assert int(crime.interval_of("month").max()) + 1 == 36


@pytest.mark.slow
def test_crime_hardly_drifts(crime: Trace) -> None:
    found = describe_trace(crime, "month")

    assert found.drift == pytest.approx(0.47, abs=0.03)
    assert found.noise == pytest.approx(0.40, abs=0.04)


@pytest.mark.slow
def test_the_calibrated_test_spares_most_reports_of_crime(crime: Trace) -> None:
    plan = WindowPlan(interval="month", gap=1, window=6)

    all_changes = report_stream(crime, plan=plan, drift_test=AnyChange())
    beyond_noise = report_stream(crime, plan=plan, drift_test=Chi2())

    assert beyond_noise.n_rows < all_changes.n_rows / 5


def test_extrasensory_drifts_from_day_to_day(data_folder: Path) -> None:
    trace = read_trace(data_folder / "extrasensory.npz")

    assert (trace.n_rows, len(trace.client_ids), len(trace.classes)) == (103_279, 30, 6)
    assert trace.x is not None
    assert trace.x.shape == (103_279, 225)
    found = describe_trace(trace, "1d")
    assert found.drift == pytest.approx(0.72, abs=0.03)
    assert found.noise == pytest.approx(0.09, abs=0.01)


def test_kitti_drifts_within_seconds(data_folder: Path) -> None:
    trace = import_trace(data_folder / "kitti_objects.csv.gz")

    assert (trace.n_rows, len(trace.client_ids), len(trace.classes)) == (47_262, 21, 8)
    assert trace.client_ids[0] == "0000"
    found = describe_trace(trace, "5s")
    assert found.drift == pytest.approx(0.41, abs=0.01)
    assert found.noise == pytest.approx(0.08, abs=0.01)
