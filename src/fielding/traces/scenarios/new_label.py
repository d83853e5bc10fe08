"""New label: some labels are held back at first, and then appear for a share of the clients."""

from dataclasses import dataclass

import numpy as np

from fielding.config.options import check_whole
from fielding.errors import InputError, OptionError
from fielding.rng import client_keys, stream
from fielding.traces.pool import Pool
from fielding.traces.scenarios.dealing import (
    View,
    by_client,
    concept_mixes,
    deal_view,
    present_labels,
    slot_units,
    units,
    wander,
)
from fielding.traces.scenarios.scenario import MOST_CONCEPTS, DealRequest, check_alpha, check_share
from fielding.traces.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLabel:
    """Clients keep the label mix of their concept, until new labels take a share of it for some of them.

    The list of classes is the same throughout: models have an output for the new labels from the start, and
    histograms are zero there.

    Parameters
    ----------
    labels
        How many labels are held back, chosen at random among those that the pool has.
    at
        The interval in which they appear; 0: the middle of the intervals after the start of the training.
    share
        The chance of a client to see them from then on.
    intensity
        How far: the share of such a client's samples that have a new label, all new ones equally often.
    concepts
        How many label mixes there are without the new labels.
    alpha
        The parameter of the Dirichlet distribution that these come from.

    Examples
    --------
    >>> pool = Pool(x=np.eye(4), y=np.arange(4, dtype=np.int32) % 2, classes=("cat", "dog"))
    >>> schedule = NewLabel(share=1.0, concepts=1).deal(pool, DealRequest(n_clients=1, n_intervals=5), seed=1)
    >>> schedule.concepts.ravel().tolist()
    [0, 0, 0, 1, 1]
    """

    labels: int = 1
    at: int = 0
    share: float = 0.3
    intensity: float = 0.5
    concepts: int = 4
    alpha: float = 0.5

    def __post_init__(self) -> None:
        check_whole("labels", self.labels, low=1)
        check_whole("at", self.at, low=0)
        check_share("share", self.share)
        check_share("intensity", self.intensity)
        check_whole("concepts", self.concepts, low=1, high=MOST_CONCEPTS)
        check_alpha(self.alpha)

    def deal(self, pool: Pool, request: DealRequest, *, seed: int) -> Schedule:
        """Return who sees which sample when; clients with new labels have concepts of their own."""
        present = present_labels(pool)
        if present.size <= self.labels:
            raise InputError(
                f"labels is {self.labels}, but the pool has samples of {present.size}; hold back fewer than it has"
            )
        shuffled = stream(seed, "scenario new label").permutation(present)
        hidden, known = shuffled[: self.labels], np.sort(shuffled[self.labels :])
        new_mix = np.zeros((1, len(pool.classes)))
        new_mix[0, hidden] = 1.0 / hidden.size
        mixes = concept_mixes(pool, self.concepts, alpha=self.alpha, seed=seed, labels=known)
        base = wander(request, self.concepts, share=0.0, seed=seed)
        sees_new = (np.arange(request.n_intervals) >= self.appears_at(request))[:, np.newaxis] & (
            units(seed, "drifts", client_keys(range(request.n_clients))) < (self.share if self.intensity else 0.0)
        )
        is_new = by_client(sees_new) & (slot_units(request, seed, "new label") < self.intensity)
        view = View(
            concepts=np.where(sees_new, base + self.concepts, base),
            mixes=np.concatenate([mixes, new_mix]),
            mix_of=np.where(is_new, self.concepts, by_client(base)),
        )
        return deal_view(pool, request, view, seed=seed)

    def appears_at(self, request: DealRequest) -> int:
        """Return the interval in which the new labels appear."""
        n_intervals = request.n_intervals - request.n_ahead
        if self.at >= n_intervals:
            raise OptionError(f"at is {self.at}, but there are {n_intervals} intervals; give a lower one")
        return self.at or request.halfway
