"""Shared samples: the same few training samples for every client, which makes clients less unlike (METHODS.md B11)."""

from dataclasses import replace

import numpy as np

from fielding._typing import Counts
from fielding.errors import OptionError, echo
from fielding.rng import stream
from fielding.traces.pool import Pool
from fielding.traces.schedule import Schedule, sort_schedule


def add_shared(schedule: Schedule, pool: Pool, n_shared: int, *, n_visible: int, seed: int) -> Schedule:
    """Return a schedule in which every client also sees the same few samples, at every time.

    They are training samples, and their labels count in the histograms. They take turns: each comes again every
    ``n_visible`` intervals, so a full window shows all of them once. Clients that have nothing else in their window
    have them, too. They look as the client's own samples of the interval do, and as they are where it has none; their
    labels are those of the pool, also for a client that calls things by other names.

    The concepts of the schedule are kept, and so is what clients are tested on. A window of fewer intervals than
    ``n_visible`` (at the start, if the gap does not divide the window) shows as much fewer of the shared samples. A
    larger set holds the smaller ones of the same seed. Too few training samples raise.

    Examples
    --------
    >>> from fielding.traces.schedule import sort_schedule
    >>> pool = Pool(x=np.eye(4), y=np.array([0, 1, 0, 1], dtype=np.int32), classes=("cat", "dog"))
    >>> own = sort_schedule(("ann", "bob"), 2, columns=([0, 1], [0, 0], [0, 2], [0, 0], [0, 0]))
    >>> both = add_shared(own, pool, 1, n_visible=1, seed=1)
    >>> both.client.tolist(), both.interval.tolist(), both.y.tolist()
    ([0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 0, 1], [0, 1, 1, 0, 1, 1])
    """
    for name, value, least in (("shared", n_shared, 0), ("n_visible", n_visible, 1)):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
            raise OptionError(f"{name} is {echo(value)}; give a whole number of at least {least}")
    if n_shared == 0:
        return schedule
    samples = shared_samples(schedule, pool, n_shared, seed=seed)
    # By label, so that those that come together have as many labels as can be: else what is new would look like drift.
    samples = samples[np.argsort(pool.y[samples], kind="stable")]
    n_visible = min(n_visible, schedule.n_intervals - schedule.n_ahead)
    # In which interval which of the shared samples come, one entry per arrival.
    of_interval, of_sample = np.arange(schedule.n_intervals) % n_visible, np.arange(n_shared) % n_visible
    interval, turn = np.nonzero(of_interval[:, np.newaxis] == of_sample)
    client = np.repeat(np.arange(schedule.n_clients), interval.size)
    interval, turn = (np.tile(column, schedule.n_clients) for column in (interval, turn))
    sample = samples[turn]
    # They look like the nth of the client's own samples in the interval, so that a mix of looks stays one.
    own = schedule.client.astype(np.int64) * schedule.n_intervals + schedule.interval
    place = client * schedule.n_intervals + interval
    first, end = np.searchsorted(own, place, side="left"), np.searchsorted(own, place, side="right")
    looks = np.zeros(place.size, dtype=np.int16)
    nth = (first + turn // n_visible % np.maximum(1, end - first))[end > first]
    looks[end > first] = schedule.look[nth]
    columns = (
        np.concatenate([schedule.client, client]),
        np.concatenate([schedule.interval, interval]),
        np.concatenate([schedule.sample, sample]),
        np.concatenate([schedule.y, pool.y[sample]]),
        np.concatenate([schedule.look, looks]),
    )
    both = sort_schedule(
        schedule.client_ids,
        schedule.n_intervals,
        columns=columns,
        looks=schedule.looks,
        concepts=schedule.concepts,
    )
    return replace(both, n_ahead=schedule.n_ahead)


def shared_samples(schedule: Schedule, pool: Pool, n_shared: int, *, seed: int) -> Counts:
    """Return the training samples that are shared, label by label in turns, those that clients see least of first.

    With half as many samples as labels this is one of each of the less represented half, with as many one of each, with
    twice as many two: the paper's three sets. A label that has run out of samples is passed over.

    Rows of the pool, no two alike.
    """
    is_test = pool.is_test()
    order = stream(seed, "shared").permutation(np.flatnonzero(~is_test))
    if n_shared > order.size:
        raise OptionError(f"shared is {n_shared}, but there are {order.size} training samples; lower it")
    is_counted = ~is_test[schedule.sample] & (schedule.interval < schedule.n_intervals - schedule.n_ahead)
    seen = np.bincount(schedule.y[is_counted], minlength=len(pool.classes))
    rank = np.empty(seen.size, dtype=np.int64)
    rank[np.argsort(seen, kind="stable")] = np.arange(seen.size)
    by_label = order[np.argsort(pool.y[order], kind="stable")]
    labels = pool.y[by_label]
    turn = np.arange(by_label.size) - np.searchsorted(labels, labels)
    return by_label[np.lexsort((rank[labels], turn))][:n_shared]
