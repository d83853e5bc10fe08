"""What the inputs of a window look like to the shared model: its mean feature, as it is or without the label mix."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fielding._typing import Floats, Matrix, Vector
from fielding.blas_threads import ONE_BLAS_THREAD
from fielding.client.representation.class_sums import ClassSums, class_sums
from fielding.client.representation.options import MOST_DIMS, check_whole
from fielding.client.representation.projection import projected_features
from fielding.client.representation.representation import Effort, Seen
from fielding.client.representation.sums import as_reported, client_sums, labelled, means_of, spread_of
from fielding.distance import Kind


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

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:  # noqa: ARG002 - every representation is called alike
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

    Parameters
    ----------
    dims
        Features are projected to so many numbers first, which bounds the sums by class; with fewer features the rest is
        zero.
    seed
        Of the projection.

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
        check_whole("seed", self.seed, low=0)

    def tally(self, seen: Seen) -> Matrix:
        """Return for each class the number of samples and the sum of features, then the sum of squared lengths."""
        known = labelled(seen)
        return class_sums(known, projected_features(known.features, self.dims, self.seed))

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
