"""Files that appear whole or not at all, folders for their owner alone, and folders that go when they are done with."""

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fielding.errors import FieldingError, OutputError

PRIVATE_FOLDER = 0o700


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that takes the place of ``path`` once it is complete and on disk.

    If anything fails, the old file stays as it was and the temporary one is removed. A full disk or a folder that
    cannot be written raises :class:`~fielding.errors.OutputError`.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with scratch.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as error:
        kept = "; what was there before is kept" if path.exists() else ""
        raise OutputError(f"cannot write {path}: {error.strerror or error}{kept}") from error
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder survive a power cut, on systems whose folders can be synced; else OutputError."""
    if os.name == "nt":
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        # A file system that cannot, or a folder that may be written but not opened.
        if error.errno in (errno.EINVAL, errno.ENOTSUP, errno.EACCES):
            return
        raise OutputError(
            f"cannot sync {folder}: {error.strerror or error}; what was written last may not survive a power cut"
        ) from error


@contextlib.contextmanager
def output_errors(folder: Path) -> Iterator[None]:
    """Tell what the system refuses while a folder is changed as :class:`~fielding.errors.OutputError`, in one line."""
    try:
        yield
    except FieldingError:
        raise
    except OSError as error:
        where = error.filename or folder
        raise OutputError(f"cannot change {where}: {error.strerror or error}; what was committed is kept") from error


def check_no_pipe(path: Path) -> None:
    """Raise OSError if a path leads to a pipe, a socket or a device: it could be waited for for ever."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "it is no file", str(path))


def make_private(folder: Path) -> None:
    """Make a folder, if it is not there, that only its owner can enter; one that is there keeps its mode.

    For all that tells about clients: runs hold the label shares of every client, devices the samples themselves.
    Parents that are missing get the mode that the user's folders have. What is new survives a power cut.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent)


class ScratchFolder:
    """A folder for results that nobody gave a name: it is there as long as this object is."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="fielding-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
