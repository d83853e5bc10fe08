"""Algorithm 4 of the paper, from the parts of the coordinator: who is in which cluster, then all seeds at once.

Clusters depend on representations alone, so they are found once; chance is in the gradients and in who is sampled.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.theorem.quadratics import Quadratics, Tensor
from experiments.theorem.settings import N_CLUSTERS, Setting
from fielding._typing import Matrix, Membership
from fielding.coordinator.assignment import nearest_clusters
from fielding.coordinator.clustering import KCenter
from fielding.coordinator.movement import Movement, TriggerMemory
from fielding.coordinator.points import Points
from fielding.coordinator.trigger import Pairwise
from fielding.distance import metric_named
from fielding.rng import stream

METRIC = metric_named("l1")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Event:
    """The clusters of one event.

    Parameters
    ----------
    membership
        The cluster of each client while it trains, shape ``(n_clients,)``.
    mixing
        What the models of the event start from: row l holds the shares of the old models in the new model l.
    n_moved
        How many clients found themselves nearer to another cluster.
    reclustered
        Whether all clients were grouped anew.
    """

    membership: Membership
    mixing: Matrix
    n_moved: int
    reclustered: bool

    def sizes(self) -> Matrix:
        """Return the number of clients of each cluster."""
        return np.bincount(self.membership, minlength=N_CLUSTERS).astype(np.float64)


def events(problem: Quadratics, setting: Setting) -> list[Event]:
    """Return the clusters of every event, by nearest centers, the pairwise trigger with a fixed Delta, and k-center."""
    first = k_center(problem.minimizers[0])
    found = [Event(membership=first, mixing=np.eye(N_CLUSTERS), n_moved=0, reclustered=True)]
    for before, now in zip(problem.minimizers[:-1], problem.minimizers[1:], strict=True):
        old = found[-1].membership
        centers = _means(before, old)
        moved = nearest_clusters(Points(now), centers, metric=METRIC, current=old)
        again = too_wide(now, moved, centers, setting.spread)
        new = k_center(now) if again else moved
        brought = moved if setting.order == "moved" else old
        n_moved = int((moved != old).sum())
        found.append(Event(membership=new, mixing=_mixing(new, brought), n_moved=n_moved, reclustered=again))
    return found


def k_center(points: Matrix) -> Membership:
    """Return K clusters by farthest-first traversal."""
    return KCenter().partitions(points, [N_CLUSTERS], metric=METRIC, rng=stream(0, "unused"))[N_CLUSTERS]


def too_wide(points: Matrix, membership: Membership, centers: Matrix, most: float) -> bool:
    """Return whether some cluster holds a pair beyond Delta, or nobody (of which the printed average is undefined).

    The coordinator's trigger adapts Delta by what it remembers; without a memory Delta is its step.
    """
    live = np.bincount(membership, minlength=N_CLUSTERS) > 0
    if not live.all():
        return True
    movement = Movement(
        before=centers,
        after=_means(points, membership),
        since_global=centers,
        stayed_live=live,
        theta=0.0,
        points=Points(points),
        membership=membership,
        metric=METRIC,
        kind="vector",
    )
    return Pairwise(step=most).assess(movement, TriggerMemory()).fires


def _means(points: Matrix, membership: Membership) -> Matrix:
    return np.stack([points[membership == cluster].mean(axis=0) for cluster in range(N_CLUSTERS)])


def _mixing(new: Membership, brought: Membership) -> Matrix:
    """Return for each new cluster the share of its clients that bring each old model."""
    shares = np.zeros((N_CLUSTERS, N_CLUSTERS))
    np.add.at(shares, (new, brought), 1.0)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trajectory:
    """What all seeds came to.

    Parameters
    ----------
    regrets
        Of each cluster after the last round of each event, shape ``(n_seeds, n_events, n_clusters)``.
    sizes
        Clients of each cluster, shape ``(n_events, n_clusters)``.
    farthest_out
        How far the iterates went toward the walls of W: 1 is a wall.
    widest
        The largest diameter of a cluster that trained.
    n_moved, n_reclustered
        Moves and re-clusterings after the first event.
    """

    regrets: Tensor
    sizes: Matrix
    farthest_out: float
    widest: float
    n_moved: int
    n_reclustered: int


def trajectory(problem: Quadratics, setting: Setting, seeds: Sequence[int]) -> Trajectory:
    """Run the algorithm for every seed."""
    found = events(problem, setting)
    models = np.broadcast_to(problem.start, (len(seeds), N_CLUSTERS, problem.start.size)).copy()
    regrets = np.empty((len(seeds), len(found), N_CLUSTERS))
    out = 0.0
    for index, event in enumerate(found):
        at = problem.minimizers[index]
        steps = [sampled(at, event.membership, setting, stream(seed, "theorem", index)) for seed in seeds]
        models = trained(event.mixing @ models, np.stack(steps), problem, setting)
        regrets[:, index] = problem.gaps(models, _means(at, event.membership))
        middle, half = (problem.high + problem.low) / 2.0, (problem.high - problem.low) / 2.0
        out = max(out, float((np.abs(models - middle) / half).max()))
    return Trajectory(
        regrets=regrets,
        sizes=np.stack([event.sizes() for event in found]),
        farthest_out=out,
        widest=_widest(problem, found),
        n_moved=sum(event.n_moved for event in found),
        n_reclustered=sum(event.reclustered for event in found[1:]),
    )


def sampled(at: Matrix, membership: Membership, setting: Setting, rng: np.random.Generator) -> Tensor:
    """Return, round by round and cluster by cluster, the mean of H a_i - noise over clients drawn with replacement.

    With H w subtracted from it, it is the negative of the mean stochastic gradient.
    """
    hessian = setting.scale * np.array(setting.curvatures)
    n_drawn = setting.per_cluster
    pulls = np.empty((setting.n_rounds, N_CLUSTERS, hessian.size))
    for cluster in range(N_CLUSTERS):
        members = np.flatnonzero(membership == cluster)
        drawn = members[rng.integers(members.size, size=(setting.n_rounds, n_drawn))]
        pulls[:, cluster] = at[drawn].mean(axis=1) * hessian - noise(setting, setting.n_rounds, n_drawn, rng)
    return pulls


def noise(setting: Setting, n_rows: int, n_gradients: int, rng: np.random.Generator) -> Matrix:
    """Return rows of the mean noise of so many gradients; that of one is plus or minus sigma / sqrt(d) everywhere.

    Bounded noise keeps the iterates in the box W; its variance is sigma squared, exactly.
    """
    n_features = len(setting.curvatures)
    heads = rng.binomial(n_gradients, 0.5, (n_rows, n_features))
    sides = (2.0 * heads - n_gradients) / n_gradients
    return np.asarray(sides * setting.scale * setting.sigma / np.sqrt(n_features))


def trained(models: Tensor, pulls: Tensor, problem: Quadratics, setting: Setting) -> Tensor:
    """Return the models after the rounds of one event, one step each."""
    for index in range(setting.n_rounds):
        models = models - setting.step * (models * problem.hessian - pulls[:, index])
    return models


def _widest(problem: Quadratics, found: Sequence[Event]) -> float:
    """Return the largest distance of two clients that train together."""
    largest = 0.0
    for at, event in zip(problem.minimizers, found, strict=True):
        apart = np.abs(at[:, None] - at[None]).sum(axis=2)
        largest = max(largest, float((apart * (event.membership[:, None] == event.membership[None])).max()))
    return largest
