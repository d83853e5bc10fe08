"""What lies on the disk of a device is whole, private, and never a reason to fail for ever."""

import errno
import logging
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from fielding.flower.device.local_jobs import Training

from fielding._typing import Json
from fielding.errors import InputError, OutputError
from fielding.flower.device.samples import NOTHING
from fielding.flower.device.state import (
    SERVED,
    STATE,
    TRAINED,
    DeviceState,
    keep_served,
    order_digest,
    read_state,
    read_training,
    run_folder,
    served_here,
    write_state,
    write_training,
)
from fielding.flower.wire.orders import Report
from fielding.records import container
from fielding.records.container import Contents, write_contents
from tests.flower.devices import train

READS = "_check_digest"
TRAINING = Training(model=np.ones(2, dtype=np.float32), n_samples=3, loss=0.5, square_loss=0.25)


def test_a_device_that_never_ran_knows_nothing(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    assert read_training(tmp_path, "any") is None


@pytest.mark.parametrize("n_features", [None, 0, 2])
def test_a_state_comes_back_as_it_was(n_features: int | None, tmp_path: Path) -> None:
    report = None
    if n_features is not None:
        report = Report(number=4, representation=np.full(n_features, 0.5, dtype=np.float32), n_samples=7)
    monitor = {"monitor.last": np.arange(3), "window.labels": np.array([1])}

    write_state(tmp_path, DeviceState(round_index=9, kept=NOTHING, monitor=monitor, report=report))
    state = read_state(tmp_path)

    assert state is not None
    assert (state.round_index, state.number) == (9, 0 if report is None else 4)
    assert {name: array.tolist() for name, array in state.monitor.items()} == {
        "monitor.last": [0, 1, 2],
        "window.labels": [1],
    }
    if report is not None and state.report is not None:
        assert state.report.representation.tolist() == report.representation.tolist()
        assert state.report.n_samples == 7


@pytest.mark.parametrize(
    ("values", "kind"),
    [({"round": 1, "number": 0}, "coordinator"), ({"round": "one", "number": 0}, "device"), ({}, "device")],
)
def test_a_whole_file_that_is_no_state_is_put_aside(
    values: dict[str, int | str], kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_contents(Contents(values=dict(values), arrays={}, progress={}, kind=kind), tmp_path / STATE)

    with caplog.at_level(logging.WARNING, logger="fielding.flower"):
        assert read_state(tmp_path) is None

    assert "what it held is lost" in caplog.text
    assert not (tmp_path / STATE).exists()


def test_the_last_job_is_remembered_and_no_other(tmp_path: Path) -> None:
    write_training(tmp_path, "this", TRAINING)
    again = read_training(tmp_path, "this")

    assert again is not None
    assert (again.model.tolist(), again.n_samples, again.loss, again.square_loss) == ([1.0, 1.0], 3, 0.5, 0.25)
    assert again.start_loss is None
    assert read_training(tmp_path, "that") is None
    write_training(tmp_path, "that", replace(TRAINING, start_loss=2.0))
    that = read_training(tmp_path, "that")
    assert that is not None
    assert that.start_loss == 2.0
    assert read_training(tmp_path, "this") is None


def test_a_damaged_answer_is_forgotten(tmp_path: Path) -> None:
    write_training(tmp_path, "this", TRAINING)
    (tmp_path / TRAINED).write_bytes((tmp_path / TRAINED).read_bytes()[:-5])

    assert read_training(tmp_path, "this") is None
    assert (tmp_path / f"{TRAINED}.damaged").exists()


def test_jobs_that_differ_in_anything_but_the_confirmed_report_are_told_apart() -> None:
    order = train(1)
    others = [
        replace(order, round_index=2),
        replace(order, run_id="other"),
        replace(order, seed=1),
        replace(order, n_steps=1),
        replace(order, with_start_loss=True),
        replace(order, settings={**order.settings, "learning_rate": 0.1}),
        replace(order, model=np.ones(6, dtype=np.float32)),
    ]

    digests = {order_digest(one) for one in (order, *others)}

    assert len(digests) == 8
    assert order_digest(replace(order, confirmed=3)) == order_digest(order)


def test_the_folder_of_a_run_is_private_and_inside_whatever_the_id(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "../../\0")

    assert folder.parent == tmp_path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert run_folder(tmp_path, "../../\0") == folder


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(OutputError, match="name another state-dir"):
        run_folder(tmp_path / "file", "run")


def test_the_folder_of_a_run_that_was_open_is_closed(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "run")
    folder.chmod(0o755)

    assert stat.S_IMODE(run_folder(tmp_path, "run").stat().st_mode) == 0o700


def test_what_killed_processes_left_half_written_is_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    folder = run_folder(tmp_path, "run")
    dead, alive, old, other = (
        folder / name
        for name in (f".a.{process.pid}.tmp", f".b.{os.getpid()}.tmp", f".c.{os.getpid()}.tmp", ".mine.tmp")
    )
    for path in (dead, alive, old, other):
        path.write_bytes(b"half")
    os.utime(old, (1.0, 1.0))

    run_folder(tmp_path, "run")

    assert sorted(folder.iterdir()) == sorted([alive, other])


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO])
def test_a_state_that_cannot_be_read_now_is_kept(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_state(tmp_path, DeviceState(round_index=9, kept=NOTHING, monitor={}, report=None))

    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(Path if code == errno.EMFILE else container, "open" if code == errno.EMFILE else READS, refuse)
        with pytest.raises(InputError, match=f"cannot read .*: {os.strerror(code)}; it is kept"):
            read_state(tmp_path)

    assert read_state(tmp_path) is not None


def test_a_state_that_does_not_fit_into_memory_now_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_state(tmp_path, DeviceState(round_index=9, kept=NOTHING, monitor={}, report=None))

    def refuse(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(container, "_read_array", refuse)
        with pytest.raises(InputError, match=r"cannot read .*: MemoryError\(\); it is kept"):
            read_state(tmp_path)

    assert read_state(tmp_path) is not None


@pytest.mark.parametrize("losses", [None, [0.5]])
def test_a_whole_answer_that_lacks_something_is_forgotten(losses: list[float] | None, tmp_path: Path) -> None:
    arrays: dict[str, npt.NDArray[np.generic]] = {"model": TRAINING.model}
    if losses is not None:
        arrays["losses"] = np.array(losses)
    values: dict[str, Json] = {"job": "this", "n_samples": 3}
    write_contents(Contents(values=values, arrays=arrays, progress={}, kind="device"), tmp_path / TRAINED)

    assert read_training(tmp_path, "this") is None
    assert (tmp_path / f"{TRAINED}.damaged").exists()


def test_a_model_that_serves_since_no_round_is_forgotten(tmp_path: Path) -> None:
    order = train(3)
    values: dict[str, Json] = {"key": "soon", "layout": order.layout.record(), "settings": dict(order.settings)}
    write_contents(
        Contents(values=values, arrays={"model": order.model}, progress={}, kind="device"), tmp_path / SERVED
    )

    keep_served(tmp_path, order)

    assert (tmp_path / f"{SERVED}.damaged").exists()
    held = served_here(tmp_path, order)
    assert held is not None
    assert held.key == "2"
