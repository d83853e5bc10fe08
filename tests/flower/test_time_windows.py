"""Windows by time on devices: the simulator's, and what late samples and clocks that are off do to them."""

import logging
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fielding.client.drift import AnyChange
from fielding.client.drift.detectors import VectorDetector
from fielding.client.representation.label import LabelShares
from fielding.config.reader import config_from
from fielding.distance import metric_named
from fielding.errors import InputError, OptionError
from fielding.traces.trace import Trace, write_trace

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower.device.device import Device
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.rule import DeviceRule
from fielding.flower.device.state import folder_of, read_state
from fielding.flower.server.device_rule import device_record
from fielding.flower.wire.orders import DescribeOrder, DescribeReply
from fielding.runtime.own_code import DeviceNode, Samples
from tests.flower.device_wire import DAY, START, deployed_config
from tests.flower.same_runs import assert_stops_do_no_harm, deployed_as_simulated

NOW = 1_700_000_000.0
HOUR = 3600.0


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _file: None)


def written_trace(folder: Path) -> str:
    rng = np.random.default_rng(4)
    n_rows, client = 500, np.tile(np.arange(5), 100).astype(np.int32)
    time = START + np.sort(rng.random(n_rows)) * 8 * DAY
    time[0] = START
    y = ((client + (time > START + 4 * DAY) * (client % 2) + (rng.random(n_rows) < 0.2)) % 3).astype(np.int32)
    x = (rng.standard_normal((n_rows, 4)) + 2.0 * np.eye(3, 4)[y]).astype(np.float32)
    ids = tuple(range(5))
    path = folder / "timed.npz"
    write_trace(Trace(client_ids=ids, client=client, time=time, y=y, classes=("x", "y", "z"), x=x), path)
    return str(path)


def timed_config(folder: Path, **sections: dict[str, object]) -> dict[str, object]:
    return {
        "rounds": 8,
        "workers": 1,
        "trace": {"file": written_trace(folder), "window": "60h", "interval": "1d", "gap": 2, "block": "none"},
        "training": {"participants": 3, "local_steps": 2, "batch_size": 5, "learning_rate": 0.1},
        "model": {"hidden": 4},
        "coordinator": {"detector": "any-change"},
        "evaluation": {"every": 2},
        **sections,
    }


@pytest.mark.parametrize("serving", [{}, {"experts": "auto"}], ids=["models", "experts"])
def test_devices_forget_by_time_as_clients_of_the_simulator_do(serving: dict[str, object], tmp_path: Path) -> None:
    config = deployed_config(timed_config(tmp_path, serving=serving))  # type: ignore[arg-type]

    deployed_as_simulated(config, tmp_path)


def test_a_run_by_time_that_is_stopped_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    assert_stops_do_no_harm(deployed_config(timed_config(tmp_path)), tmp_path)  # type: ignore[arg-type]


class Phone:
    """A device with a window of a day, whose samples and clock are given round by round."""

    def __init__(self, folder: Path, *, by_model: bool = False) -> None:
        self.folder, self.now, self.times = folder, NOW, np.empty(0)
        rule = DeviceRule(n_classes=3, max_rounds=4, drift_test=AnyChange(), window_ms=round(DAY * 1000))
        if by_model:
            judge = VectorDetector(drift_test=AnyChange(), metric=metric_named("l2"))
            rule = DeviceRule(
                n_classes=3,
                max_rounds=4,
                drift_test=AnyChange(),
                window_ms=round(DAY * 1000),
                representation=LabelShares(),
                detector=judge,
            )
        self._rule, self._confirmed, self._round = rule, 0, -1

    def ask(self, now: float, times: list[float] | None) -> DescribeReply:
        """Return the answer in the next round, at a time, after samples came."""
        self._round += 1
        given = None if times is None else np.array(times, dtype=np.float64)

        def load(_node: DeviceNode, round_index: int) -> Samples:
            n_new = 2 if given is None else given.size
            y = (np.arange(n_new) + round_index) % 3
            return Samples(np.ones((n_new, 2)), y, is_test=np.zeros(n_new, dtype=np.bool_), times=given)

        own = OwnCode(load_data=load, clock=lambda _node, _round: now)
        device = Device(DeviceNode(partition=0, config={}, folder=self.folder), self._rule, own)
        reply = device.answer(DescribeOrder(run_id="run", round_index=self._round, seed=1, confirmed=self._confirmed))
        assert isinstance(reply, DescribeReply)
        self._confirmed = reply.report.number if reply.report is not None else self._confirmed
        return reply


steps = st.lists(st.tuples(st.integers(0, 30), st.lists(st.integers(-40, 5), max_size=4)), min_size=1, max_size=6)


@pytest.mark.parametrize("by_model", [False, True], ids=["labels", "samples"])
@given(stream=steps)
@settings(deadline=None, max_examples=25)
def test_a_device_shows_what_a_filter_by_time_does(
    by_model: bool, stream: list[tuple[int, list[int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    phone, now, plain = Phone(tmp_path_factory.mktemp("phone"), by_model=by_model), NOW, list[float]()
    for wait, ages in stream:
        now += wait * HOUR
        times = sorted(now + age * HOUR for age in ages)
        reply = phone.ask(now, times)
        newest = max(plain, default=-np.inf)
        plain += [max(min(time, now), newest) for time in times]
        shown = [time for time in plain if time >= now - DAY]

        assert reply.n_samples == len(shown)
        if reply.report is not None:
            assert reply.report.n_samples == len(shown)


def test_a_window_that_runs_empty_is_reported_and_its_samples_go(tmp_path: Path) -> None:
    phone = Phone(tmp_path)
    assert phone.ask(NOW, [NOW - 2 * HOUR, NOW]).report is not None

    assert phone.ask(NOW + 20 * HOUR, []).report is None
    reply = phone.ask(NOW + 3 * DAY, [])

    assert reply.report is not None
    assert (reply.report.n_samples, reply.report.representation.size, reply.n_samples) == (0, 0, 0)
    state = read_state(folder_of(tmp_path, "run"))
    assert state is not None
    assert state.kept.y.size == 0


def test_a_clock_that_was_ahead_and_is_set_leaves_no_sample_for_years(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    phone = Phone(tmp_path)
    phone.ask(NOW + 3650 * DAY, [NOW + 3650 * DAY])

    assert phone.ask(NOW, [NOW]).n_samples == 2
    assert phone.ask(NOW + 20 * HOUR, [NOW + 20 * HOUR]).n_samples == 3
    assert phone.ask(NOW + 25 * HOUR, []).n_samples == 1
    with caplog.at_level(logging.WARNING, logger="fielding.flower"):
        assert phone.ask(NOW + 26 * HOUR, [NOW + 90 * DAY]).n_samples == 2
    assert "samples are from up to" in caplog.text
    assert phone.ask(NOW + 51 * HOUR, []).n_samples == 0


@pytest.mark.parametrize(
    ("times", "why"),
    [
        (None, "load_data gave samples without times, but trace.window is a length of time"),
        ([1.7e12], "no dates in unix seconds"),
        ([np.nan], "no dates in unix seconds"),
    ],
)
def test_times_that_are_none_are_refused(times: list[float] | None, why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=why):
        Phone(tmp_path).ask(NOW, times)


def test_what_the_server_sends_says_how_long_samples_stay() -> None:
    record = device_record(config_from({"trace": {"gap": 1, "window": "14d"}}), classes=3)
    assert (record["window_ms"], record["max_rounds"], record["phase"]) == (14 * 86_400_000, 14, 14)
    hours = device_record(config_from({"trace": {"gap": 1, "window": "36h", "interval": "6h"}}), classes=3)
    assert (hours["window_ms"], hours["max_rounds"]) == (129_600_000, 6)
    assert "window_ms" not in device_record(config_from({"trace": {"gap": 1, "window": 14}}), classes=3)


def test_what_counts_intervals_of_the_window_needs_rounds() -> None:
    config = config_from({"trace": {"window": "14d"}, "method": {"name": "feddrift", "memory": "window"}})
    with pytest.raises(OptionError, match="counts intervals; give"):
        device_record(config, classes=3)
