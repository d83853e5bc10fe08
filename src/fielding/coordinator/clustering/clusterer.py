"""Stage 7 in one call: candidate partitions for every K, the best K by silhouette, labels for all points."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from fielding._typing import Matrix, Membership
from fielding.blas_threads import ONE_BLAS_THREAD
from fielding.config.options import check_flag, options_of
from fielding.config.parts import Family
from fielding.coordinator.clustering.labels import without_gaps
from fielding.coordinator.clustering.passes import settle_labels
from fielding.coordinator.clustering.silhouette import choose_k, count_distinct, mean_silhouettes
from fielding.coordinator.clustering.space import cluster_means
from fielding.coordinator.clustering.structure import beats_null, split_again
from fielding.coordinator.points import Points
from fielding.distance import Metric
from fielding.errors import OptionError, echo, unknown_name


@runtime_checkable
class Partitioner(Protocol):
    """Proposes one partition per number of clusters for points that fit into memory."""

    def partitions(
        self,
        points: Matrix,
        ks: Sequence[int],
        *,
        metric: Metric,
        rng: np.random.Generator,
        start: Matrix | None,
    ) -> dict[int, Membership]:
        """Return a cluster index per point for every K.

        ``ks``: rising, each below ``n_points``. ``start``: centers to try as one more start for their own number.
        Labels have shape ``(n_points,)``; clusters may be empty.
        """
        ...


@runtime_checkable
class Extender(Protocol):
    """Carries a partition of a sample over to all points, however many; optional for a partitioner.

    For one that lacks it, every point goes to the nearest mean of the sample's clusters.
    """

    def extended(self, points: Points, centers: Matrix, *, metric: Metric) -> Membership:
        """Return a cluster index per point, read in chunks; ``centers`` are the means of the sample's clusters."""
        ...


PARTITIONERS: Family[Callable[..., Partitioner]] = Family("partitioner")  # every partitioner by name
MOST_EXACT = 6_000  # larger sets are sampled down to this many points to choose K
MOST_EXACT_OF: dict[str, int] = {"js": 2_000}  # the same for metrics whose pairwise distances are dear


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clustering:
    """A partition of all points and how its number of clusters was chosen.

    ``labels`` count from 0, and no cluster is empty. ``silhouettes``: the mean per K that was asked for; empty when one
    cluster was the only choice.
    """

    labels: Membership
    silhouettes: dict[int, float]

    @property
    def n_clusters(self) -> int:
        """How many clusters there are; 0 without points."""
        return int(self.labels.max(initial=-1)) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusterer:
    """Groups representations and finds how many groups there are.

    Parameters
    ----------
    partitioner
        ``"kmeans"``, ``"k-center"``, or an object of your own that follows :class:`Partitioner`.
    k_min
        The smallest number of clusters to try, at least 2.
    k_max
        The largest number to try; never more than distinct points less one. 1 means one cluster, always. A fourth of
        the participants of a round is a good bound.
    n_init
        Restarts of k-means for each number.
    min_silhouette
        There is one cluster when even the best K scores less.
    hysteresis
        The current number of clusters stays unless the best K scores more than this above it; 0.01 steadies it on
        noisy data.
    warm_start
        Whether the current centers are one more start of k-means for their own number.
    null_draws
        There is one cluster unless the best silhouette beats the best of each of so many draws without structure:
        every feature dealt anew to the clients. 19 find clusters that are not there once in twenty times; 0 asks for
        none. Needs two features or more.
    """

    partitioner: str | Partitioner = "kmeans"
    k_min: int = 2
    k_max: int = 10
    n_init: int = 10
    min_silhouette: float = -1.0
    hysteresis: float = 0.0
    warm_start: bool = False
    null_draws: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.partitioner, str):
            if self.partitioner not in PARTITIONERS:
                raise unknown_name("partitioner", self.partitioner, PARTITIONERS)
        elif not isinstance(self.partitioner, Partitioner):
            raise OptionError(f"partitioner is {echo(self.partitioner)}; give a name or an object with `partitions`")
        _check_whole("k_min", self.k_min, at_least=2)
        _check_whole("k_max", self.k_max, at_least=1)
        _check_whole("n_init", self.n_init, at_least=1)
        _check_whole("null_draws", self.null_draws, at_least=0)
        if 1 < self.k_max < self.k_min:
            raise OptionError(f"k_max is {self.k_max} but k_min is {self.k_min}; raise k_max, or use 1 for one cluster")
        _check_range("min_silhouette", self.min_silhouette, -1.0, 1.0)
        _check_range("hysteresis", self.hysteresis, 0.0, 2.0)
        check_flag("warm_start", self.warm_start)

    def cluster(
        self,
        points: Points,
        *,
        metric: Metric,
        rng: np.random.Generator,
        current: Matrix | None = None,
        robust: bool = False,
    ) -> Clustering:
        """Return clusters of all points; equal points, options and generators give equal clusters.

        Beyond 6,000 points (2,000 under Jensen-Shannon) K is chosen on a sample of so many, and the partition of the
        sample is then carried over to all points.

        ``current``: the present centers, shape ``(k, n_features)``, for hysteresis and warm start. ``robust``: whether
        clusters are split again where far clients, such as liars, hid groups from the silhouette (``structure.py``).

        Examples
        --------
        >>> from fielding.distance import METRICS
        >>> six = Points(np.array([[0.0], [0.1], [0.2], [0.8], [0.9], [1.0]]))
        >>> found = Clusterer().cluster(six, metric=METRICS["l1"], rng=np.random.default_rng(1))
        >>> found.n_clusters, round(found.silhouettes[2], 3)
        (2, 0.831)
        """
        n_distinct = count_distinct(points, limit=max(self.k_max + 1, 3)) if self.k_max > 1 and len(points) > 2 else 0
        ks = list(range(self.k_min, min(self.k_max, n_distinct - 1, len(points) - 1) + 1)) if n_distinct > 2 else []
        if not ks:
            return _one_cluster(points, {})
        with ONE_BLAS_THREAD:
            return self._best(points, ks, metric=metric, rng=rng, current=current, robust=robust)

    def _best(
        self,
        points: Points,
        ks: list[int],
        *,
        metric: Metric,
        rng: np.random.Generator,
        current: Matrix | None,
        robust: bool,
    ) -> Clustering:
        """Return the best of the partitions with so many clusters."""
        if isinstance(self.partitioner, str):
            made = PARTITIONERS[self.partitioner]
            partitioner = made(n_init=self.n_init) if "n_init" in options_of(made) else made()
        else:
            partitioner = self.partitioner
        most, is_sampled = MOST_EXACT_OF.get(metric.name, MOST_EXACT), False
        if len(points) > most:
            is_sampled, sample = True, points.take(np.sort(rng.choice(len(points), most, replace=False)))
        else:
            sample = points.all()
        start = current if self.warm_start else None

        def search(
            rows: Matrix, some: Sequence[int], first: Matrix | None = None
        ) -> tuple[list[Membership], list[float]]:
            proposed = partitioner.partitions(rows, some, metric=metric, rng=rng, start=first)
            found = [without_gaps(proposed[k]) for k in some]
            return found, list(mean_silhouettes(rows, found, metric=metric))

        partitions, scores = search(sample, ks, start)
        silhouettes = dict(zip(ks, scores, strict=True))
        chosen = choose_k(
            silhouettes,
            min_silhouette=self.min_silhouette,
            hysteresis=self.hysteresis,
            current=None if current is None else len(current),
        )
        if not beats_null(scores, sample, lambda rows: search(rows, ks)[1], rng=rng, n_draws=self.null_draws):
            chosen = 1
        if chosen == 1:
            return _one_cluster(points, silhouettes)
        labels = partitions[ks.index(chosen)]
        if robust:
            labels = split_again(sample, labels, search=search, k_max=self.k_max, metric=metric, rng=rng)
        if is_sampled:
            centers = cluster_means(sample, labels)
            if isinstance(partitioner, Extender):
                labels = without_gaps(partitioner.extended(points, centers, metric=metric))
            else:
                labels = without_gaps(settle_labels(points, centers, metric=metric, n_passes=1))
        return Clustering(labels=labels, silhouettes=silhouettes)


def _one_cluster(points: Points, silhouettes: dict[int, float]) -> Clustering:
    return Clustering(labels=np.zeros(len(points), dtype=np.int32), silhouettes=silhouettes)


def _check_whole(name: str, value: object, *, at_least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise OptionError(f"{name} is {echo(value)}; use a whole number of at least {at_least}")


def _check_range(name: str, value: object, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise OptionError(f"{name} is {echo(value)}; use a number from {low:g} to {high:g}")
