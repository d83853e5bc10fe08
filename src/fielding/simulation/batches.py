"""Which samples every participant trains on, step by step: drawn for all of them at once."""

import numpy as np

from fielding._typing import Counts
from fielding.rng import Hashes, hashed
from fielding.traces.sliding import Ranges

_GROUP_BITS = 24
"""Bits of a sort key that say whose epoch it is; the others are random."""


def drawn_batches(
    ranges: Ranges, clients: Counts, *, keys: Hashes, moment: tuple[int, int], shape: tuple[int, int]
) -> Counts:
    """Return the schedule rows of the mini-batches of a round.

    Parameters
    ----------
    ranges
        The training windows.
    clients
        Who trains, each with at least one sample, shape ``(n_participants,)``.
    keys
        The hash of each one's id, same shape.
    moment
        Seed and round.
    shape
        Local steps and batch size.

    Returns
    -------
    Shape ``(n_participants, n_steps, batch_size)``. A client goes through its window epoch by epoch, shuffled anew each
    time, and a batch may reach into the next epoch; one with fewer samples than a batch draws with replacement. What a
    client draws depends on its own id and window alone.
    """
    sizes = ranges.sizes[clients]
    n_needed = shape[0] * shape[1]
    local = np.empty((clients.size, n_needed), dtype=np.int64)
    is_small = sizes < shape[1]
    if is_small.any():
        draws = hashed(moment[0], "batch", moment[1], keys[is_small, np.newaxis], np.arange(n_needed, dtype=np.uint64))
        local[is_small] = (draws % sizes[is_small, np.newaxis].astype(np.uint64)).astype(np.int64)
    large = np.flatnonzero(~is_small)
    if large.size:
        local[large] = _shuffled(sizes[large], keys[large], moment, n_needed)
    return np.asarray(ranges.entries[ranges.start[clients, np.newaxis] + local].reshape(clients.size, *shape))


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
