"""Which samples of its window every participant trains on, step by step; the same on a device as in the simulator."""

import numpy as np

from fielding._typing import Counts
from fielding.rng import Hashes, hashed

_GROUP_BITS = 24
"""Bits of a sort key that say whose epoch it is; the others are random."""


def drawn_positions(sizes: Counts, *, keys: Hashes, moment: tuple[int, int], shape: tuple[int, int]) -> Counts:
    """Return the positions, in its window, of the samples of each participant's mini-batches.

    Parameters
    ----------
    sizes
        How many samples each participant has, at least one, shape ``(n_participants,)``.
    keys
        The hash of each one's id (:func:`~fielding.rng.client_key`), same shape.
    moment
        Seed and round.
    shape
        Local steps and batch size.

    Returns
    -------
    Shape ``(n_participants, n_steps, batch_size)``. A client goes through its window epoch by epoch, shuffled anew each
    time, and a batch may reach into the next epoch; one with fewer samples than a batch draws with replacement. What a
    client draws depends on its own id and the size of its window alone.

    Examples
    --------
    >>> keys = np.array([7, 8], dtype=np.uint64)
    >>> both = drawn_positions(np.array([4, 6]), keys=keys, moment=(1, 0), shape=(2, 2))
    >>> sorted(both[0].ravel().tolist())
    [0, 1, 2, 3]
    >>> alone = drawn_positions(np.array([6]), keys=keys[1:], moment=(1, 0), shape=(2, 2))
    >>> bool((alone[0] == both[1]).all())
    True
    """
    n_needed = shape[0] * shape[1]
    local = np.empty((sizes.size, n_needed), dtype=np.int64)
    is_small = sizes < shape[1]
    if is_small.any():
        draws = hashed(moment[0], "batch", moment[1], keys[is_small, np.newaxis], np.arange(n_needed, dtype=np.uint64))
        local[is_small] = (draws % sizes[is_small, np.newaxis].astype(np.uint64)).astype(np.int64)
    large = np.flatnonzero(~is_small)
    if large.size:
        local[large] = _shuffled(sizes[large], keys[large], moment, n_needed)
    return local.reshape(sizes.size, *shape)


def _shuffled(sizes: Counts, keys: Hashes, moment: tuple[int, int], n_needed: int) -> Counts:
    """Return positions in the window of each client, epoch after epoch, shape ``(n_clients, n_needed)``."""
    n_epochs = -(-n_needed // sizes)
    lengths = n_epochs * sizes
    ends = np.cumsum(lengths)
    within = np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths)
    repeated = np.repeat(sizes, lengths)
    first_epoch = np.cumsum(n_epochs) - n_epochs
    group = np.repeat(first_epoch, lengths) + within // repeated
    draws = hashed(moment[0], "batch", moment[1], np.repeat(keys, lengths), within.astype(np.uint64))
    # One sort for everybody: the upper bits keep each client's epoch together, the lower ones shuffle it.
    order = np.argsort((group.astype(np.uint64) << np.uint64(64 - _GROUP_BITS)) | (draws >> np.uint64(_GROUP_BITS)))
    picked = (ends - lengths)[:, np.newaxis] + np.arange(n_needed)
    return np.asarray((within % repeated)[order[picked]])
