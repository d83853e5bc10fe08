"""What the inputs of a window look like to the shared model: its mean feature, as it is or without the label mix."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fielding._typing import Floats, Matrix, Vector
from fielding.blas_threads import ONE_BLAS_THREAD
from fielding.client.representation.projection import project_features
from fielding.client.representation.representation import (
    LARGEST_WEIGHT,
    MOST_DIMS,
    MOST_SEED,
    Effort,
    Seen,
    as_reported,
    client_sums,
    labelled,
    means_of,
    one_hot,
    outer_sums,
    spread_of,
)
from fielding.config.options import check_number, check_whole
from fielding.distance import Kind


def class_sums(known: Seen, inputs: Matrix) -> Matrix:
    """Return sums by class of inputs ``(n_samples, n_dims)`` for each client, as :class:`ClassSums` reads them."""
    rows = np.hstack([np.ones((inputs.shape[0], 1)), inputs])
    by_class = outer_sums(one_hot(known.labels, known.n_classes), rows, known.sizes)
    squares = client_sums(np.square(inputs).sum(axis=1, keepdims=True), known.sizes)
    return np.hstack([by_class.reshape(known.sizes.size, by_class.shape[1] * by_class.shape[2]), squares])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassSums:
    """Tallies by class: samples, sums of inputs ``(n_clients, n_classes, n_dims)``, and squared lengths of all."""

    counts: Matrix
    sums: Matrix
    squares: Matrix

    @classmethod
    def of(cls, tallies: Matrix, n_dims: int) -> "ClassSums":
        """Return what tallies hold, shape ``(n_clients, n_classes * (1 + n_dims) + 1)``."""
        by_class = tallies[:, :-1].reshape(tallies.shape[0], (tallies.shape[1] - 1) // (1 + n_dims), 1 + n_dims)
        return cls(counts=by_class[:, :, 0], sums=by_class[:, :, 1:], squares=tallies[:, -1])

    @property
    def n_samples(self) -> Matrix:
        """Samples of all classes, shape ``(n_clients, 1)``."""
        return np.asarray(self.counts.sum(axis=1, keepdims=True))

    @property
    def mean_square(self) -> float:
        """Mean squared length over the samples of all clients; 0 without any."""
        return float(self.squares.sum() / max(1.0, self.counts.sum()))

    def class_means(self) -> Matrix:
        """Return the mean of each class, shape ``(n_clients, n_classes, n_dims)``; the overall mean if it is absent."""
        overall = means_of(self.sums.sum(axis=1), self.n_samples)[:, np.newaxis, :]
        has = self.counts[:, :, np.newaxis] > 0
        return np.where(has, means_of(self.sums, self.counts[:, :, np.newaxis]), overall)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassMeans:
    """Displacement of each class's mean feature from that of all clients; sees inputs and meaning, not the label mix.

    For class c with n_c samples: ``sqrt(share_c) n_c / (n_c + shrink) (mean_c - reference mean_c) / spread``, where
    ``share_c`` is that of the reference, with one sample more spread evenly, so that a new class counts a little.

    Parameters
    ----------
    dims
        Features are projected to so many numbers first; with fewer features the rest is zero.
    shrink
        So many samples of a class show half of its displacement; an absent class shows none.

    Examples
    --------
    >>> own = ClassMeans(dims=1, shrink=1.0)
    >>> everywhere = np.array([2.0, 2.0, 4.0])  # two samples of the only class: 0 and 2, so that mean and spread are 1
    >>> own.vectors(np.array([[1.0, 5.0, 25.0]]), everywhere).tolist()
    [[2.0, 1.0]]
    """

    metric: ClassVar[str] = "l2"
    kind: ClassVar[Kind] = "vector"
    effort: ClassVar[Effort] = "forward"
    needs_labels: ClassVar[bool] = True

    dims: int = 16
    shrink: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("dims", self.dims, low=1, high=MOST_DIMS)
        check_number("shrink", self.shrink, low=0.0, high=LARGEST_WEIGHT)
        check_whole("seed", self.seed, low=0, high=MOST_SEED)

    def tally(self, seen: Seen) -> Matrix:
        """Return for each class the number of samples and the sum of features, then the sum of squared lengths."""
        known = labelled(seen)
        return class_sums(known, project_features(known.features, self.dims, self.seed))

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:
        """Return the displacement of every class, one after the other, and a 1."""
        ours, everywhere = ClassSums.of(tallies, self.dims), ClassSums.of(reference[np.newaxis], self.dims)
        trust = np.where(ours.counts > 0, ours.counts / np.maximum(ours.counts + self.shrink, 1.0), 0.0)
        n_classes = ours.counts.shape[1]
        shares = (everywhere.counts + 1.0 / n_classes) / (everywhere.n_samples + 1.0)
        weights = (trust * np.sqrt(shares))[:, :, np.newaxis]
        overall = everywhere.sums[0].sum(axis=0) / max(1.0, everywhere.n_samples[0, 0])
        spread = spread_of(everywhere.mean_square, float(np.square(overall).sum()))
        moved = weights * (ours.class_means() - everywhere.class_means()) / spread
        return as_reported(moved.reshape(tallies.shape[0], n_classes * self.dims), ours.n_samples[:, 0] > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """Mean feature of the window's samples on the shared model; needs no labels.

    Examples
    --------
    >>> features = np.array([[1.0, 0.0], [3.0, 4.0]], dtype=np.float32)
    >>> seen = Seen(labels=np.array([-1, -1]), features=features, scores=features, sizes=np.array([2, 0]))
    >>> tallies = Embedding().tally(seen)
    >>> Embedding().vectors(tallies, tallies.sum(axis=0)).tolist()
    [[2.0, 2.0, 1.0], [0.0, 0.0, 0.0]]
    """

    metric: ClassVar[str] = "l2"
    kind: ClassVar[Kind] = "vector"
    effort: ClassVar[Effort] = "forward"
    needs_labels: ClassVar[bool] = False

    def tally(self, seen: Seen) -> Matrix:
        """Return the number of samples, the sum of their squared lengths, and the sum of their features."""
        squares = np.square(seen.features, dtype=np.float64).sum(axis=1, keepdims=True)
        lengths = client_sums(squares, seen.sizes)
        return np.hstack(
            [seen.sizes[:, np.newaxis].astype(np.float64), lengths, client_sums(seen.features, seen.sizes)]
        )

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:  # noqa: ARG002
        """Return mean features and a 1."""
        return as_reported(means_of(tallies[:, 2:], tallies[:, :1]), tallies[:, 0] > 0)

    def scale(self, reference: Vector) -> float:
        """Return how far a single sample typically lies from the mean of all."""
        if reference[0] <= 0:
            return 1.0
        return spread_of(reference[1] / reference[0], float(np.square(reference[2:] / reference[0]).sum()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualEmbedding:
    """Mean of the features less the mean feature of their class everywhere: inputs that the label mix does not explain.

    Features are projected to ``dims`` numbers first, which bounds the sums by class; with fewer the rest is zero.

    Examples
    --------
    >>> features = np.array([[1.0], [5.0]], dtype=np.float32)
    >>> seen = Seen(labels=np.array([0, 1]), features=features, scores=np.zeros((2, 2), "f4"), sizes=np.array([1, 1]))
    >>> own = ResidualEmbedding(dims=1)
    >>> everywhere = np.array([4.0, 2.0, 0.0, 0.0, 0.0])  # 4 samples of class 0, with mean 0.5; class 1 is unknown
    >>> own.vectors(own.tally(seen), everywhere).tolist()
    [[0.5, 1.0], [4.5, 1.0]]
    """

    metric: ClassVar[str] = "l2"
    kind: ClassVar[Kind] = "vector"
    effort: ClassVar[Effort] = "forward"
    needs_labels: ClassVar[bool] = True

    dims: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("dims", self.dims, low=1, high=MOST_DIMS)
        check_whole("seed", self.seed, low=0, high=MOST_SEED)

    def tally(self, seen: Seen) -> Matrix:
        """Return for each class the number of samples and the sum of features, then the sum of squared lengths."""
        known = labelled(seen)
        return class_sums(known, project_features(known.features, self.dims, self.seed))

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:
        """Return mean residuals and a 1."""
        ours, everywhere = ClassSums.of(tallies, self.dims), ClassSums.of(reference[np.newaxis], self.dims)
        with ONE_BLAS_THREAD:
            expected = ours.counts @ everywhere.class_means()[0]
        return as_reported(means_of(ours.sums.sum(axis=1) - expected, ours.n_samples), ours.n_samples[:, 0] > 0)

    def scale(self, reference: Vector) -> float:
        """Return how far a single sample typically lies from the mean of its class."""
        everywhere = ClassSums.of(reference[np.newaxis], self.dims)
        shares = means_of(everywhere.counts, everywhere.n_samples)
        between = (shares * np.square(everywhere.class_means()).sum(axis=2)).sum()
        return spread_of(everywhere.mean_square, float(between))
