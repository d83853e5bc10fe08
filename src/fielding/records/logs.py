"""Logs of one JSON object a line that only grow, and that a resumed run cuts off where its checkpoint saw their end."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from fielding._typing import Json
from fielding.atomic import replaced_file
from fielding.errors import CheckpointError, InputError, OutputError


class Logs:
    """Some logs in a folder, kept open while they are written.

    Parameters
    ----------
    folder
        Where they are.
    names
        Their file names.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._folder, self.names = folder, tuple(names)
        self._files: dict[str, BinaryIO] = {}
        self._unsynced: set[str] = set()

    def close(self) -> None:
        """Write out what is in memory and close the files, all of them even if one fails."""
        failures: list[OutputError] = []
        for name in list(self._files):
            try:
                self._files.pop(name).close()
            except OSError as error:
                failures.append(self._failure(name, error))
        self._unsynced.clear()
        if failures:
            raise failures[0]

    def begin(self) -> None:
        """Make all logs, empty."""
        for name in self.names:
            with replaced_file(self._folder / name):
                pass

    def append(self, name: str, record: Mapping[str, object]) -> None:
        """Write down one line; it may stay in memory until :meth:`sizes` is asked for."""
        try:
            if name not in self._files:
                self._files[name] = (self._folder / name).open("ab")
            self._files[name].write(f"{json.dumps(record, allow_nan=False)}\n".encode())
        except OSError as error:
            raise self._failure(name, error) from error
        self._unsynced.add(name)

    def sizes(self) -> dict[str, Json]:
        """Return the size of every log after everything in it reached the disk."""
        sizes: dict[str, Json] = {}
        for name in self.names:
            try:
                if name in self._unsynced:
                    self._files[name].flush()
                    os.fsync(self._files[name].fileno())
                sizes[name] = (self._folder / name).stat().st_size
            except OSError as error:
                raise self._failure(name, error) from error
        self._unsynced.clear()
        return sizes

    def cut(self, sizes: Mapping[str, Json]) -> None:
        """Cut every log off at a size; one that is shorter than that lost something."""
        self.close()
        for name in self.names:
            path, size = self._folder / name, sizes.get(name)
            if not isinstance(size, int) or not path.exists() or path.stat().st_size < size:
                raise CheckpointError(f"{path} is shorter than its checkpoint says; begin anew in another folder")
            os.truncate(path, size)

    def lines(self, name: str) -> Iterator[dict[str, Json]]:
        """Yield the lines of a log so far."""
        if name in self._files:
            self._files[name].flush()
        yield from read_lines(self._folder / name)

    def _failure(self, name: str, error: OSError) -> OutputError:
        return OutputError(f"cannot write {self._folder / name}: {error.strerror or error}")


def read_lines(path: Path) -> Iterator[dict[str, Json]]:
    """Yield the lines of a log; a last line that a crash cut short is left out."""
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    yield json.loads(line)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
