import os
import stat
from pathlib import Path

import pytest

from fielding.atomic import make_private, replaced_file, sync_folder
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


def test_a_folder_that_cannot_be_synced_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_handle: int) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse)
    sync_folder(tmp_path)
    sync_folder(tmp_path / "none")


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
