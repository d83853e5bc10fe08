"""The file format of checkpoints: versioned, check-summed, written whole or not at all, free of pickle.

Layout: ``FIELDING`` | format version (u32) | header length (u64) | header (JSON) | arrays, each 64-byte aligned |
blake2b-256 of everything before. All numbers are little-endian. Every version begins with name and version and ends
with that digest: so a newer one can be told from a damaged file.
"""

import contextlib
import hashlib
import json
import math
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from fielding._typing import Json
from fielding.atomic import check_no_pipe, replaced_file
from fielding.errors import CheckpointError, DamagedCheckpointError, InputError, echo
from fielding.json_text import parse_json

MAGIC = b"FIELDING"
FORMAT_VERSION = 1
_HEAD = struct.Struct("<8sIQ")
_ALIGNMENT = 64
_DIGEST_SIZE = 32
_DTYPES = frozenset({"<f2", "<f4", "<f8", "|i1", "<i2", "<i4", "<i8", "|b1", "|u1", "<u2"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contents:
    """What a checkpoint holds: values as JSON would hold them, and named arrays.

    ``progress`` is whatever the driver wants to find again beside the state, JSON values only; ``kind`` is what it is a
    checkpoint of.
    """

    values: Mapping[str, Json]
    arrays: Mapping[str, npt.NDArray[np.generic]]
    progress: Mapping[str, Json]
    kind: str = "coordinator"


def write_contents(contents: Contents, path: Path) -> None:
    """Write a checkpoint; after a crash at any moment, either the old file or the new one is there, whole."""
    with replaced_file(path) as file:
        digest = hashlib.blake2b(digest_size=_DIGEST_SIZE)
        for piece in _pieces(contents):
            digest.update(piece)
            file.write(piece)
        file.write(digest.digest())


def read_contents(path: Path) -> Contents:
    """Read a checkpoint.

    A file that is damaged or cut short raises :class:`~fielding.errors.DamagedCheckpointError`, one that the system
    does not let be read or that is of a newer version :class:`~fielding.errors.CheckpointError`; nothing of it is used.
    """
    with _reading(path) as file:
        _check_digest(file, path)
        header, start = _read_header(file, path)
        file.seek(start)
        return _contents(header, path, lambda entry: _read_array(file, entry, path))


def map_contents(path: Path) -> Contents:
    """Read a checkpoint whose arrays stay in the file until they are used, read-only; it may be removed meanwhile.

    Only its length and its header are looked at; :func:`check_contents` tells whether the arrays are whole.
    """
    with _reading(path) as file:
        header, start = _read_header(file, path)
        n_bytes = os.fstat(file.fileno()).st_size
        whole = np.memmap(file, dtype=np.uint8, mode="r").view(np.ndarray)

    def map_array(entry: dict[str, Any]) -> npt.NDArray[np.generic]:
        dtype, shape, at = _dtype_of(entry), tuple(entry["shape"]), start + int(entry["offset"])
        stop = at + dtype.itemsize * math.prod(shape)
        if stop > n_bytes - _DIGEST_SIZE:
            raise CheckpointError(f"{path} is cut short: it has {n_bytes} bytes")
        return whole[at:stop].view(dtype).reshape(shape)

    return _contents(header, path, map_array)


def check_contents(path: Path) -> None:
    """Raise :class:`~fielding.errors.CheckpointError` if a checkpoint is damaged; it is read piece by piece."""
    with _reading(path) as file:
        _check_digest(file, path)


def raise_if_unreadable(path: Path, error: Exception) -> None:
    """Raise :class:`~fielding.errors.InputError` if reading failed for want of memory or open files: it may be good."""
    cause = error.__cause__ if isinstance(error, CheckpointError) else error
    if isinstance(cause, (OSError, MemoryError)) and not isinstance(cause, FileNotFoundError):
        why = (cause.strerror if isinstance(cause, OSError) else None) or repr(cause)
        raise InputError(f"cannot read {path}: {why}; it is kept, ask again later") from error


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    """Open a checkpoint; what the system does not let be read may be good, and is told as such."""
    try:
        check_no_pipe(path)
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error


def _checked_magic(file: BinaryIO, path: Path) -> bytes:
    """Return the first bytes, or raise if they are not those of a checkpoint."""
    head = file.read(_HEAD.size)
    if not head.startswith(MAGIC):
        raise DamagedCheckpointError(f"{path} is not a Fielding checkpoint; it begins with {echo(head[:8])}")
    return head


def _read_head(file: BinaryIO, path: Path) -> int:
    """Return the length of the header, or raise if this is no checkpoint that can be read."""
    head = _checked_magic(file, path)
    if len(head) < _HEAD.size:
        raise DamagedCheckpointError(f"{path} is damaged: it has {len(head)} bytes; use an older checkpoint")
    _, version, header_length = _HEAD.unpack(head)
    if version != FORMAT_VERSION:
        raise CheckpointError(
            f"{path} has format version {version}, this Fielding reads version {FORMAT_VERSION}; "
            "use the release that wrote it, or a newer one"
        )
    return int(header_length)


def _read_header(file: BinaryIO, path: Path) -> tuple[dict[str, Any], int]:
    """Return the header, and where the arrays begin."""
    file.seek(0)
    length = _read_head(file, path)
    try:
        header = parse_json(file.read(length))
        return dict(header), _HEAD.size + length
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise CheckpointError(f"{path} describes no checkpoint ({error!r})") from error


def _contents(
    header: dict[str, Any], path: Path, array_of: Callable[[dict[str, Any]], npt.NDArray[np.generic]]
) -> Contents:
    try:
        return Contents(
            arrays={str(name): array_of(entry) for name, entry in header["arrays"].items()},
            values=dict(header["values"]),
            progress=dict(header["progress"]),
            kind=str(header.get("kind", "coordinator")),
        )
    except (ValueError, TypeError, KeyError, AttributeError, MemoryError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path} is whole but describes no checkpoint ({error!r})") from error


def _pieces(contents: Contents) -> Iterator[bytes | memoryview]:
    """Yield the file piece by piece, so that large arrays are never copied."""
    entries, offset = {}, 0
    little = {
        name: np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")  # which keeps a shape of () as it is
        for name, array in contents.arrays.items()
    }
    for name, array in little.items():
        entries[name] = {"dtype": array.dtype.str, "shape": list(array.shape), "offset": offset}
        offset += array.nbytes + _padding(array.nbytes)
    record = {"kind": contents.kind, "progress": contents.progress, "values": contents.values, "arrays": entries}
    header = json.dumps(record, allow_nan=False).encode()
    header += b" " * _padding(_HEAD.size + len(header))
    yield _HEAD.pack(MAGIC, FORMAT_VERSION, len(header))
    yield header
    for array in little.values():
        if array.nbytes:
            yield array.data.cast("B")
        yield bytes(_padding(array.nbytes))


def _padding(n_bytes: int) -> int:
    return -n_bytes % _ALIGNMENT


def _check_digest(file: BinaryIO, path: Path) -> None:
    """Raise unless this begins as a checkpoint does, and the last bytes are the digest of all the others."""
    _checked_magic(file, path)
    remaining = os.fstat(file.fileno()).st_size - _DIGEST_SIZE  # of the open file: the path may be replaced by now
    digest = hashlib.blake2b(digest_size=_DIGEST_SIZE)
    file.seek(0)
    while remaining > 0:
        piece = file.read(min(remaining, 1 << 20))
        if not piece:
            break
        digest.update(piece)
        remaining -= len(piece)
    if remaining or file.read() != digest.digest():
        raise DamagedCheckpointError(f"{path} is damaged: its checksum does not match; use an older checkpoint")


def _dtype_of(entry: dict[str, Any]) -> np.dtype[np.generic]:
    if entry["dtype"] not in _DTYPES:
        raise CheckpointError(f"a checkpoint holds no arrays of type {echo(entry['dtype'])}")
    return np.dtype(str(entry["dtype"]))


def _read_array(file: BinaryIO, entry: dict[str, Any], path: Path) -> npt.NDArray[np.generic]:
    """Read the next array; the digest has vouched for the header, but the file may be cut meanwhile."""
    array = np.empty(tuple(entry["shape"]), dtype=_dtype_of(entry))
    n_read = file.readinto(array.data.cast("B")) if array.nbytes else 0  # type: ignore[attr-defined]
    if n_read != array.nbytes:
        raise CheckpointError(f"{path} was cut short while it was read; try again")
    file.read(_padding(array.nbytes))
    return array
