"""Concept swap: clients exchange the meaning of labels (the paper's appendix on concept drift)."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Membership
from fielding.config.options import check_flag, check_whole
from fielding.errors import InputError
from fielding.rng import client_keys, stream
from fielding.traces.pool import Pool
from fielding.traces.scenarios.dealing import (
    Contents,
    Positions,
    View,
    client_mixes,
    deal_view,
    drifters,
    number_contents,
    present_labels,
    units,
    wander,
)
from fielding.traces.scenarios.scenario import MOST_CONCEPTS, DealRequest, check_alpha, check_share
from fielding.traces.schedule import Schedule

MOST_TRIES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConceptSwap:
    """At each event some clients exchange labels: what they called A they now call B, and B they call A.

    Parameters
    ----------
    share
        The chance of a client to do so at an event.
    concepts
        0: a client begins with the true labels and picks labels of its own, and swaps add up (the paper). Above 0:
        there are so many sets of meanings for all clients, the first of them the true one, and clients change between
        them; then there are groups to be found.
    swaps
        How far: pairs of labels that are exchanged at a time, or in each set of meanings.
    alpha
        The parameter of the Dirichlet distribution of the clients' own label mixes; 0: all have the mix of the pool.
    same_samples
        Whether a client gets the same samples in every interval. With a window as long as the gap, all samples of a
        client then are there throughout, and only their labels change, as in the paper.

    Examples
    --------
    >>> pool = Pool(x=np.eye(4), y=np.arange(4, dtype=np.int32) % 2, classes=("cat", "dog"))
    >>> swap = ConceptSwap(share=1.0, same_samples=True)
    >>> schedule = swap.deal(pool, DealRequest(n_clients=1, n_intervals=3, samples_per_interval=4), seed=1)
    >>> schedule.y.reshape(3, 4).tolist()
    [[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]]
    """

    share: float = 0.5
    concepts: int = 0
    swaps: int = 1
    alpha: float = 0.0
    same_samples: bool = False

    def __post_init__(self) -> None:
        check_share("share", self.share)
        check_whole("concepts", self.concepts, low=0, high=MOST_CONCEPTS)
        check_whole("swaps", self.swaps, low=1)
        check_alpha(self.alpha, may_be_zero=True)
        check_flag("same_samples", self.same_samples)

    def deal(self, pool: Pool, request: DealRequest, *, seed: int) -> Schedule:
        """Return who sees which sample when; the concept is the set of meanings."""
        if self.concepts:
            concepts = wander(request, self.concepts, share=self.share, seed=seed)
            meanings: Positions = shared_meanings(pool, self, seed=seed)
        else:
            concepts, meanings = _own_meanings(pool, request, self, seed=seed)
        mixes = client_mixes(pool, request, alpha=self.alpha, seed=seed)
        view = View(
            concepts=concepts,
            mixes=mixes,
            mix_of=np.arange(mixes.shape[0])[:, np.newaxis, np.newaxis],
            meanings=meanings,
            is_repeated=self.same_samples,
        )
        return deal_view(pool, request, view, seed=seed)


def shared_meanings(pool: Pool, swap: ConceptSwap, *, seed: int) -> Positions:
    """Return meanings that all clients share, no two alike, ``(n_concepts, n_labels)``; raise if labels are too few."""
    present, rng = present_labels(pool), stream(seed, "scenario meanings")
    true = np.arange(len(pool.classes))
    found = {true.tobytes(): true}
    for _ in range(MOST_TRIES * swap.concepts):
        if len(found) == swap.concepts:
            return np.array(list(found.values()))
        picked = rng.permutation(present)[np.newaxis, : 2 * min(swap.swaps, present.size // 2)]
        meaning = exchange_labels(true[np.newaxis], picked)[0]
        found.setdefault(meaning.tobytes(), meaning)
    raise InputError(
        f"concepts is {swap.concepts}, but swaps of {present.size} labels give fewer; lower it or use more labels"
    )


def exchange_labels(meanings: Counts, picked: Counts) -> Counts:
    """Return the meanings after the picked labels were exchanged, the first with the second and so on.

    ``meanings``: the label seen for each true one, shape ``(n_clients, n_labels)``; ``picked``: distinct labels, as
    they are seen, shape ``(n_clients, 2 * n_pairs)``.
    """
    swaps = np.tile(np.arange(meanings.shape[1]), (meanings.shape[0], 1))
    partners = np.empty_like(picked)
    partners[:, ::2], partners[:, 1::2] = picked[:, 1::2], picked[:, ::2]
    np.put_along_axis(swaps, picked, partners, axis=1)
    return np.take_along_axis(swaps, meanings, axis=1)


def _own_meanings(pool: Pool, request: DealRequest, swap: ConceptSwap, *, seed: int) -> tuple[Membership, Contents]:
    """Return the numbers of the meanings that clients come to have, and what the numbers stand for."""
    keys, present = client_keys(range(request.n_clients)), present_labels(pool)
    today = np.tile(np.arange(len(pool.classes)), (request.n_clients, 1))
    history = np.empty((request.n_intervals, *today.shape), dtype=np.int32)
    for interval in range(request.n_intervals):
        if interval >= request.n_first:
            drifts = np.flatnonzero(drifters(request, seed, share=swap.share, event=interval))
            drawn = units(seed, "swap", interval, keys[drifts, np.newaxis], present.astype(np.uint64))
            picked = present[drawn.argsort(axis=1, kind="stable")[:, : 2 * min(swap.swaps, present.size // 2)]]
            today[drifts] = exchange_labels(today[drifts], picked)
        history[interval] = today
    return number_contents(history, request.n_ahead)
