"""One writer per folder; the operating system frees the lock when its holder dies, however it dies."""

from pathlib import Path
from typing import IO

from fielding.errors import InputError, OutputError

NAME = ".lock"


def locked_folder(path: Path) -> IO[bytes]:
    """Take the lock of a folder, which is made if need be, and return the open file that holds it.

    Raises
    ------
    InputError
        If another process is writing into the folder.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        file = (path / NAME).open("ab")
    except OSError as error:
        raise OutputError(f"cannot write into {path}: {error.strerror or error}") from error
    try:
        import fcntl
    except ImportError:  # systems without it: one user, one process
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise InputError(f"another process is writing into {path}; wait for it or name another folder") from None
    return file
