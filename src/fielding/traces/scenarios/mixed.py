"""Mixed: label mix, look and meaning all drift, each client and each of the three on its own."""

from dataclasses import dataclass

import numpy as np

from fielding.config.options import check_whole
from fielding.traces.pool import Pool
from fielding.traces.scenarios.concept_swap import ConceptSwap, shared_meanings
from fielding.traces.scenarios.covariate import MOST_ROTATIONS
from fielding.traces.scenarios.dealing import View, branch_seed, by_client, deal_view, redraw_mixes, wander
from fielding.traces.scenarios.places import place_looks
from fielding.traces.scenarios.scenario import MOST_CONCEPTS, DealRequest, check_alpha, check_share
from fielding.traces.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """Every client has a label mix of its own, one of some looks and one of some sets of meanings; each may change.

    The concept is the pair of look and meaning. The label mix is no part of it: a client knows its own and can correct
    for it when it is served, so clients need not be grouped by it.

    Parameters
    ----------
    share
        The chance of a client to change its label mix at an event; as large, and independent of it and of each
        other, are those to change the look and the meanings.
    alpha
        The parameter of the Dirichlet distribution of the clients' own label mixes; 0: all keep the mix of the pool.
    looks
        How many looks there are, as places have them: images are turned by 90 degrees each time, so at most four;
        vectors undergo an affine change. The first is as it is.
    concepts
        How many sets of meanings there are, the first of them the true one.
    swaps
        Pairs of labels that are exchanged in each of the other sets.

    Examples
    --------
    >>> pool = Pool(x=np.eye(4), y=np.arange(4, dtype=np.int32) % 2, classes=("cat", "dog"))
    >>> schedule = Mixed(share=1.0).deal(pool, DealRequest(n_clients=2, n_intervals=3), seed=2)
    >>> schedule.concepts.tolist()  # twice the look, plus the meaning
    [[3, 1], [0, 2], [3, 1]]
    """

    share: float = 0.15
    alpha: float = 0.5
    looks: int = 2
    concepts: int = 2
    swaps: int = 1

    def __post_init__(self) -> None:
        check_share("share", self.share)
        check_alpha(self.alpha, may_be_zero=True)
        check_whole("looks", self.looks, low=1, high=MOST_CONCEPTS)
        check_whole("concepts", self.concepts, low=1, high=MOST_CONCEPTS)
        check_whole("swaps", self.swaps, low=1)

    def deal(self, pool: Pool, request: DealRequest, *, seed: int) -> Schedule:
        """Return who sees which sample when; the concept is the pair of look and meaning."""
        if pool.is_image:
            check_whole("looks", self.looks, low=1, high=MOST_ROTATIONS)
        swap = ConceptSwap(concepts=self.concepts, swaps=self.swaps)
        look, meaning = (
            wander(request, n_states, share=self.share, seed=branch_seed(seed, purpose))
            for n_states, purpose in ((self.looks, "looks"), (self.concepts, "meanings"))
        )
        mixes, mix_of = redraw_mixes(pool, request, alpha=self.alpha, share=self.share, seed=seed)
        view = View(
            concepts=look * np.int32(self.concepts) + meaning,
            mixes=mixes,
            mix_of=by_client(mix_of),
            looks=place_looks(pool, self.looks, seed=seed),
            look_of=by_client(look),
            meanings=np.tile(shared_meanings(pool, swap, seed=seed), (self.looks, 1)),
        )
        return deal_view(pool, request, view, seed=seed)
