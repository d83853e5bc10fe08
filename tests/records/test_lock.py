"""The lock of a folder: one holder at a time, also when the file that holds it is removed in between."""

import errno
from pathlib import Path
from typing import IO

import pytest

from fielding.errors import InputError, OutputError
from fielding.records import lock
from fielding.records.lock import is_locked, lock_folder
from tests.records.pipes import needs_pipes, no_waiting, put_pipe

pytest.importorskip("fcntl", reason="this system has no file locks")


def test_a_folder_has_one_writer_at_a_time(tmp_path: Path) -> None:
    with lock_folder(tmp_path / "run"):
        assert is_locked(tmp_path / "run")
        with pytest.raises(InputError, match="another process is writing into"):
            lock_folder(tmp_path / "run")

    assert not is_locked(tmp_path / "run")
    lock_folder(tmp_path / "run").close()


def test_a_lock_that_was_removed_while_it_was_taken_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gives a folder up removes the file: one who had opened it must not believe in it."""
    opened = lock._open_lock
    given_up: list[Path] = []

    def opened_too_early(path: Path) -> IO[bytes]:
        file = opened(path)
        if not given_up:
            given_up.append(path)
            (path / lock.NAME).unlink()
        return file

    monkeypatch.setattr(lock, "_open_lock", opened_too_early)
    with lock_folder(tmp_path / "run"):
        assert is_locked(tmp_path / "run")


def test_a_file_system_without_locks_is_told_and_not_taken_for_another_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(_file: IO[bytes], _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(OutputError, match=r"cannot lock .*: No locks available; its file system has no locks, name"):
        lock_folder(tmp_path / "run")
    assert not is_locked(tmp_path / "run")


@needs_pipes
def test_a_pipe_in_place_of_the_lock_is_told_and_not_waited_for(tmp_path: Path) -> None:
    put_pipe(tmp_path / ".lock")

    with no_waiting():
        assert not is_locked(tmp_path)
        with pytest.raises(OutputError, match=r"cannot write into .*\.lock: it is no file"):
            lock_folder(tmp_path)
    assert (tmp_path / ".lock").is_fifo()
