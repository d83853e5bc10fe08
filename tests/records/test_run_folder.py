"""A run's folder commits, resumes, cuts off what a crash left, and survives damage and full disks."""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding import ReportBatch
from fielding._typing import Json
from fielding.errors import CheckpointError, InputError, OutputError
from fielding.records.logs import DIGESTS
from fielding.records.run_checkpoint import save_run
from fielding.records.run_folder import (
    CONCEPTS,
    EVENTS,
    LOGS,
    REPORT_FILES,
    ROUNDS,
    RunFolder,
    newest_checkpoint,
    read_run_reports,
)
from tests.records.pipes import needs_pipes, no_waiting, put_pipe
from tests.records.test_run_checkpoint import checkpoint

MANIFEST: dict[str, Json] = {"fielding": "1", "machine": {}, "seed": 1}
REPORTS = ReportBatch(client_ids=["b", "a"], representations=np.array([[0.5, 0.5], [1.0, 0.0]], dtype=np.float32))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    opened = RunFolder(tmp_path / "out", MANIFEST)
    yield opened
    opened.close()


def reopened(folder: RunFolder, manifest: dict[str, Json] = MANIFEST) -> RunFolder:
    folder.close()
    return RunFolder(folder.path, manifest)


def do_rounds(folder: RunFolder, first: int, stop: int, *, commit: bool = True) -> None:
    for at in range(first, stop):
        folder.write_reports(REPORTS, at)
        folder.logs.append(ROUNDS, {"round": at})
        folder.logs.append(EVENTS, {"round": at, "who": "all"})
        if commit:
            folder.commit(replace(checkpoint(), round_index=at))


def names(folder: RunFolder, sub: str) -> list[str]:
    return sorted(path.name for path in (folder.path / sub).iterdir())


def test_the_last_two_checkpoints_are_kept(folder: RunFolder) -> None:
    folder.begin("seed = 1\n")
    do_rounds(folder, 0, 5)

    assert names(folder, "checkpoints") == ["00000003.ckpt", "00000004.ckpt"]
    assert newest_checkpoint(folder.path).name == "00000004.ckpt"
    assert (folder.path / "config.toml").read_text() == "seed = 1\n"


def test_what_came_after_the_checkpoint_is_cut_off(folder: RunFolder) -> None:
    folder.begin("")
    do_rounds(folder, 0, 3)
    committed = {name: (folder.path / name).read_bytes() for name in LOGS}
    do_rounds(folder, 3, 5, commit=False)
    (folder.path / "checkpoints" / ".00000003.ckpt.77.tmp").write_bytes(b"half")
    (folder.path / "summary.json").write_text("{}")
    folder.close()
    with (folder.path / ROUNDS).open("ab") as file:
        file.write(b'{"rou')

    again = RunFolder(folder.path, MANIFEST)
    found = again.resume()

    assert found is not None
    assert found.round_index == 2
    assert {name: (again.path / name).read_bytes() for name in LOGS} == committed
    assert names(again, "reports") == ["00000000.npz", "00000001.npz", "00000002.npz"]
    assert names(again, "checkpoints") == ["00000001.ckpt", "00000002.ckpt"]
    assert not (again.path / "summary.json").exists()
    again.close()


def test_a_log_that_an_older_version_did_not_write_begins_with_the_resume(folder: RunFolder) -> None:
    folder.begin("")
    do_rounds(folder, 0, 2)
    later = (CONCEPTS, REPORT_FILES, DIGESTS)
    sizes = {name: size for name, size in folder.logs.sizes().items() if name not in later}
    save_run(replace(checkpoint(), round_index=1, progress=sizes), newest_checkpoint(folder.path))
    (folder.path / CONCEPTS).unlink()
    (folder.path / REPORT_FILES).unlink()
    folder.close()

    again = RunFolder(folder.path, {**MANIFEST, "classes": ["cat", "dog"]})
    found = again.resume()

    assert found is not None
    assert found.round_index == 1
    assert (again.path / CONCEPTS).read_bytes() == (again.path / REPORT_FILES).read_bytes() == b""
    do_rounds(again, 2, 3)
    assert newest_checkpoint(again.path).name == "00000002.ckpt"
    again.close()


def change_digit(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(bytes(whole))


@pytest.mark.parametrize("name", [ROUNDS, EVENTS, REPORT_FILES])
def test_a_changed_log_is_told_and_nothing_is_touched(folder: RunFolder, name: str) -> None:
    folder.begin("")
    do_rounds(folder, 0, 3)
    do_rounds(folder, 3, 4, commit=False)
    again = reopened(folder)
    change_digit(folder.path / name)
    before = everything(folder)

    with pytest.raises(CheckpointError, match=rf"{name} was changed: its checksum .*; put back a copy of it, or begin"):
        again.resume()

    assert everything(folder) == before
    again.close()


@pytest.mark.parametrize(("damage", "words"), [(change_digit, "was changed"), (Path.unlink, "is missing")])
def test_a_ruined_or_missing_report_is_told_and_the_run_goes_on(
    folder: RunFolder, damage: Callable[[Path], None], words: str
) -> None:
    folder.begin("")
    do_rounds(folder, 0, 4)
    whole = everything(folder)
    again = reopened(folder)
    for at in (1, 2):
        damage(folder.path / "reports" / f"0000000{at}.npz")

    assert again.resume() is not None
    (note,) = again.notes
    assert f"00000001.npz {words}" in note
    assert note.endswith(", and 1 more; put back a copy before you replay the run")
    with pytest.raises(InputError, match=rf"00000001\.npz {words}.*; put back a copy"):
        read_run_reports(folder.path)
    for at in (1, 2):
        path = folder.path / "reports" / f"0000000{at}.npz"
        path.write_bytes(whole[str(path)])
    assert len(read_run_reports(folder.path)) == 4
    again.close()


def test_without_a_checkpoint_a_resumed_run_begins_anew(folder: RunFolder) -> None:
    folder.begin("")
    do_rounds(folder, 0, 2, commit=False)

    again = reopened(folder)

    assert again.resume() is None
    assert (again.path / ROUNDS).read_bytes() == b""
    assert names(again, "reports") == []
    again.close()


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "zero"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(folder: RunFolder, damage: str) -> None:
    folder.begin("")
    do_rounds(folder, 0, 4)
    newest = newest_checkpoint(folder.path)
    whole = newest.read_bytes()
    middle = len(whole) // 2
    newest.write_bytes(
        {
            "cut": whole[:middle],
            "flip": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "empty": b"",
            "zero": bytes(len(whole)),
        }[damage]
    )

    again = reopened(folder)
    found = again.resume()

    assert found is not None
    assert found.round_index == 2
    assert (again.path / ROUNDS).read_text().count("\n") == 3
    assert not newest.exists(), "a damaged checkpoint must not count as one of the last two"
    assert newest.with_name("00000003.ckpt.damaged").exists()
    assert again.notes == [f"{newest} is damaged: going on after round 2; it is kept as 00000003.ckpt.damaged"]
    again.close()


def everything(folder: RunFolder) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.path.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, errno.EIO])
def test_a_checkpoint_that_cannot_be_read_now_is_told_and_nothing_is_touched(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    folder.begin("")
    do_rounds(folder, 0, 4)
    do_rounds(folder, 4, 5, commit=False)
    again = reopened(folder)
    before, newest, real = everything(folder), newest_checkpoint(folder.path), Path.open

    def open_others(path: Path, *arguments: Any, **options: Any) -> Any:
        if path == newest:
            raise OSError(number, os.strerror(number), str(path))
        return real(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", open_others)
        with pytest.raises(CheckpointError, match=rf"cannot read .*: {os.strerror(number)}; nothing was changed"):
            again.resume()

    assert everything(folder) == before
    found = again.resume()
    assert found is not None
    assert found.round_index == 3
    again.close()


def test_a_checkpoint_of_a_newer_format_is_told_and_nothing_is_touched(folder: RunFolder) -> None:
    folder.begin("")
    do_rounds(folder, 0, 4)
    newest = newest_checkpoint(folder.path)
    whole = newest.read_bytes()
    newer = whole[:8] + (2).to_bytes(4, "little") + whole[12:-32]
    newest.write_bytes(newer + hashlib.blake2b(newer, digest_size=32).digest())
    again = reopened(folder)
    before = everything(folder)

    with pytest.raises(CheckpointError, match=r"has format version 2, .*; nothing was changed"):
        again.resume()

    assert everything(folder) == before
    again.close()


@needs_pipes
@pytest.mark.parametrize("n_committed", [0, 3])
@pytest.mark.parametrize("name", ["config.toml", *LOGS, "reports/00000000.npz", "reports/00000003.npz"])
def test_a_pipe_among_the_files_is_told_and_nothing_is_touched(folder: RunFolder, name: str, n_committed: int) -> None:
    folder.begin("seed = 1\n")
    do_rounds(folder, 0, n_committed)
    do_rounds(folder, n_committed, 4, commit=False)
    again = reopened(folder)
    (folder.path / ".config.toml.77.tmp").write_bytes(b"half")
    put_pipe(folder.path / name)
    before = everything(folder)

    with (
        no_waiting(),
        pytest.raises(OutputError, match=rf"cannot change .*{name}: it is no file; what was committed is"),
    ):
        again.resume("seed = 1\n")

    assert everything(folder) == before
    assert (folder.path / name).is_fifo()
    again.close()


@needs_pipes
@pytest.mark.parametrize("name", [REPORT_FILES, "reports/00000001.npz", "reports/00000009.npz"])
def test_a_pipe_among_the_reports_is_told_and_not_waited_for(folder: RunFolder, name: str) -> None:
    folder.begin("")
    do_rounds(folder, 0, 3)
    put_pipe(folder.path / name)

    with no_waiting(), pytest.raises(InputError, match=rf"cannot read .*{name}: .*it is no file"):
        read_run_reports(folder.path)


def test_if_no_checkpoint_is_whole_nothing_is_touched(folder: RunFolder) -> None:
    folder.begin("")
    do_rounds(folder, 0, 4)
    for path in (folder.path / "checkpoints").iterdir():
        path.write_bytes(path.read_bytes()[:-1])

    again = reopened(folder)
    with pytest.raises(CheckpointError, match=r"00000003\.ckpt is damaged"):
        again.resume()

    assert (again.path / ROUNDS).read_text().count("\n") == 4
    assert len(names(again, "reports")) == 4
    again.close()


def test_a_log_that_lost_something_is_told(folder: RunFolder) -> None:
    folder.begin("")
    do_rounds(folder, 0, 4)
    folder.close()
    (folder.path / EVENTS).write_bytes(b"")

    again = RunFolder(folder.path, MANIFEST)
    with pytest.raises(CheckpointError, match=r"events\.jsonl is shorter than its checkpoint says"):
        again.resume()
    again.close()


def test_another_manifest_is_refused(folder: RunFolder) -> None:
    folder.begin("")
    do_rounds(folder, 0, 2)

    again = reopened(folder, {**MANIFEST, "seed": 2})
    with pytest.raises(InputError, match="seed was 1, now it is 2"):
        again.resume()
    again.close()


def test_another_release_or_machine_may_go_on(folder: RunFolder) -> None:
    folder.begin("")
    do_rounds(folder, 0, 2)

    again = reopened(folder, {**MANIFEST, "fielding": "2", "machine": {"numpy": "9"}})

    assert again.resume() is not None
    again.close()


def test_only_one_process_writes_at_a_time(folder: RunFolder) -> None:
    with pytest.raises(InputError, match="another process is writing into"):
        RunFolder(folder.path, MANIFEST)

    reopened(folder).close()


def test_a_run_is_not_begun_over_another(folder: RunFolder) -> None:
    folder.begin("")

    with pytest.raises(InputError, match=r"holds a run already; continue it with Start\(resume=True\) or name another"):
        folder.begin("")


@pytest.mark.parametrize("name", [*LOGS, "summary.json", "report.html", "config.toml", "checkpoints/1", "reports/mine"])
def test_files_of_the_user_are_spared(folder: RunFolder, name: str) -> None:
    path = folder.path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")

    with pytest.raises(InputError, match=f"holds a {name.partition('/')[0]} that no run wrote; name another folder"):
        folder.begin("seed = 1\n")

    assert path.read_text() == "mine"


def test_a_run_killed_while_it_began_can_begin_again(folder: RunFolder) -> None:
    folder.begin("seed = 1\n")
    (folder.path / "manifest.json").unlink()  # it is written last: so far it had come
    (folder.path / ".manifest.json.5.tmp").write_bytes(b"half")

    again = reopened(folder)
    assert not again.is_begun()
    again.begin("seed = 1\n")

    assert again.is_begun()
    assert not list(again.path.glob(".*.tmp"))
    again.close()


def test_files_that_are_not_numbered_are_left_alone(folder: RunFolder) -> None:
    folder.begin("")
    do_rounds(folder, 0, 3)
    for name in ("reports/notes.npz", "checkpoints/best.ckpt"):
        (folder.path / name).write_text("mine")

    again = reopened(folder)
    found = again.resume()
    do_rounds(again, 3, 5)

    assert found is not None
    assert (again.path / "reports" / "notes.npz").read_text() == "mine"
    assert names(again, "checkpoints") == ["00000003.ckpt", "00000004.ckpt", "best.ckpt"]
    assert len(read_run_reports(again.path)) == 5
    again.close()


def test_reports_come_back_round_by_round(folder: RunFolder) -> None:
    folder.begin("")
    do_rounds(folder, 3, 5, commit=False)

    steps = [(step, list(batch.client_ids)) for step, batch in read_run_reports(folder.path)]

    assert [step for step, _ in steps] == [3, 4]
    assert sorted(steps[0][1]) == ["a", "b"]


def test_folders_without_a_run_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no checkpoint; give the folder of a run, or a checkpoint"):
        newest_checkpoint(tmp_path)
    with pytest.raises(InputError, match="holds no reports; give the folder of a run whose method listens"):
        read_run_reports(tmp_path)


@pytest.mark.parametrize("fault", ["fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_a_disk_that_fails_leaves_the_last_checkpoint_whole(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, fault: str, number: int
) -> None:
    folder.begin("")
    do_rounds(folder, 0, 2)

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(*((os, "fsync", fail) if fault == "fsync" else (Path, "replace", fail)))
        with pytest.raises(OutputError, match=f"cannot write .*: {os.strerror(number)}"):
            do_rounds(folder, 2, 3)

    again = reopened(folder)
    found = again.resume()
    assert found is not None
    assert found.round_index == 1
    assert (again.path / ROUNDS).read_text().count("\n") == 2
    again.close()


def test_a_folder_deleted_meanwhile_is_one_clear_error(folder: RunFolder) -> None:
    folder.begin("")
    do_rounds(folder, 0, 2)
    for path in (folder.path / "checkpoints").iterdir():
        path.unlink()
    (folder.path / "checkpoints").rmdir()

    with pytest.raises(OutputError, match=r"cannot write .*00000002\.ckpt: No such file or directory"):
        do_rounds(folder, 2, 3)
