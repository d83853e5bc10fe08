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
    # crc32, not hash(): the latter differs between processes. Two words an index: SeedSequence would cut large ones
    # into words itself, and (5 + 2**32,) would be (5, 1).
    words = [word for index in indices for word in divmod(index, 2**32)]
    key = (zlib.crc32(purpose.encode()), *words)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def client_key(client_id: ClientId) -> int:
    """Return 64 bits that depend on the client's id alone, not on its row.

    Examples
    --------
    >>> client_key("1") == client_key(1)
    False
    """
    # Not the name of the type: a client stays the same whether numpy or Python holds its id.
    text = f"{'str' if isinstance(client_id, str) else 'int'}:{client_id}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
