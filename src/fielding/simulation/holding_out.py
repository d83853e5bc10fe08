"""Samples that no client gets: what a server has of its own to train a shared model on."""

from dataclasses import dataclass, replace

import numpy as np

from fielding._typing import Codes, Counts
from fielding.errors import OptionError
from fielding.rng import hashed
from fielding.simulation.sources import Dealt
from fielding.traces.schedule import Schedule

LARGEST_PART = 4
"""At most one in so many training samples of a class is held out: the clients need them, too."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldOut:
    """Samples of the server's own.

    Parameters
    ----------
    samples
        Rows of the pool, rising, shape ``(n_samples,)``.
    labels
        Their labels, same shape.
    """

    samples: Counts
    labels: Codes


def held_out(dealt: Dealt, per_class: int, *, seed: int) -> tuple[Dealt, HeldOut]:
    """Take samples away from all clients, the same ones whatever the method.

    Of a pool that a scenario deals, any training samples; of a natural trace, training samples of the first window
    alone, since a server knows nothing of what is to come.

    Parameters
    ----------
    dealt
        What clients would get.
    per_class
        Samples of each class, or a quarter of its training samples if these are fewer.
    seed
        Of the choice.

    Raises
    ------
    OptionError
        If no sample can be spared.
    """
    candidates = _candidates(dealt)
    labels = dealt.pool.y[candidates]
    order = np.lexsort((hashed(seed, "held out", candidates.astype(np.uint64)), labels))
    sizes = np.bincount(labels, minlength=len(dealt.pool.classes))
    rank = np.arange(order.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    quota = np.minimum(per_class, sizes // LARGEST_PART)
    samples = np.sort(candidates[order[rank < quota[labels[order]]]])
    if not samples.size:
        raise OptionError(
            f"trace.held_out is {per_class}, but no class has {LARGEST_PART} training samples to spare one of; "
            "give more samples, or another coordinator.shared_model"
        )
    kept = ~np.isin(dealt.schedule.sample, samples)
    if not kept.any():
        raise OptionError(f"trace.held_out is {per_class}, which leaves the clients no sample; lower it")
    held = HeldOut(samples=samples, labels=dealt.pool.y[samples])
    return replace(dealt, schedule=_some_rows(dealt.schedule, np.flatnonzero(kept))), held


def _candidates(dealt: Dealt) -> Counts:
    """Return the training samples that a server may have, rising."""
    is_training = ~dealt.pool.is_test()
    if dealt.schedule.concepts is None:
        is_early = np.zeros(is_training.size, dtype=np.bool_)
        is_early[dealt.schedule.sample[dealt.schedule.interval < dealt.plan.n_first]] = True
        is_training &= is_early
    return np.flatnonzero(is_training)


def _some_rows(schedule: Schedule, rows: Counts) -> Schedule:
    """Return a schedule of some of its rows, rising."""
    columns = {name: getattr(schedule, name)[rows] for name in ("client", "interval", "sample", "y", "look")}
    return replace(schedule, **columns)
