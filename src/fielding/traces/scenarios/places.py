"""Places: each has a label mix and a look of its own, and clients move between them."""

from dataclasses import dataclass

from fielding.config.options import check_flag, check_whole
from fielding.rng import stream
from fielding.traces.pool import Pool
from fielding.traces.scenarios.dealing import View, by_client, concept_mixes, deal_view, wander
from fielding.traces.scenarios.looks import Rotation, affine_look, check_turns
from fielding.traces.scenarios.scenario import MOST_CONCEPTS, DealRequest, check_alpha, check_share
from fielding.traces.schedule import AS_IS, Look, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """A client sees the labels of the place it is in, the way they look there; at each event some clients move.

    Parameters
    ----------
    places
        How many places there are.
    alpha
        The parameter of the Dirichlet distribution of their label mixes.
    share
        The chance of a client to move to another place at an event.
    at_first
        How many of the places are open at first; 0: all. The others open halfway, and clients move there until all
        places are equally full.
    looks
        Whether places look different: images are turned by 90 degrees times the number of the place (so the fifth
        place looks like the first again), vectors undergo an affine change of full intensity; place 0 is as it is.

    Examples
    --------
    >>> pool = Pool(x=np.eye(4), y=np.arange(4, dtype=np.int32) % 2, classes=("cat", "dog"))
    >>> schedule = Places().deal(pool, DealRequest(n_clients=50, n_intervals=4, n_first=2), seed=1)
    >>> (schedule.concepts[1:] != schedule.concepts[:-1]).sum(axis=1).tolist()
    [0, 17, 15]
    """

    places: int = 4
    alpha: float = 0.5
    share: float = 0.3
    at_first: int = 0
    looks: bool = True

    def __post_init__(self) -> None:
        check_whole("places", self.places, low=1, high=MOST_CONCEPTS)
        check_alpha(self.alpha)
        check_share("share", self.share)
        check_whole("at_first", self.at_first, low=0, high=self.places)
        check_flag("looks", self.looks)

    def deal(self, pool: Pool, request: DealRequest, *, seed: int) -> Schedule:
        """Return who sees which sample when; the concept is the place."""
        looks = place_looks(pool, self.places, seed=seed) if self.looks else (AS_IS,)
        concepts = wander(request, self.places, share=self.share, seed=seed, n_at_first=self.at_first or self.places)
        view = View(
            concepts=concepts,
            mixes=concept_mixes(pool, self.places, alpha=self.alpha, seed=seed),
            mix_of=by_client(concepts),
            looks=looks,
            look_of=by_client(concepts) % len(looks),
        )
        return deal_view(pool, request, view, seed=seed)


def place_looks(pool: Pool, n_places: int, *, seed: int) -> tuple[Look, ...]:
    """Return the looks of places, of which images have four at most; an error if an image cannot be turned so."""
    if not pool.is_image:
        others = [affine_look(pool, intensity=1.0, rng=stream(seed, "scenario look", at)) for at in range(1, n_places)]
        return (AS_IS, *others)
    for turns in range(1, min(n_places, 4)):
        check_turns(pool.shape, turns)
    return (AS_IS, *(Rotation(quarter_turns=turns) for turns in range(1, min(n_places, 4))))
