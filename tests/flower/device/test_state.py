"""What lies on the disk of a device is whole, private, and never a reason to fail for ever."""

import errno
import logging
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from fielding._typing import Json, Models
from fielding.errors import InputError, OutputError
from fielding.federation.clients import Pull
from fielding.flower.device.sample_files import SampleFiles
from fielding.flower.device.samples import NOTHING
from fielding.flower.device.state import (
    MEMORY,
    SERVED,
    SHARED,
    STATE,
    TRAINED,
    DeviceMemory,
    DeviceState,
    HeldModel,
    keep_served,
    keep_shared,
    order_digest,
    read_memory,
    read_served,
    read_state,
    read_training,
    remove_run,
    run_folder,
    write_memory,
    write_state,
    write_training,
)
from fielding.flower.wire.orders import EvaluateOrder, Report, SharedView, TrainOrder
from fielding.records import container
from fielding.records.container import Contents, write_contents
from tests.flower import mail
from tests.flower.devices import LOCAL, TRAINER, WORK, evaluate, train

pytest.importorskip("flwr", reason="the flower extra is not installed")

from tests.flower.spoiling import assert_same

READS = "_check_digest"
ONES = np.ones(2, dtype=np.float32)
TRAINING = mail.updates(ONES, 0.5, 0.25, n_samples=3)


def test_a_device_that_never_ran_knows_nothing(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    assert read_training(tmp_path, "any") is None


@pytest.mark.parametrize("n_features", [None, 0, 2])
def test_a_state_comes_back_as_it_was(n_features: int | None, tmp_path: Path) -> None:
    report = None
    if n_features is not None:
        report = Report(number=4, representation=np.full(n_features, 0.5, dtype=np.float32), n_samples=7)
    monitor = {"monitor.last": np.arange(3), "window.labels": np.array([1])}

    write_state(tmp_path, DeviceState(round_index=9, kept=NOTHING, files=SampleFiles(), monitor=monitor, report=report))
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
    assert_same(read_training(tmp_path, "this"), TRAINING)
    assert read_training(tmp_path, "that") is None

    that = mail.updates(ONES, 0.5, 0.25, 2.0, n_samples=3, start=1)
    write_training(tmp_path, "that", that)
    assert_same(read_training(tmp_path, "that"), that)
    assert read_training(tmp_path, "this") is None


def test_a_damaged_answer_is_forgotten(tmp_path: Path) -> None:
    write_training(tmp_path, "this", TRAINING)
    (tmp_path / TRAINED).write_bytes((tmp_path / TRAINED).read_bytes()[:-5])

    assert read_training(tmp_path, "this") is None
    assert (tmp_path / f"{TRAINED}.damaged").exists()


def test_jobs_that_differ_in_anything_that_counts_are_told_apart() -> None:
    order, two = train(1), np.zeros((2, 6), dtype=np.float32)
    pull = Pull(anchors=two[:1], row=np.zeros(1, dtype=np.int64), strength=np.full(6, 0.5))
    others = [
        train(2),
        replace(order, run_id="other"),
        replace(order, seed=1),
        train(1, n_steps=1),
        train(1, with_start_loss=True),
        train(1, is_probe=True),
        train(1, work=replace(WORK, client="other")),
        train(1, work=replace(WORK, local=replace(LOCAL, momentum=0.1))),
        train(1, model=two[0] + 1),
        train(1, model=two, chooses=True),
        train(1, model=two, chooses=True, rate_factors=np.array([1.0, 0.5])),
        train(1, blocks=[np.array([0])]),
        train(1, upload_shares=np.array([0.5])),
        train(1, pull=pull),
        train(1, pull=replace(pull, anchors=two[:1] + 1)),
    ]
    alike = [
        replace(order, confirmed=3),
        replace(order, observe={"classes": 2}),
        replace(order, shared=SharedView(key="ab")),
    ]

    assert len({order_digest(one) for one in (order, *others)}) == 1 + len(others)
    assert {order_digest(one) for one in (order, *alike)} == {order_digest(order)}


def test_the_folder_of_a_run_is_private_and_inside_whatever_the_id(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "../../\0")

    assert folder.parent == tmp_path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert run_folder(tmp_path, "../../\0") == folder
    assert stat.S_IMODE(run_folder(tmp_path / "state", "run").parent.stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(OutputError, match="name another state-dir"):
        run_folder(tmp_path / "file", "run")


def test_the_folder_of_a_run_that_was_open_is_closed(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "run")
    folder.chmod(0o755)

    assert stat.S_IMODE(run_folder(tmp_path, "run").stat().st_mode) == 0o700


def test_what_was_kept_for_a_run_can_be_removed_and_nothing_else(tmp_path: Path) -> None:
    one, two = (run_folder(tmp_path, run_id) for run_id in ("one", "two"))
    for folder in (one, two):
        write_state(folder, DeviceState(round_index=9, kept=NOTHING, files=SampleFiles(), monitor={}, report=None))
        (folder / "own").mkdir()
        (folder / "own" / "file").write_text("of the app")

    for _ in range(2):
        remove_run(tmp_path, "one")

    assert list(tmp_path.iterdir()) == [two]
    assert read_state(two) is not None


def test_what_cannot_be_removed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_folder(tmp_path, "run")

    def refuse(_folder: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(OutputError, match=r"cannot remove .*: Permission denied; remove it by hand"):
        remove_run(tmp_path, "run")


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
    write_state(tmp_path, DeviceState(round_index=9, kept=NOTHING, files=SampleFiles(), monitor={}, report=None))

    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(Path if code == errno.EMFILE else container, "open" if code == errno.EMFILE else READS, refuse)
        with pytest.raises(InputError, match=f"cannot read .*: {os.strerror(code)}; it is kept"):
            read_state(tmp_path)

    assert read_state(tmp_path) is not None


def test_a_state_that_does_not_fit_into_memory_now_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_state(tmp_path, DeviceState(round_index=9, kept=NOTHING, files=SampleFiles(), monitor={}, report=None))

    def refuse(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(container, "_read_array", refuse)
        with pytest.raises(InputError, match=r"cannot read .*: MemoryError\(\); it is kept"):
            read_state(tmp_path)

    assert read_state(tmp_path) is not None


WHOLE: dict[str, npt.NDArray[np.generic]] = {"model": ONES, "losses": np.array([0.5, 0.25])}


@pytest.mark.parametrize(
    ("values", "arrays"),
    [
        ({}, {"model": ONES}),
        ({}, {**WHOLE, "losses": np.array([0.5])}),
        ({"start": "first"}, WHOLE),
        ({"n_samples": None}, WHOLE),
    ],
)
def test_a_whole_answer_that_lacks_something_is_forgotten(
    values: dict[str, Json], arrays: dict[str, npt.NDArray[np.generic]], tmp_path: Path
) -> None:
    values = {"job": "this", "n_samples": 3, "start": -1, **values}
    write_contents(Contents(values=values, arrays=arrays, progress={}, kind="device"), tmp_path / TRAINED)

    assert read_training(tmp_path, "this") is None
    assert (tmp_path / f"{TRAINED}.damaged").exists()


def test_a_model_that_serves_since_no_round_is_forgotten(tmp_path: Path) -> None:
    order = train(3)
    values: dict[str, Json] = {
        "key": "soon",
        "layout": order.layout.record(),
        "work": msgspec.to_builtins(order.work),
    }
    arrays: dict[str, npt.NDArray[np.generic]] = {"model": order.plan.models[0]}
    write_contents(Contents(values=values, arrays=arrays, progress={}, kind="device"), tmp_path / SERVED)

    keep_served(tmp_path, order)

    assert (tmp_path / f"{SERVED}.damaged").exists()
    held = read_served(tmp_path, order)
    assert held is not None
    assert held.key == "2"


# ---- models on the disk ----------------------------------------------------------------------------------------------


def ones(value: float, n_numbers: int = 6) -> Models:
    return np.full(n_numbers, value, dtype=np.float32)


def test_the_model_that_served_is_that_of_the_last_test_or_of_an_order_that_is_newer(tmp_path: Path) -> None:
    def served(order: TrainOrder | EvaluateOrder) -> tuple[str, float] | None:
        held = read_served(tmp_path, order)
        keep_served(tmp_path, order)
        return None if held is None else (held.key, float(held.model[0]))

    assert served(train(0, model=ones(1.0))) is None, "before the first round nobody is served"
    assert served(evaluate(0, ones(2.0))) == ("-1", 1.0)
    assert served(train(1, model=ones(3.0))) == ("0", 2.0), "it came with a test at the end of round 0"
    assert served(train(4, model=ones(4.0))) == ("3", 4.0), "what the order brings is newer"
    assert served(train(5, model=np.stack([ones(5.0), ones(6.0)]), chooses=True)) == ("3", 4.0), "which one is not said"
    assert served(evaluate(2, ones(7.0))) == ("3", 4.0), "an order of an earlier round changes nothing"
    assert served(evaluate(5)) == ("3", 4.0)


@pytest.mark.parametrize("damage", [b"", b"damaged"])
def test_a_damaged_model_is_put_aside_and_told(damage: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    view = SharedView(key="ab.cd", model=ones(1.0), layout=TRAINER.layout, work=WORK, reference=np.ones(2))
    wanted = HeldModel(key="ab.cd", model=ones(1.0), layout=TRAINER.layout, work=WORK, reference=np.ones(2))
    keep_shared(tmp_path, view)
    assert_same(keep_shared(tmp_path, SharedView(key="ab.cd")), wanted)
    (tmp_path / SHARED).write_bytes(damage)

    with caplog.at_level(logging.WARNING, logger="fielding.flower"):
        assert keep_shared(tmp_path, SharedView(key="ab.cd")) is None

    assert (tmp_path / f"{SHARED}.damaged").exists()
    assert "what it held is lost" in caplog.text
    assert_same(keep_shared(tmp_path, view), wanted)


# ---- what is kept for training ---------------------------------------------------------------------------------------


def kept(folder: Path, *jobs: tuple[int, float]) -> DeviceMemory:
    """Return what is kept after jobs of rounds, each by a new process."""
    for round_index, value in jobs:
        write_memory(folder, read_memory(folder).after(round_index, ones(value)))
    return read_memory(folder)


def previous(memory: DeviceMemory, round_index: int, n_numbers: int = 6) -> float | None:
    found = memory.previous(round_index, n_numbers)
    return None if found is None else float(found[0])


def test_the_previous_model_is_that_of_the_rounds_before_however_many_jobs_a_round_has(tmp_path: Path) -> None:
    seen = [previous(read_memory(tmp_path), 0)]
    for round_index, value in ((0, 1.0), (0, 2.0), (3, 3.0), (3, 4.0)):
        seen.append(previous(kept(tmp_path, (round_index, value)), round_index))

    assert seen == [None, None, None, 2.0, 2.0], "of several jobs the last is kept"
    assert previous(read_memory(tmp_path), 4) == 4.0


def test_a_round_that_is_done_again_finds_what_it_found(tmp_path: Path) -> None:
    memory = kept(tmp_path, (1, 1.0), (2, 2.0), (2, 2.5), (1, 9.0))

    assert [previous(memory, at) for at in (2, 3)] == [1.0, 2.5], "an earlier round is over"


def test_what_is_not_finite_or_of_another_model_counts_for_nothing(tmp_path: Path) -> None:
    memory = kept(tmp_path, (0, 1.0), (1, np.nan))

    assert (previous(memory, 2), previous(memory, 2, n_numbers=11)) == (1.0, None)


def test_what_is_remembered_of_samples_stays_beside_it(tmp_path: Path) -> None:
    rehearsal = {"rehearsal.next": np.array([3]), "rehearsal.memory_row": np.array([1, 2])}
    write_memory(tmp_path, DeviceMemory(rehearsal=rehearsal))
    memory = kept(tmp_path, (0, 1.0))

    assert {name: array.tolist() for name, array in memory.rehearsal.items()} == {
        "rehearsal.next": [3],
        "rehearsal.memory_row": [1, 2],
    }


@pytest.mark.parametrize("content", [b"", b"damaged", None])
def test_a_damaged_memory_is_put_aside(content: bytes | None, tmp_path: Path) -> None:
    kept(tmp_path, (0, 1.0))
    if content is None:
        write_contents(Contents(values={"round": "soon"}, arrays={}, progress={}, kind="device"), tmp_path / MEMORY)
    else:
        (tmp_path / MEMORY).write_bytes(content)

    assert previous(read_memory(tmp_path), 1) is None
    assert (tmp_path / f"{MEMORY}.damaged").exists()
