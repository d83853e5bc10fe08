"""Short names for what a result was computed from, so that a resume on other data is refused."""

import hashlib
from pathlib import Path

import numpy as np

from fielding.errors import FileFormatError
from fielding.traces.reports import ReportStream

_SIZE = 16


def file_digest(path: Path) -> str:
    """Return the blake2b digest of a file's bytes, as hexadecimal text."""
    digest = hashlib.blake2b(digest_size=_SIZE)
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from error
    return digest.hexdigest()


def stream_digest(stream: ReportStream) -> str:
    """Return the blake2b digest of a stream of reports that was never a file."""
    digest = hashlib.blake2b(repr(stream.client_ids).encode(), digest_size=_SIZE)
    for array in (stream.step, stream.client, stream.representations):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
