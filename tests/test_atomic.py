import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from fielding.atomic import make_private, output_errors, replaced_file, sync_folder
from fielding.errors import OutputError


def test_the_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "result"

    with replaced_file(target) as file:
        file.write(b"half")
        assert not target.exists()

    assert target.read_bytes() == b"half"
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


def test_a_mistake_while_writing_keeps_the_old_file_and_is_passed_on(tmp_path: Path) -> None:
    target = tmp_path / "result"
    target.write_bytes(b"old")

    with pytest.raises(ZeroDivisionError), replaced_file(target) as file:
        file.write(b"new" * (1 // 0))

    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


def test_the_message_tells_whether_something_was_kept(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"No such file or directory$"), replaced_file(tmp_path / "no" / "file"):
        pass
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="what was there before is kept"), replaced_file(tmp_path / "folder"):
        pass


def refusing(number: int) -> Callable[[int], NoReturn]:
    def refuse(_handle: int) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return refuse


def test_a_file_system_that_cannot_sync_folders_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", refusing(errno.EINVAL))

    sync_folder(tmp_path)


def test_a_folder_whose_sync_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", refusing(errno.EIO))

    with pytest.raises(OutputError, match=r"cannot sync .*: Input/output error; .* may not survive a power cut"):
        sync_folder(tmp_path)


def test_the_parents_of_a_new_folder_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("fielding.atomic.sync_folder", synced.append)
    make_private(tmp_path / "a" / "b")
    make_private(tmp_path / "a" / "b")

    assert sorted(synced) == [tmp_path, tmp_path / "a"]


def test_what_the_system_refuses_is_told_in_one_line(tmp_path: Path) -> None:
    told = r"cannot change .*gone: No such file .*; what was committed is kept"

    with pytest.raises(OutputError, match=told), output_errors(tmp_path):
        (tmp_path / "gone").unlink()


@pytest.mark.skipif(os.name != "posix", reason="this system has no modes of files")
def test_a_new_folder_is_private_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o750)  # as its owner wants it
    before = os.umask(0)  # the most careless setting
    try:
        make_private(tmp_path / "parent" / "new")
        make_private(tmp_path / "shared")
    finally:
        os.umask(before)

    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("parent/new", "parent", "shared")]
    assert modes == [0o700, 0o777, 0o750]
