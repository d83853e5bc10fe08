"""What a client adds to noised sums over all clients, and what those tell of a client at most: mode ``client``.

Clients are sent centers and take the nearest one themselves. What they add is made of whole numbers on a grid of
``GRID`` steps, so that the bounds below hold exactly. Two populations are neighbours if all data of one client are
others, or none at all.

- **Steps** of k-means: of its nearest center's block, the client's label shares and a 1, scaled by ``a`` and ``b``
  steps and cut down to whole ones; zeros elsewhere. Shares ``h`` are at least 0 and add up to 1, so ``|h|**2 <= 1``,
  and what the client adds has a squared length of ``a**2 + b**2 <= GRID**2 / 2`` at most. None of it is negative, so
  what another client would add in its place is at an angle of at most 90 degrees: the sum moves by ``GRID`` at most.
- **Silhouettes** of several sets of centers: a number from 0 to 1 for each of n sets, scaled by ``GRID / sqrt(n)``
  steps. Each differs by that at most, so the sum moves by ``GRID`` at most.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import exp, isqrt, sqrt
from typing import Literal

import numpy as np

from fielding._typing import Counts, Json, Matrix, Membership, Vector
from fielding.client.privacy.gaussian import MOST_SIGMA, DiscreteGaussian, epsilon_of_rho, rho_of
from fielding.client.privacy.geometric import MOST_TERM, RandomWords, uniform_below
from fielding.errors import OptionError, echo

GRID = 2**14
"""Steps of the grid by which the data of one client move a sum at most, in L2."""
LEAST_CLIENTS = 1000  # with fewer, sums would be noise
SUMS = "sums"
EVERYONE = "all clients"  # whom the ledger charges: every client at once
CHOICES = 2**52  # equally likely draws among which a client says the truth or not
START_STEPS = 5
"""Steps of k-means from centers that were drawn without data: 3 were worse, 8 no better at equal epsilon."""
Asked = Literal["step", "silhouettes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SumRule:
    """At most ``releases`` noised sums tell ``epsilon`` of a client in all, but for a probability of ``delta``.

    ``id_epsilon``: what the cluster that a client asks for tells each time it does, ``choices`` times in all; None: it
    is asked for in clear.

    Examples
    --------
    >>> rule = SumRule(epsilon=4.0, delta=1e-5, releases=16)
    >>> round(rule.sigma / GRID, 2), round(epsilon_of_rho(float(16 * rule.epsilon_of_report), 1e-5), 3) <= 4.0
    (4.63, True)
    """

    epsilon: float
    delta: float
    releases: int
    id_epsilon: float | None = None
    choices: int = 0

    def __post_init__(self) -> None:
        if self.releases < 1 or self.budget <= 0 or self.sigma > MOST_SIGMA:
            raise OptionError(
                f"epsilon {echo(self.epsilon)} with delta {echo(self.delta)} leaves next to nothing for each of "
                f"{self.releases} sums; give a larger epsilon"
            )

    @property
    def what(self) -> str:
        """What the ledger calls them."""
        return SUMS

    @property
    def budget(self) -> Fraction:
        """What all releases together may tell, in the measure of concentrated privacy."""
        return rho_of(self.epsilon, self.delta)

    @property
    def sigma(self) -> int:
        """Standard deviation of the noise on every number of a sum, in steps of the grid: rounded up."""
        return isqrt(int(GRID**2 * self.releases / (2 * self.budget))) + 1

    @property
    def epsilon_of_report(self) -> Fraction:
        """What one release tells: a little less than its share of the budget, since noise is rounded up."""
        return Fraction(GRID**2, 2 * self.sigma**2)

    @property
    def window(self) -> int:
        """Rounds in a row in which the budget may be spent: all there can be."""
        return MOST_TERM

    def noise(self) -> DiscreteGaussian:
        """Return the noise on every number of a sum."""
        return DiscreteGaussian(sigma=self.sigma)

    def spent(self, rho: Fraction) -> float:
        """Return the epsilon of a client after releases that tell ``rho``."""
        return epsilon_of_rho(float(rho), self.delta)

    def record(self) -> dict[str, Json]:
        """Return the rule as the ledger holds it."""
        return {
            "what": self.what,
            "epsilon": self.epsilon,
            "rho": str(self.budget),
            "delta": self.delta,
            "releases": self.releases,
            "window": self.window,
            **({} if self.id_epsilon is None else {"id_epsilon": self.id_epsilon, "choices": self.choices}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SumSchedule:
    """In which rounds sums are asked for: at the start, then whenever data arrive; no data change it.

    ``gap``, ``window``: as of the trace. ``chooses_k``: whether the number of clusters is found out at the start.

    Examples
    --------
    >>> schedule = SumSchedule(rounds=40, gap=10, window=20, chooses_k=True)
    >>> [at for at in range(40) if schedule.asked_in(at) == "step"], schedule.last_start
    ([0, 1, 2, 3, 4, 10, 20, 30], 5)
    """

    rounds: int
    gap: int
    window: int
    chooses_k: bool

    @property
    def last_start(self) -> int:
        """The round from which on there are clusters."""
        return START_STEPS - 1 + self.chooses_k

    @property
    def n_releases(self) -> int:
        """Number of sums that a whole run asks for."""
        return sum(self.asked_in(at) is not None for at in range(self.rounds))

    @property
    def n_choices(self) -> int:
        """How often in a run a client that is always there asks for the cluster of its nearest center."""
        return sum(self.asked_in(at) is not None for at in range(self.last_start, self.rounds))

    def asked_in(self, round_index: int) -> Asked | None:
        """Return what is asked for in a round; None if nothing is."""
        if round_index <= self.last_start:
            return "step" if round_index < START_STEPS else "silhouettes"
        return "step" if (self.window + round_index) % self.gap == 0 else None


def grid_steps(n_labels: int) -> tuple[int, int]:
    """Return how many steps of the grid label shares and a 1 are scaled by: ``a`` and ``b`` above.

    Each of the many numbers of a center carries noise, the one count of its clients but once: shares get more.

    Examples
    --------
    >>> [one**2 + other**2 <= GRID**2 // 2 for one, other in map(grid_steps, (2, 10, 1000))]
    [True, True, True]
    """
    count = isqrt(GRID**2 // (2 * (1 + isqrt(n_labels))))
    return isqrt(GRID**2 // 2 - count**2), count


def label_shares(counts: Counts) -> Matrix:
    """Return the label shares of clients, shape ``(n_clients, n_labels)``; zeros of one without samples."""
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


def squared_distances(shares: Matrix, centers: Matrix) -> Matrix:
    """Return the squared distance of each client to each center, in L2."""
    return np.stack([np.square(shares - center).sum(axis=1) for center in centers.astype(np.float64)], axis=1)


def choose_clusters(counts: Counts, centers: Matrix) -> Membership:
    """Return the nearest center of each client, of equals the first; -1 of one without samples.

    Examples
    --------
    >>> choose_clusters(np.array([[3, 1], [0, 2], [0, 0]]), np.eye(2)).tolist()
    [0, 1, -1]
    """
    nearest = squared_distances(label_shares(counts), centers).argmin(axis=1)
    return np.where(counts.any(axis=1), nearest, -1).astype(np.int32)


def step_parts(counts: Counts, centers: Matrix) -> Counts:
    """Return what each client adds to a step of k-means, shape ``(n_clients, n_centers * (n_labels + 1))``.

    Examples
    --------
    >>> a, b = grid_steps(2)
    >>> step_parts(np.array([[3, 1]]), np.eye(2)).tolist() == [[3 * a // 4, a // 4, b, 0, 0, 0]]
    True
    """
    n_clients, n_labels = counts.shape
    of_shares, of_count = grid_steps(n_labels)
    found = np.zeros((n_clients, len(centers), n_labels + 1), dtype=np.int64)
    cluster, has = choose_clusters(counts, centers), counts.any(axis=1)
    n_samples = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    found[has, cluster[has], :-1] = (counts * of_shares // n_samples)[has]
    found[has, cluster[has], -1] = of_count
    return found.reshape(n_clients, -1)


def silhouette_parts(counts: Counts, candidates: tuple[Matrix, ...]) -> Counts:
    """Return how far each client is on its own side in each set of centers, shape ``(n_clients, n_candidates)``.

    The simplified silhouette: ``1 - d1 / d2`` for the distances to the nearest center and to the next.
    """
    shares, most = label_shares(counts), isqrt(GRID**2 // len(candidates))
    found = np.zeros((len(counts), len(candidates)), dtype=np.int64)
    for at, centers in enumerate(candidates):
        near = np.sqrt(np.partition(squared_distances(shares, centers), 1, axis=1)[:, :2])
        silhouettes = 1.0 - np.divide(near[:, 0], near[:, 1], out=np.ones(len(near)), where=near[:, 1] > 0.0)
        found[:, at] = np.floor(np.clip(silhouettes, 0.0, 1.0) * most)
    return np.where(counts.any(axis=1, keepdims=True), found, 0)


def parts_of(asked: Asked, counts: Counts, candidates: tuple[Matrix, ...]) -> Counts:
    """Return what each client adds to a sum that is asked for; a step is asked of one set of centers."""
    return step_parts(counts, candidates[0]) if asked == "step" else silhouette_parts(counts, candidates)


def randomise_ids(ids: Membership, n_clusters: int, epsilon: float, words: RandomWords) -> Membership:
    """Return the cluster that each client asks for: the true one, or any other by chance (randomised response).

    The true one is at most ``exp(epsilon)`` times as likely as any other; -1 stays.

    Examples
    --------
    >>> randomise_ids(np.array([2, -1]), 3, 50.0, lambda n: np.zeros(n, dtype=np.uint64)).tolist()
    [2, -1]
    """
    if n_clusters < 2:
        return ids
    # Whole numbers of draws for the truth, and at least as many for each other one as the bound asks for.
    other = int(CHOICES / (exp(min(epsilon, 30.0)) + n_clusters - 1)) + 1
    bounds = np.full(ids.size, CHOICES, dtype=np.uint64)
    drawn = uniform_below(bounds, words).astype(np.int64)
    truth = CHOICES - other * (n_clusters - 1)
    steps = np.where(drawn < truth, 0, 1 + (drawn - truth) // other)
    return np.where(ids < 0, ids, (ids + steps) % n_clusters).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellSums:
    """Noised sums over the clients of each center, in clients: label shares, and how many there are.

    ``share_sd``, ``count_sd``: standard deviation of the noise on a number of ``shares`` and of ``counts``.
    """

    shares: Matrix
    counts: Vector
    share_sd: float
    count_sd: float


def read_step(total: Counts, n_centers: int, rule: SumRule) -> CellSums:
    """Return what a noised sum of steps says; nothing more is told by it than by the sum.

    How many clients there are is told twice: by the count, and by the shares, which add up to it.
    """
    table = total.reshape(n_centers, -1).astype(np.float64)
    of_shares, of_count = grid_steps(table.shape[1] - 1)
    shares, counts = table[:, :-1] / of_shares, table[:, -1] / of_count
    share_sd, count_sd = rule.sigma / of_shares, rule.sigma / of_count
    both, one = count_sd**2, share_sd**2 * shares.shape[1]
    return CellSums(
        shares=shares,
        counts=(counts * one + shares.sum(axis=1) * both) / (one + both),
        share_sd=share_sd,
        count_sd=sqrt(one * both / (one + both)),
    )


def read_silhouettes(total: Counts, n_clients: float) -> Vector:
    """Return the mean silhouette of each set of centers that a noised sum says, for about so many clients."""
    return np.asarray(total / (isqrt(GRID**2 // total.size) * max(n_clients, 1.0)))
