"""The only birthplace of random generators, so that nothing depends on the order of execution."""

import hashlib
import zlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId

Hashes = npt.NDArray[np.uint64]  # evenly spread 64-bit numbers


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


@lru_cache(maxsize=2)
def client_keys(client_ids: Sequence[ClientId]) -> Hashes:
    """Return :func:`client_key` of each id, shape ``(n_clients,)``, read-only; ids as a tuple or a range.

    The last ones are kept: a run asks for those of its clients again and again.

    Examples
    --------
    >>> client_keys(("a", "b")).tolist() == [client_key("a"), client_key("b")]
    True
    """
    keys = np.fromiter(map(client_key, client_ids), dtype=np.uint64, count=len(client_ids))
    keys.flags.writeable = False
    return keys


def hashed(seed: int, purpose: str, *indices: int | Hashes) -> Hashes:
    """Return an evenly spread 64-bit number for every combination of indices: random draws for many clients at once.

    One number per element of the broadcast shape; each depends on its own indices alone, not on its neighbours.
    ``seed``, ``purpose``: as in :func:`stream`. ``indices``: whole numbers or arrays of them that broadcast together: a
    round, client keys, positions.

    Examples
    --------
    >>> keys = np.array([client_key("a"), client_key("b")], dtype=np.uint64)
    >>> bool((hashed(1, "select", 3, keys)[::-1] == hashed(1, "select", 3, keys[::-1])).all())
    True
    """
    state = np.atleast_1d(_mixed(np.array([seed % 2**64], dtype=np.uint64) ^ np.uint64(zlib.crc32(purpose.encode()))))
    for index in indices:
        # Added to a multiple of the state, not to the state: (1, 2) and (2, 1) must differ.
        state = _mixed(state * _ODD + np.asarray(index, dtype=np.uint64))
    return state


_ODD = np.uint64(0x9E3779B97F4A7C15)


def _mixed(state: Hashes) -> Hashes:
    """Return the numbers after the finisher of SplitMix64 (Steele, Lea and Flood, 2014)."""
    state = state + _ODD
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(state ^ (state >> np.uint64(31)))
