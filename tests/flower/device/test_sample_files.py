"""Samples lie in files that never change: nothing is written twice, and a device that is killed finds old or new."""

import errno
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fielding._typing import Json
from fielding.client.report_rule import report_rule_from
from fielding.errors import CheckpointError, InputError
from fielding.flower.device.rule import rule_with
from fielding.flower.device.sample_files import SampleFiles, open_files
from fielding.flower.device.samples import Kept
from fielding.flower.device.state import STATE, DeviceMemory, read_state, run_folder, write_memory
from fielding.flower.wire.orders import DescribeReply, SharedView, TrainReply
from fielding.records import container
from fielding.records.container import read_contents, write_contents
from tests.flower.devices import RULE, TRAINER, WORK, Diary, describe, device, evaluate, samples, train

pytest.importorskip("flwr", reason="the flower extra is not installed")

from tests.flower.photographs import Camera, watching
from tests.flower.spoiling import sent

RUN = "run"


def sample_files(folder: Path) -> list[str]:
    return sorted(path.name for path in run_folder(folder, RUN).glob("samples-*"))


def kept_rows(file: list[int], row: list[int]) -> Kept:
    """Return samples of which only it matters where they are."""
    n = len(file)
    return Kept(
        y=np.zeros(n, np.int32),
        is_test=np.zeros(n, np.bool_),
        rounds=np.zeros(n, np.int64),
        places=np.arange(n),
        file=np.array(file, np.int64),
        row=np.array(row, np.int64),
        key=np.zeros(n, dtype="S1"),
        target=np.full(n, np.nan),
        moment=np.zeros(n, np.int64),
    )


def values(files: SampleFiles, kept: Kept) -> list[float]:
    found: list[float] = files.gather(kept.file, kept.row)[:, :1].ravel().tolist()
    return found


# ---- files -----------------------------------------------------------------------------------------------------------


def test_samples_come_back_in_any_order_as_float32_and_are_stored_as_they_came(tmp_path: Path) -> None:
    bytes_, halves = np.arange(6, dtype=np.uint8).reshape(3, 2), np.full((1, 2), 0.5, dtype=np.float16)
    files = SampleFiles(tmp_path).add(bytes_).add(halves)

    again = open_files(tmp_path, files.names)

    x = again.gather(np.array([1, 0, 0]), np.array([0, 2, 0]))
    assert (x.tolist(), x.dtype.name) == ([[0.5, 0.5], [4.0, 5.0], [0.0, 1.0]], "float32")
    assert [array.dtype.name for array in again.arrays] == ["uint8", "float16"]
    assert again.gather(np.empty(0, np.int64), np.empty(0, np.int64)).shape == (0, 2)


def test_equal_samples_are_stored_once(tmp_path: Path) -> None:
    x = np.ones((2, 2), dtype=np.float32)

    files = SampleFiles(tmp_path).add(x).add(x)

    assert len(files.arrays) == 2
    assert [path.name for path in tmp_path.iterdir()] == [files.names[0]] == [files.names[1]]


def test_samples_of_another_shape_are_refused(tmp_path: Path) -> None:
    files = SampleFiles(tmp_path).add(np.ones((1, 1), dtype=np.float32))

    with pytest.raises(InputError, match=r"shape \(2,\); earlier ones had \(1,\)"):
        files.add(np.ones((1, 2), dtype=np.float32))


@pytest.mark.parametrize(
    ("kept", "is_current", "n_rows"),
    [
        (kept_rows([0, 0, 1], [1, 2, 0]), [True, True, True], [4, 1]),
        (kept_rows([0, 1], [3, 0]), [True, True], [1, 1]),
        (kept_rows([0, 0, 1], [1, 2, 0]), [False, False, True], [1, 2]),
        (kept_rows([1], [0]), [True], [1]),
        (kept_rows([], []), [], []),
    ],
    ids=["half of it is enough", "less is moved", "what is old is moved", "nothing is left", "of none"],
)
def test_what_is_left_of_a_file_moves_to_a_smaller_one(
    kept: Kept, is_current: list[bool], n_rows: list[int], tmp_path: Path
) -> None:
    x = np.arange(4, dtype=np.float32)[:, np.newaxis]
    before = SampleFiles(tmp_path).add(x).add(x[:1] + 10)

    files, moved = before.compact(kept, np.array(is_current, dtype=np.bool_))

    assert values(files, moved) == values(before, kept)
    assert sorted(len(array) for array in files.arrays) == sorted(n_rows)
    assert values(open_files(tmp_path, files.names), moved) == values(before, kept)


# ---- nothing new, nothing written ------------------------------------------------------------------------------------


def photograph(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return all files with their sizes, times and bytes."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns, path.read_bytes()) for path in paths}


def test_an_answer_with_nothing_new_writes_nothing_until_a_sample_leaves(tmp_path: Path) -> None:
    diary, rule = Diary({0: samples([0, 1, 1], n_test=1)}), replace(RULE, max_rounds=5)
    device(tmp_path, diary, rule).answer(describe(0))
    before = photograph(tmp_path)

    for now in range(1, 5):
        reply = device(tmp_path, diary, rule).answer(describe(now, confirmed=1))
        assert isinstance(reply, DescribeReply)
        assert (reply.n_samples, reply.report) == (2, None)
        device(tmp_path, diary, rule).answer(evaluate(now))
        assert photograph(tmp_path) == before
    silent = device(tmp_path, diary, rule).answer(describe(5, confirmed=1))

    assert isinstance(silent, DescribeReply)
    assert (silent.n_samples, sample_files(tmp_path)) == (0, [])
    assert {since for since, _ in diary.asked} == {None, 0}, "since is the round of the last samples"


@pytest.mark.parametrize("detector", ["ks", "periodic", "error-rate"])
def test_nothing_new_to_a_shared_model_writes_nothing_either(detector: str, tmp_path: Path) -> None:
    options: dict[str, Json] = {"rounds": 9} if detector == "periodic" else {"alpha": 0.1}
    record: dict[str, Json] = {"representation": "embedding", "of_representation": {}, "metric": "l1"}
    watched = report_rule_from({**record, "detector": detector, "options": options})
    rule = rule_with(replace(RULE, max_rounds=5), watched)
    shared = SharedView(
        key="ab.cd", model=np.ones(6, np.float32), layout=TRAINER.layout, work=WORK, reference=np.ones(2)
    )
    diary = Diary({0: samples([0, 1, 1, 0, 1, 1, 0, 0])})
    device(tmp_path, diary, rule).answer(replace(describe(0), shared=shared))
    before = photograph(tmp_path)

    for now in range(1, 5):
        order = replace(describe(now, confirmed=1), shared=SharedView(key="ab.cd"))
        reply = device(tmp_path, diary, rule).answer(order)
        assert isinstance(reply, DescribeReply)
        assert (reply.n_samples, reply.report) == (8, None)

    assert photograph(tmp_path) == before


def test_a_device_without_samples_writes_nothing(tmp_path: Path) -> None:
    device(tmp_path, Diary({})).answer(describe(0))

    assert photograph(tmp_path) == {}


LARGE = """
import resource, sys
from dataclasses import replace
from pathlib import Path
import numpy as np
from fielding.runtime.own_code import Samples
from tests.flower.devices import RULE, Diary, describe, device

def images():
    rng = np.random.default_rng(1)
    return Samples(rng.integers(0, 256, (20_000, 32, 32, 3), dtype=np.uint8), rng.integers(0, 2, 20_000))

now = int(sys.argv[2])
diary = Diary({now: images()} if now == 0 else {})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
reply = device(Path(sys.argv[1]), diary, replace(RULE, max_rounds=100)).answer(describe(now, confirmed=min(now, 1)))
print(reply.n_samples, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_device_with_20_000_images_answers_nothing_new_with_no_write_and_little_memory(tmp_path: Path) -> None:
    def run(now: int) -> tuple[int, float]:
        command = [sys.executable, "-c", LARGE, str(tmp_path), str(now)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        n_samples, kilobytes = done.stdout.split()
        return int(n_samples), int(kilobytes) / 1000

    n_samples, at_first = run(0)
    before = photograph(tmp_path)
    assert sum(size for size, _, _ in before.values()) < 65e6, "images of 61 MB are stored as they came, once"
    assert at_first < 100, "megabytes beside the images that load_data holds"

    again, then = run(1)

    assert photograph(tmp_path) == before
    assert (again, then < 30) == (n_samples, True), f"{then} MB"


# ---- something new ---------------------------------------------------------------------------------------------------


def test_an_arrival_is_written_once_and_leaves_with_the_window(tmp_path: Path) -> None:
    diary = Diary({now: samples([now % 2] * (now + 1)) for now in range(4)})
    rule, seen = replace(RULE, max_rounds=3), list[list[str]]()
    for now in range(6):
        device(tmp_path, diary, rule).answer(describe(now, confirmed=now))
        seen.append(sample_files(tmp_path))

    assert [len(names) for names in seen] == [1, 2, 3, 3, 2, 1]
    assert set(seen[1]) <= set(seen[2])


def test_samples_that_left_do_not_stay_with_those_that_came_along(tmp_path: Path) -> None:
    diary, rule = Diary({0: samples([0] * 8, rounds=list(range(-7, 1)))}), replace(RULE, max_rounds=8)
    sizes = list[int]()
    for now in range(8):
        device(tmp_path, diary, rule).answer(describe(now, confirmed=now))
        state = read_state(run_folder(tmp_path, RUN))
        assert state is not None
        sizes.append(sum(len(array) for array in state.files.arrays))
        x = state.files.gather(state.kept.file, state.kept.row)
        assert x[:, 1] == pytest.approx(np.arange(now, 8) / 100)

    assert sizes == [8, 8, 8, 8, 8, 3, 3, 1]


def test_what_is_remembered_of_old_samples_stays_alone(tmp_path: Path) -> None:
    diary = Diary({0: samples([0] * 4), 3: samples([1])})
    device(tmp_path, diary).answer(describe(0))
    write_memory(run_folder(tmp_path, RUN), DeviceMemory(rehearsal={"rehearsal.memory_row": np.array([1, 2, 3])}))
    device(tmp_path, diary).answer(describe(3, confirmed=1))

    state = read_state(run_folder(tmp_path, RUN))

    assert state is not None
    assert state.kept.places.tolist() == [1, 2, 3, 4]
    assert sorted(len(array) for array in state.files.arrays) == [1, 3]


# ---- crashes and damage ----------------------------------------------------------------------------------------------

LIFE = {0: samples([0, 1, 1, 0], n_test=1, rounds=[-1, -1, 0, 0]), 1: samples([1, 1]), 3: samples([0])}


def live(folder: Path, first: int) -> list[bytes]:
    """Return what a device answers, round by round."""
    answers = list[bytes]()
    for now in range(first, 6):
        replies = [device(folder, Diary(LIFE)).answer(order) for order in (describe(now), train(now))]
        answers += [str(sent(reply)).encode() for reply in replies]
    return answers


def test_a_device_killed_between_any_two_steps_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    whole = live(tmp_path / "whole", 0)
    camera = Camera(tmp_path / "disk", tmp_path / "album", range(10_000))
    begun = list[int]()
    with watching(camera):
        for now in range(6):
            for order in (describe(now), train(now)):
                begun.append(len(camera.steps))
                device(tmp_path / "disk", Diary(LIFE)).answer(order)

    assert {"before a file takes its place", "after a file goes"} <= set(camera.steps)
    for number, disk in camera.photographs.items():
        at = max(place for place, step in enumerate(begun) if step <= number)
        assert live(disk, at // 2) == whole[at // 2 * 2 :], camera.steps[number]


def former(folder: Path, **extra: npt.NDArray[np.generic]) -> None:
    """Turn a state into one of a former release: features beside all else, in one file."""
    own = run_folder(folder, RUN)
    state, contents = read_state(own), read_contents(own / STATE)
    assert state is not None
    x = state.files.gather(state.kept.file, state.kept.row)
    arrays = {name: array for name, array in contents.arrays.items() if name not in ("kept.file", "kept.row")}
    plain = {name: value for name, value in contents.values.items() if name != "files"}
    write_contents(replace(contents, values=plain, arrays={**arrays, "kept.x": x, **extra}), own / STATE)
    for path in own.glob("samples-*"):
        path.unlink()


@pytest.mark.parametrize(("extra", "n_samples"), [({}, 2), ({"kept.is_aside": np.array([False, True])}, 1)])
def test_a_state_of_a_former_release_goes_on_and_is_split(
    extra: Mapping[str, npt.NDArray[np.generic]], n_samples: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest ones could keep training samples aside to judge models by, and a mark for each sample."""
    diary = Diary({0: samples([0, 1])})
    device(tmp_path, diary).answer(describe(0))
    former(tmp_path, **extra)

    with caplog.at_level(logging.WARNING, logger="fielding.flower"):
        reply = device(tmp_path, diary).answer(train(0, confirmed=1))

    assert isinstance(reply, TrainReply)
    assert (reply.n_samples, len(sample_files(tmp_path))) == (n_samples, 1)
    assert not caplog.records
    assert "kept.x" not in read_contents(run_folder(tmp_path, RUN) / STATE).arrays
    assert diary.asked == [(None, 0)]


def test_a_former_state_that_does_not_fit_together_is_put_aside(tmp_path: Path) -> None:
    device(tmp_path, Diary({0: samples([0, 1])})).answer(describe(0))
    former(tmp_path, **{"kept.is_aside": np.zeros(3, dtype=np.bool_)})

    assert read_state(run_folder(tmp_path, RUN)) is None


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage", [flip, Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-40])], ids=["bit", "gone", "cut"]
)
def test_damaged_samples_are_told_and_the_device_starts_anew(
    damage: Callable[[Path], object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    diary = Diary({0: samples([0, 1, 1])})
    whole = device(tmp_path, diary).answer(train(0))
    folder = run_folder(tmp_path, RUN)
    damage(folder / sample_files(tmp_path)[0])
    (folder / "trained.fielding").unlink()

    with caplog.at_level(logging.WARNING, logger="fielding.flower"):
        reply = device(tmp_path, diary).answer(train(0))

    assert sent(reply) == sent(whole)
    assert diary.asked == [(None, 0), (None, 0)]
    assert "what it held is lost" in caplog.text
    assert len(sample_files(tmp_path)) == 1


@pytest.mark.parametrize("name", ["_check_digest", "_read_header"])
def test_samples_that_cannot_be_read_now_are_kept(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    diary = Diary({0: samples([0, 1, 1])})
    device(tmp_path, diary).answer(describe(0))
    whole, real = sample_files(tmp_path), getattr(container, name)

    def refuse(file: object, path: Path) -> object:
        if path.name in whole:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(file, path)

    with monkeypatch.context() as patch:
        patch.setattr(container, name, refuse)
        with pytest.raises(InputError, match=r"cannot read .*; it is kept, ask again later"):
            device(tmp_path, diary).answer(train(0))

    assert isinstance(device(tmp_path, diary).answer(train(0)), TrainReply)
    assert diary.asked == [(None, 0)]


def test_a_file_without_samples_is_no_file_of_samples(tmp_path: Path) -> None:
    (name,) = SampleFiles(tmp_path).add(np.ones((1, 1), dtype=np.float32)).names
    contents = read_contents(tmp_path / name)
    write_contents(replace(contents, arrays={}), tmp_path / name)

    with pytest.raises(CheckpointError, match="holds no samples"):
        open_files(tmp_path, (name,))


def test_what_a_process_that_was_killed_left_goes_after_an_hour(tmp_path: Path) -> None:
    diary = Diary({0: samples([0]), 1: samples([1])})
    device(tmp_path, diary).answer(describe(0))
    old, young = (run_folder(tmp_path, RUN) / f"samples-{one}.fielding" for one in "ab")
    for path in (old, young):
        path.write_bytes(b"samples that no state names")
    os.utime(old, (1.0, 1.0))

    device(tmp_path, diary).answer(describe(1, confirmed=1))

    assert (old.exists(), young.exists()) == (False, True)
