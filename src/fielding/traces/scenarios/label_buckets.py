"""Label buckets: each client streams its own data in, a few labels at a time (the paper's Open Images trace)."""

from dataclasses import dataclass

import numpy as np

from fielding.config.options import check_whole
from fielding.rng import client_keys
from fielding.traces.pool import Pool
from fielding.traces.scenarios.dealing import (
    client_mixes,
    draw_labels,
    draw_samples,
    number_contents,
    present_labels,
    units,
)
from fielding.traces.scenarios.scenario import MOST_CONCEPTS, DealRequest, check_alpha
from fielding.traces.schedule import Schedule, sort_schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelBuckets:
    """A client partitions its labels at random; one part arrives per interval, and after the last the first again.

    It owns ``samples_per_interval`` samples per bucket, drawn once, so an interval brings that many on average: all
    of its samples with the labels of the bucket. There is no calm before the training starts.

    Parameters
    ----------
    buckets
        Parts of nearly equal numbers of labels; a client with fewer labels has as many parts as labels.
    alpha
        The parameter of the Dirichlet distribution of the clients' own label mixes; 0: all have the mix of the pool.

    Examples
    --------
    >>> pool = Pool(x=np.eye(4), y=np.arange(4, dtype=np.int32) % 2, classes=("cat", "dog"))
    >>> schedule = LabelBuckets(alpha=0).deal(pool, DealRequest(n_clients=1, n_intervals=4), seed=1)
    >>> [np.unique(schedule.y[schedule.interval == at]).tolist() for at in range(4)]
    [[1], [0], [1], [0]]
    """

    buckets: int = 10
    alpha: float = 0.5

    def __post_init__(self) -> None:
        check_whole("buckets", self.buckets, low=1, high=MOST_CONCEPTS)
        check_alpha(self.alpha, may_be_zero=True)

    def deal(self, pool: Pool, request: DealRequest, *, seed: int) -> Schedule:
        """Return who sees which sample when; the concept is the set of labels in the bucket."""
        n_owned = request.samples_per_interval * min(self.buckets, present_labels(pool).size)
        keys, slots = client_keys(range(request.n_clients))[:, np.newaxis], np.arange(n_owned, dtype=np.uint64)
        mixes = client_mixes(pool, request, alpha=self.alpha, seed=seed)
        # What each client owns, shape (n_clients, n_owned).
        labels = draw_labels(mixes, np.arange(mixes.shape[0])[:, np.newaxis], units(seed, "label", keys, slots))
        samples = draw_samples(pool, labels, units(seed, "sample", keys, slots))
        has_label = np.zeros((request.n_clients, len(pool.classes)), dtype=np.bool_)
        np.put_along_axis(has_label, labels, values=True, axis=1)
        n_buckets = np.minimum(self.buckets, has_label.sum(axis=1))
        # The place of each label in a random order of the client's own; labels it lacks come last.
        chance = units(seed, "bucket", keys, np.arange(len(pool.classes), dtype=np.uint64))
        order = np.where(has_label, chance, 2.0).argsort(axis=1, kind="stable")
        bucket_of = order.argsort(axis=1, kind="stable") % n_buckets[:, np.newaxis]
        bucket_of_sample = np.take_along_axis(bucket_of, labels, axis=1)
        shown = np.arange(request.n_intervals)[:, np.newaxis] % n_buckets
        at = [np.nonzero(bucket_of_sample == now[:, np.newaxis]) for now in shown]
        client = np.concatenate([rows for rows, _ in at])
        slot = np.concatenate([slots for _, slots in at])
        interval = np.repeat(np.arange(request.n_intervals), [rows.size for rows, _ in at])
        sets = [np.packbits(has_label & (bucket_of == now[:, np.newaxis]), axis=1) for now in shown]
        return sort_schedule(
            tuple(range(request.n_clients)),
            request.n_intervals,
            columns=(client, interval, samples[client, slot], labels[client, slot], np.zeros(client.size)),
            concepts=number_contents(np.array(sets), request.n_ahead)[0],
        )
