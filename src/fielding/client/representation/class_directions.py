"""Which way a window would pull each class of the shared model, however strongly."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fielding._typing import Floats, Matrix, Vector
from fielding.client.representation.gradient import softmax_errors
from fielding.client.representation.options import MOST_DIMS, check_whole
from fielding.client.representation.projection import projected_features
from fielding.client.representation.representation import Effort, Seen
from fielding.client.representation.sums import as_reported, labelled, one_hot, outer_sums
from fielding.distance import Kind, unit_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassDirections:
    """Direction of the last layer's gradient, for each class on its own; from a forward pass alone.

    A class with few samples counts as much as one with many. The gradient of a class that the window lacks only says
    that it lacks it, so the direction of all clients stands in.

    Parameters
    ----------
    dims
        Features are projected to so many numbers first, and each direction has one more, of the bias; with fewer
        features the rest is zero.
    seed
        Of the projection.

    Examples
    --------
    >>> seen = Seen(
    ...     labels=np.array([0]), features=np.array([[0.75]], "f4"), scores=np.zeros((1, 2), "f4"), sizes=np.array([1])
    ... )
    >>> own = ClassDirections(dims=1)
    >>> own.tally(seen).tolist()  # for both classes: samples, error times feature, error
    [[1.0, -0.375, -0.5, 0.0, 0.375, 0.5]]
    >>> (own.vectors(own.tally(seen), np.zeros(6)) * np.sqrt(2)).round(3).tolist()[0][:4]  # (-0.6, -0.8), unknown
    [-0.6, -0.8, 0.0, 0.0]
    """

    metric: ClassVar[str] = "l2"
    kind: ClassVar[Kind] = "vector"
    effort: ClassVar[Effort] = "forward"
    needs_labels: ClassVar[bool] = True

    dims: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("dims", self.dims, low=1, high=MOST_DIMS)
        check_whole("seed", self.seed, low=0)

    def tally(self, seen: Seen) -> Matrix:
        """Return for each class the number of samples and the sum of the gradients by its weights and its bias."""
        known = labelled(seen)
        ones = np.ones((known.labels.size, 1))
        inputs = np.hstack([projected_features(known.features, self.dims, self.seed), ones])
        gradients = outer_sums(softmax_errors(known), inputs, known.sizes)
        counts = outer_sums(one_hot(known.labels, known.n_classes), ones, known.sizes)
        return np.concatenate([counts, gradients], axis=2).reshape(known.sizes.size, known.n_classes * (self.dims + 2))

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:
        """Return the directions, one after the other, over the root of the number of classes, and a 1."""
        n_clients, n_classes = tallies.shape[0], tallies.shape[1] // (self.dims + 2)
        ours = tallies.reshape(n_clients, n_classes, self.dims + 2)
        directions = self._directions(ours)
        expected = self._directions(reference.reshape(1, n_classes, self.dims + 2))
        chosen = np.where(ours[:, :, :1] > 0, directions, expected) / np.sqrt(n_classes)
        return as_reported(chosen.reshape(n_clients, n_classes * (self.dims + 1)), ours[:, :, 0].sum(axis=1) > 0)

    def scale(self, reference: Vector) -> float:  # noqa: ARG002 - every representation is called alike
        """Return the largest distance."""
        return 2.0

    def _directions(self, by_class: Matrix) -> Matrix:
        gradients = by_class[:, :, 1:]
        return unit_rows(gradients.reshape(-1, self.dims + 1)).reshape(gradients.shape)
