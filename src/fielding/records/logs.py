"""Logs of one JSON object a line that only grow, and that a resumed run cuts off where its checkpoint saw their end.

A checkpoint knows the size and the digest of each; digests roll along with the lines, so that it costs as much as what
is new, however long the logs are.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

from fielding._typing import ClientId, Codes, Json, Membership
from fielding.atomic import check_no_pipe, replaced_file
from fielding.coordinator.registry import UNASSIGNED
from fielding.errors import CheckpointError, InputError, OutputError
from fielding.json_text import parse_json


def changes(
    before: Membership | Codes | None, now: Membership | Codes, client_ids: Sequence[ClientId]
) -> list[list[ClientId]]:
    """Return ``[client, cluster]`` for every client that is new or changed its cluster; concepts are told likewise.

    Examples
    --------
    >>> changes(np.array([0, 1]), np.array([0, 2, 1]), ["a", "b", "c"])
    [['b', 2], ['c', 1]]
    """
    old = np.full(now.size, UNASSIGNED - 1, dtype=np.int64)
    if before is not None:
        old[: before.size] = before
    return [[client_ids[row], int(now[row])] for row in np.flatnonzero(old != now).tolist()]


def write_membership_table(file: IO[bytes], log: Sequence[Mapping[str, Json]], client_ids: Sequence[ClientId]) -> None:
    """Write ``step``, ``client``, ``cluster`` as npz: every client at every step, -1 before it first has data."""
    row_of: dict[Json, int] = {client_id: row for row, client_id in enumerate(client_ids)}
    table = np.empty((len(log), len(client_ids)), dtype=np.int32)
    now = np.full(len(client_ids), UNASSIGNED, dtype=np.int32)
    for at, line in enumerate(log):
        changed = line["changed"]
        for pair in changed if isinstance(changed, list) else []:
            if isinstance(pair, list):
                now[row_of[pair[0]]] = int(str(pair[1]))
        table[at] = now
    steps = np.array([line["step"] for line in log], dtype=np.int64)
    clients = np.array(client_ids) if client_ids else np.zeros(0, dtype=np.int64)
    np.savez_compressed(
        file,
        allow_pickle=False,
        step=np.repeat(steps, clients.size),
        client=np.tile(clients, steps.size),
        cluster=table.ravel(),
    )


DIGESTS = "blake2b"  # beside the sizes of logs, under their names
_REMEDY = "put back a copy of it, or begin anew in another folder"
_new_digest = partial(hashlib.blake2b, digest_size=16)


class Logs:
    """Some logs in a folder, kept open while they are written."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._folder, self.names = folder, tuple(names)
        self._files: dict[str, BinaryIO] = {}
        self._digests = {name: _new_digest() for name in names}
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
            self.begin_one(name)

    def begin_one(self, name: str) -> None:
        """Make one log, empty."""
        with replaced_file(self._folder / name):
            pass
        self._digests[name] = _new_digest()

    def append(self, name: str, record: Mapping[str, object]) -> None:
        """Write down one line; it may stay in memory until :meth:`sizes` is asked for."""
        try:
            if name not in self._files:
                self._files[name] = (self._folder / name).open("ab")
            line = f"{json.dumps(record, allow_nan=False)}\n".encode()
            self._files[name].write(line)
        except OSError as error:
            raise self._failure(name, error) from error
        self._digests[name].update(line)
        self._unsynced.add(name)

    def sizes(self) -> dict[str, Json]:
        """Return the size of every log after everything in it reached the disk, and their digests under DIGESTS."""
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
        return {**sizes, DIGESTS: {name: digest.hexdigest() for name, digest in self._digests.items()}}

    def cut(self, sizes: Mapping[str, Json]) -> None:
        """Cut every log off at a size, once all of them are known to be what was written.

        One that is shorter lost something, and one of another digest was changed: both raise CheckpointError, and
        nothing is cut. Checkpoints of older versions have no digests.
        """
        self.close()
        known, found = sizes.get(DIGESTS), dict[str, tuple[int, hashlib.blake2b]]()
        for name in self.names:
            path, size = self._folder / name, sizes.get(name)
            if not isinstance(size, int) or not path.exists():
                raise CheckpointError(f"{path} is gone, or its checkpoint does not know it; {_REMEDY}")
            found[name] = size, self._digest_of(path, size)
            wanted = known.get(name) if isinstance(known, dict) else None
            if wanted is not None and found[name][1].hexdigest() != wanted:
                raise CheckpointError(f"{path} was changed: its checksum is not that of its checkpoint; {_REMEDY}")
        for name, (size, digest) in found.items():
            path = self._folder / name
            try:
                os.truncate(path, size)
            except OSError as error:
                raise self._failure(name, error) from error
            self._digests[name] = digest

    def lines(self, name: str) -> Iterator[dict[str, Json]]:
        """Yield the lines of a log so far."""
        if name in self._files:
            self._files[name].flush()
        yield from read_lines(self._folder / name)

    def _digest_of(self, path: Path, size: int) -> hashlib.blake2b:
        """Return the digest of the first bytes of a log, or raise if it has not so many."""
        digest, left = _new_digest(), size
        try:
            check_no_pipe(path)
            with path.open("rb") as file:
                while left and (piece := file.read(min(left, 1 << 20))):
                    digest.update(piece)
                    left -= len(piece)
        except OSError as error:
            raise CheckpointError(f"cannot read {path}: {error.strerror or error}; nothing was changed") from error
        if left:
            raise CheckpointError(f"{path} is shorter than its checkpoint says; {_REMEDY}")
        return digest

    def _failure(self, name: str, error: OSError) -> OutputError:
        return OutputError(f"cannot write {self._folder / name}: {error.strerror or error}")


def read_lines(path: Path) -> Iterator[dict[str, Json]]:
    """Yield the lines of a log; a last line that a crash cut short is left out."""
    try:
        check_no_pipe(path)
        with path.open(encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    yield parse_json(line)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
