"""What clients that answer sums look at: the label counts of their training windows."""

import numpy as np

from fielding._typing import Counts
from fielding.runtime.store import SampleStore


def count_labels(store: SampleStore, clients: Counts, round_index: int) -> Counts:
    """Return the label counts of the windows of some clients, shape ``(n_clients, n_labels)``."""
    rows, sizes = store.training(round_index).of(clients)
    labels, owner = store.labels(rows), np.repeat(np.arange(clients.size), sizes)
    is_known = labels >= 0
    place = owner[is_known] * store.n_classes + labels[is_known]
    counted = np.bincount(place, minlength=clients.size * store.n_classes)
    return counted.astype(np.int64).reshape(clients.size, store.n_classes)
