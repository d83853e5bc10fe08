"""Which samples every participant trains on, step by step: drawn for all of them at once."""

import numpy as np

from fielding._typing import Counts
from fielding.rng import Hashes
from fielding.traces.sliding import Ranges
from fielding.training.batches import drawn_positions


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
    keys, moment, shape
        As in :func:`~fielding.training.batches.drawn_positions`, which says what is drawn.

    Returns
    -------
    Shape ``(n_participants, n_steps, batch_size)``.
    """
    positions = drawn_positions(ranges.sizes[clients], keys=keys, moment=moment, shape=shape)
    return np.asarray(ranges.entries[ranges.start[clients, np.newaxis, np.newaxis] + positions])
