"""One writer per folder; the operating system frees the lock when its holder dies, however it dies."""

import contextlib
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from fielding.atomic import check_no_pipe, make_private
from fielding.errors import InputError, OutputError

NAME = ".lock"
_TRIES, _PAUSE_S = 5, 0.05


def lock_folder(path: Path) -> IO[bytes]:
    """Take the lock of a folder, which is made for its owner alone if need be, and return the open file that holds it.

    InputError if another process is writing into the folder. OutputError if the folder cannot be written, or its file
    system has no locks.
    """
    take = _locker(shared=False)
    for at in range(_TRIES):  # another process may just be asking whether it is locked
        file = _open_lock(path)
        is_taken = False
        try:
            is_taken = take is None or (take(file) and _is_still(file, path / NAME))
        finally:
            if not is_taken:
                file.close()
        if is_taken:
            return file
        time.sleep(_PAUSE_S if at + 1 < _TRIES else 0.0)
    raise InputError(f"another process is writing into {path}; wait for it or name another folder") from None


def is_locked(path: Path) -> bool:
    """Return whether a process is writing into a folder; False where the system cannot tell."""
    take = _locker(shared=True)
    with contextlib.suppress(OSError):
        check_no_pipe(path / NAME)
        with (path / NAME).open("rb") as file:
            return take is not None and not take(file)
    return False


def _open_lock(path: Path) -> IO[bytes]:
    lock = path / NAME
    try:
        make_private(path)
        if lock.exists():
            check_no_pipe(lock)
        return lock.open("ab")
    except OSError as error:
        where = lock if error.errno == errno.EINVAL else path  # a pipe in its place; else it is the folder that cannot
        raise OutputError(f"cannot write into {where}: {error.strerror or error}") from error


def _is_still(file: IO[bytes], path: Path) -> bool:
    """Return whether an open file is the one of this name: a process that held the lock may have removed it."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    return False


def _locker(*, shared: bool) -> Callable[[IO[bytes]], bool] | None:
    """Return what takes the lock of a file and tells whether it could; None on systems without locks."""
    try:
        import fcntl
    except ImportError:  # one user, one process
        return None
    how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB

    def take(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, how)
        except BlockingIOError:
            return False
        except OSError as error:
            raise OutputError(
                f"cannot lock {file.name}: {error.strerror or error}; its file system has no locks, name a folder on "
                "another one"
            ) from error
        return True

    return take
