"""Static: groups of clients with label mixes of their own, and nothing ever moves."""

from dataclasses import dataclass

from fielding.config.options import check_whole
from fielding.traces.pool import Pool
from fielding.traces.scenarios.dealing import View, by_client, concept_mixes, deal_view, wander
from fielding.traces.scenarios.scenario import MOST_CONCEPTS, DealRequest, check_alpha
from fielding.traces.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Static:
    """Every client keeps the label mix of its concept for good; what is left to see is chance.

    Parameters
    ----------
    concepts
        How many label mixes there are.
    alpha
        The parameter of the Dirichlet distribution that they come from; the lower, the fewer labels each has.

    Examples
    --------
    >>> pool = Pool(x=np.eye(4), y=np.arange(4, dtype=np.int32) % 2, classes=("cat", "dog"))
    >>> schedule = Static().deal(pool, DealRequest(n_clients=3, n_intervals=5), seed=1)
    >>> bool((schedule.concepts == schedule.concepts[0]).all())
    True
    """

    concepts: int = 4
    alpha: float = 0.5

    def __post_init__(self) -> None:
        check_whole("concepts", self.concepts, low=1, high=MOST_CONCEPTS)
        check_alpha(self.alpha)

    def deal(self, pool: Pool, request: DealRequest, *, seed: int) -> Schedule:
        """Return who sees which sample when."""
        concepts = wander(request, self.concepts, share=0.0, seed=seed)
        mixes = concept_mixes(pool, self.concepts, alpha=self.alpha, seed=seed)
        return deal_view(pool, request, View(concepts=concepts, mixes=mixes, mix_of=by_client(concepts)), seed=seed)
