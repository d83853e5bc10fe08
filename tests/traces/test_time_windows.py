"""Windows by time: what they show is what a filter by time shows, and whole intervals are windows by rounds."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fielding._typing import Json
from fielding.client.drift import AnyChange
from fielding.client.fleet import Fleet
from fielding.config.reader import config_from
from fielding.errors import OptionError
from fielding.simulation.assembly import Own
from fielding.simulation.config_check import check_config
from fielding.simulation.experiment import run
from fielding.traces.histograms import WindowPlan, report_stream
from fielding.traces.intervals import month_numbers
from fielding.traces.natural import natural_schedule
from fielding.traces.sliding import SlidingWindows
from fielding.traces.trace import Trace
from tests.simulation.run_cases import left_behind

HOUR, DAY = 3600.0, 86_400.0
START = 1_704_070_861.0  # in January 2024, not at midnight


def trace_of(rng: np.random.Generator, n_rows: int, *, span: float) -> Trace:
    """Return samples of three clients at whole and at broken minutes."""
    client = np.concatenate([np.arange(3), rng.integers(0, 3, n_rows)]).astype(np.int32)
    y = rng.integers(0, 3, client.size).astype(np.int32)
    return Trace(
        client_ids=("a", "b", "c"),
        client=client,
        time=START + np.round(rng.random(client.size) * span / 30.0) * 30.0,
        y=y,
        classes=("x", "y", "z"),
        x=(rng.standard_normal((client.size, 4)) + 2.0 * np.eye(3, 4)[y]).astype(np.float32),
    )


@st.composite
def timed(draw: st.DrawFn, *, is_whole: bool = False) -> tuple[Trace, WindowPlan]:
    hours = draw(st.sampled_from([1.0, 6.0, 7.5, 24.0]))
    longer = draw(st.integers(1, 3)) if is_whole else draw(st.floats(1.0, 3.5))
    plan = WindowPlan(
        interval=f"{hours}h",
        gap=draw(st.integers(1, 3)),
        window=f"{round(longer * hours * 60)}m",
        align=draw(st.sampled_from(["calendar", "client"])),
    )
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    return trace_of(rng, draw(st.integers(1, 40)), span=draw(st.integers(1, 8)) * hours * HOUR), plan


@given(timed(), st.integers(0, 20))
@settings(deadline=None)
def test_a_window_shows_the_samples_of_so_much_time(made: tuple[Trace, WindowPlan], round_index: int) -> None:
    trace, plan = made
    pool, schedule = natural_schedule(trace, plan)
    windows = SlidingWindows(pool, schedule, plan)
    assert plan.seconds is not None

    length = float(plan.interval[:-1]) * HOUR  # type: ignore[index]
    for client, first in enumerate(trace.first_times(length, plan.align)):  # type: ignore[arg-type]
        now = first + windows.n_complete(round_index) * length
        wanted = (trace.client == client) & (trace.time >= now - plan.seconds) & (trace.time < now)
        for ranges, which in (
            (windows.training(round_index), ~pool.is_test()),
            (windows.testing(round_index), pool.is_test()),
        ):
            rows, _ = ranges.of(np.array([client]))
            assert sorted(schedule.sample[rows].tolist()) == np.flatnonzero(wanted & which).tolist()


@given(timed(), st.integers(0, 20))
@settings(deadline=None)
def test_a_fleet_counts_what_the_windows_show(made: tuple[Trace, WindowPlan], round_index: int) -> None:
    trace, plan = made
    windows = SlidingWindows(*natural_schedule(trace, plan), plan)
    fleet = Fleet(3, 3, drift_test=AnyChange(), max_rounds=plan.n_visible * plan.gap)

    for interval in range(windows.n_complete(round_index)):
        fleet.arrive(windows.arrivals(interval), (interval + 1) * plan.gap)

    rows, sizes = windows.training(round_index).of(np.arange(3))
    recount = np.zeros((3, 3), dtype=np.int64)
    np.add.at(recount, (np.repeat(np.arange(3), sizes), windows.labels(rows)), 1)
    assert fleet.counts.tolist() == recount.tolist()
    assert ((windows.n_complete(round_index) - 1 - windows.intervals(rows)) < plan.n_visible).all()


@given(timed(is_whole=True))
@settings(deadline=None)
def test_whole_intervals_are_as_many_rounds(made: tuple[Trace, WindowPlan]) -> None:
    trace, plan = made
    assert plan.seconds is not None
    n_whole = round(plan.seconds / (float(plan.interval[:-1]) * HOUR))  # type: ignore[index]
    by_rounds = WindowPlan(interval=plan.interval, gap=plan.gap, window=n_whole * plan.gap, align=plan.align)

    ours, theirs = (SlidingWindows(*natural_schedule(trace, one), one) for one in (plan, by_rounds))
    assert (plan.lead, plan.n_first, plan.n_visible) == (by_rounds.lead, by_rounds.n_first, by_rounds.n_visible)
    assert ours.schedule.sample.tobytes() == theirs.schedule.sample.tobytes()
    for round_index in range(12):
        assert ours.visible(round_index) == theirs.visible(round_index)
        for one, other in (
            (ours.training(round_index), theirs.training(round_index)),
            (ours.testing(round_index), theirs.testing(round_index)),
        ):
            clients = np.arange(3)
            assert one.of(clients)[0].tobytes() == other.of(clients)[0].tobytes()
            assert one.sizes.tobytes() == other.sizes.tobytes()
    streams = [report_stream(trace, plan=one, drift_test=AnyChange()) for one in (plan, by_rounds)]
    first, second = ([(step, b.client_ids, b.representations.tobytes()) for step, b in one] for one in streams)
    assert first == second


@pytest.mark.parametrize("align", ["calendar", "client"])
def test_months_have_their_own_lengths(align: str) -> None:
    plan = WindowPlan(interval="month", gap=1, window="40d", align=align)
    trace = trace_of(np.random.default_rng(1), 200, span=200 * DAY)
    windows = SlidingWindows(*natural_schedule(trace, plan), plan)

    assert (plan.n_first, plan.n_visible) == (1, 2)
    for client in range(3):
        mine = trace.time[trace.client == client]
        since = month_numbers(np.array([mine.min() if align == "client" else trace.time.min()]))[0]
        for round_index in range(3):
            ends = np.datetime64("1970-01", "M") + int(since + windows.n_complete(round_index))
            end = float(ends.astype("datetime64[s]").astype(np.int64))
            n_shown = windows.training(round_index).sizes[client] + windows.testing(round_index).sizes[client]
            assert n_shown == ((mine >= end - 40 * DAY) & (mine < end)).sum()


def config_table(window: int | str, **trace: object) -> dict[str, object]:
    return {
        "rounds": 6,
        "workers": 1,
        "trace": {"window": window, "interval": "1d", "gap": 2, "block": "none", **trace},
        "training": {"participants": 3, "local_steps": 2, "batch_size": 5},
        "model": {"hidden": 4},
        "coordinator": {"detector": "any-change"},
        "evaluation": {"every": 2},
        "checkpoint": {"every": 1},
    }


def test_a_run_by_time_is_the_run_by_rounds_byte_for_byte(tmp_path: Path) -> None:
    trace = trace_of(np.random.default_rng(3), 150, span=7 * DAY)
    for name, window in (("time", "48h"), ("rounds", 4)):
        run(config_from(config_table(window)), tmp_path / name, own=Own(samples=trace), page=False)

    by_time, by_rounds = (left_behind(tmp_path / name) for name in ("time", "rounds"))
    assert {name for name in by_time if by_time[name] != by_rounds[name]} <= {"manifest.json", "models"}
    assert by_time.keys() == by_rounds.keys()


def test_a_client_whose_window_runs_empty_goes_silent() -> None:
    trace = Trace(
        client_ids=("a", "b"),
        client=np.array([0, 1, 1, 1, 1]),
        time=DAY * np.array([0.9, 0.1, 1.1, 2.1, 3.1]),
        y=np.array([0, 1, 1, 1, 1]),
        classes=("x", "y"),
    )
    plan = WindowPlan(interval="1d", gap=1, window="36h")

    stream = report_stream(trace, plan=plan, drift_test=AnyChange())

    # At the end of day 1 client a is shown still, because its sample came late on day 0; b's of that morning is gone.
    assert [(step, one.client_ids) for step, one in stream] == [(0, ["a", "b"]), (2, ["a"])]
    assert list(stream)[1][1].representations.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("trace", "why"),
    [
        ({"window": "14"}, "with s, m, h, d or w"),
        ({"window": "2 months"}, "with s, m, h, d or w"),
        ({"window": "0d"}, "with s, m, h, d or w"),
        ({"window": "2d"}, "a pool knows no times"),
        ({"window": "2d", "scenario": "places"}, "scenario places deals samples by rounds"),
        ({"window": "2d", "file": "x.npz", "shared": 3}, "trace.shared deals samples by rounds"),
    ],
)
def test_a_window_by_time_needs_times(trace: dict[str, object], why: str, tmp_path: Path) -> None:
    (tmp_path / "x.npz").touch()
    if "file" in trace:
        trace["file"] = str(tmp_path / "x.npz")
    with pytest.raises(OptionError, match=why):
        check_config(config_from({"trace": trace}))


def test_a_window_shorter_than_an_interval_is_refused() -> None:
    with pytest.raises(OptionError, match="at least the interval, 1d: samples would leave before they arrive"):
        WindowPlan(interval="1d", window="12h")
    with pytest.raises(OptionError, match="at least the interval, month"):
        WindowPlan(interval="month", window="30d")


def test_private_reports_count_rounds() -> None:
    private: dict[str, Json] = {"mode": "record", "epsilon": 1.0}
    config = config_from({"trace": {"name": "zephyr", "window": "2d"}, "privacy": private})

    with pytest.raises(OptionError, match="what is private is counted by rounds"):
        check_config(config)
