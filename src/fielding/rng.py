"""The only birthplace of random generators, so that nothing depends on the order of execution."""

import hashlib
import zlib

import numpy as np

from fielding._typing import ClientId


def stream(seed: int, purpose: str, *indices: int) -> np.random.Generator:
    """Return the generator that belongs to this purpose and these indices alone.

    Parameters
    ----------
    seed
        The seed of the run, not negative.
    purpose
        What the numbers are for, for example ``"cluster"``.
    indices
        Round, event or :func:`client_key`: whatever tells one use from another; not negative.

    Examples
    --------
    >>> first = stream(1, "cluster", 7).integers(1000)
    >>> bool(first == stream(1, "cluster", 7).integers(1000))
    True
    >>> bool(first == stream(1, "cluster", 8).integers(1000))
    False
    """
    # crc32, not hash(): the latter differs between processes.
    key = (zlib.crc32(purpose.encode()), *indices)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def client_key(client_id: ClientId) -> int:
    """Return 64 bits that depend on the client's id alone, not on its row.

    Examples
    --------
    >>> client_key("1") == client_key(1)
    False
    """
    text = f"{type(client_id).__name__}:{client_id}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
