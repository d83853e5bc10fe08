"""Where a window would pull the shared model: the mean gradient of the loss, by a backward pass or in closed form."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fielding._typing import Counts, Floats, Matrix, Vector
from fielding.client.representation.projection import project_features, shorten
from fielding.client.representation.representation import (
    MOST_DIMS,
    MOST_SEED,
    Effort,
    Seen,
    as_reported,
    labelled,
    means_of,
    one_hot,
    outer_blocks,
    outer_sums,
    softmax,
)
from fielding.config.options import check_flag, check_whole
from fielding.distance import Kind, unit_rows
from fielding.errors import InputError, unknown_name

LAYERS = ("last", "full")  # which parameters a gradient is taken by


class _MeanGradient:
    """Vectors and scale of tallies that hold a number of samples and the sum of their gradients."""

    metric: ClassVar[str] = "l2"
    kind: ClassVar[Kind] = "vector"
    needs_labels: ClassVar[bool] = True
    __slots__ = ()

    normalize: bool
    dims: int
    seed: int

    def __post_init__(self) -> None:
        check_flag("normalize", self.normalize)
        check_whole("dims", self.dims, low=0, high=MOST_DIMS)
        check_whole("seed", self.seed, low=0, high=MOST_SEED)

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:  # noqa: ARG002
        """Return gradients and a 1."""
        means = means_of(tallies[:, 1:], tallies[:, :1])
        return as_reported(unit_rows(means) if self.normalize else means, tallies[:, 0] > 0)

    def scale(self, reference: Vector) -> float:
        """Return the largest distance of directions, or the length of the gradient of all."""
        if self.normalize:
            return 2.0
        length = float(np.linalg.norm(reference[1:])) / max(1.0, reference[0])
        return length if length > 0.0 else 1.0


def _softmax_errors(known: Seen) -> Matrix:
    """Return the probabilities of the classes less the true ones, shape ``(n_samples, n_classes)``."""
    return np.asarray(softmax(known.scores) - one_hot(known.labels, known.n_classes))


def _with_counts(counts: Counts, sums: Matrix) -> Matrix:
    """Return counts as the first column beside sums, which are zero where nothing is counted."""
    sums = np.where(counts[:, np.newaxis] > 0, sums, 0.0)
    return np.hstack([counts[:, np.newaxis].astype(np.float64), sums])


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient(_MeanGradient):
    """Mean gradient of the loss on the shared model (the paper's for concept drift); costs a backward pass.

    Taken by the parameters of the last ``layer`` or of the full model; with ``normalize`` only its direction counts.
    Projected to ``dims`` numbers if it has more, 0 for never; a full model of millions of parameters is hashed into so
    many buckets.

    Examples
    --------
    >>> scores = np.zeros((2, 1), dtype=np.float32)
    >>> seen = Seen(
    ...     labels=np.array([0, 0]), features=scores, scores=scores, sizes=np.array([2]),
    ...     gradients=lambda: np.array([[9.0, 3.0, 4.0]]), n_head=2,
    ... )
    >>> tallies = Gradient().tally(seen)
    >>> Gradient().vectors(tallies, tallies[0]).round(3).tolist()
    [[0.6000000238418579, 0.800000011920929, 1.0]]
    """

    effort: ClassVar[Effort] = "backward"

    layer: str = "last"
    normalize: bool = True
    dims: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        if self.layer not in LAYERS:
            raise unknown_name("layer", self.layer, LAYERS)
        _MeanGradient.__post_init__(self)

    def tally(self, seen: Seen) -> Matrix:
        """Return the number of samples with a label and the sum of their gradients, projected."""
        counts = np.bincount(seen.owners[seen.labels >= 0], minlength=seen.sizes.size)
        sums = seen.gradients()
        if self.layer == "last":
            if not 0 < seen.n_head <= sums.shape[1]:
                raise InputError(
                    f"the shared model has a last layer of {seen.n_head} parameters among {sums.shape[1]}; "
                    "take layer = 'full'"
                )
            sums = sums[:, -seen.n_head :]
        return _with_counts(counts, shorten(sums, self.dims, self.seed))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadGradient(_MeanGradient):
    """Mean gradient by the last layer from a forward pass alone: softmax error times feature.

    The same numbers as ``gradient`` with ``layer = "last"``, for a cross-entropy loss and a last layer with biases.

    Examples
    --------
    >>> seen = Seen(
    ...     labels=np.array([0]), features=np.array([[3.0]], "f4"), scores=np.zeros((1, 2), "f4"), sizes=np.array([1])
    ... )
    >>> HeadGradient(normalize=False).tally(seen).tolist()  # one sample; weights of both classes, biases of both
    [[1.0, -1.5, 1.5, -0.5, 0.5]]
    """

    effort: ClassVar[Effort] = "forward"

    normalize: bool = True
    dims: int = 256
    seed: int = 0

    def tally(self, seen: Seen) -> Matrix:
        """Return the number of samples with a label and the sum of their gradients, projected."""
        known = labelled(seen)
        n_features, length = known.features.shape[1], known.n_classes * (known.features.shape[1] + 1)
        inputs = np.hstack([known.features, np.ones((known.labels.size, 1), dtype=np.float32)])
        sums = np.zeros((known.sizes.size, min(length, self.dims) if self.dims else length))
        for clients, products in outer_blocks(_softmax_errors(known), inputs, known.sizes):
            # Weights of all classes first, then the biases, as parameters lie in the model.
            weights = products[:, :, :n_features].reshape(clients.size, known.n_classes * n_features)
            sums[clients] = shorten(np.hstack([weights, products[:, :, n_features]]), self.dims, self.seed)
        return _with_counts(known.sizes, sums)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassDirections:
    """Direction of the last layer's gradient, for each class on its own; from a forward pass alone.

    A class with few samples counts as much as one with many. The gradient of a class that the window lacks only says
    that it lacks it, so the direction of all clients stands in.

    Features are projected to ``dims`` numbers first, and each direction has one more, of the bias; with fewer features
    the rest is zero.

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
        check_whole("seed", self.seed, low=0, high=MOST_SEED)

    def tally(self, seen: Seen) -> Matrix:
        """Return for each class the number of samples and the sum of the gradients by its weights and its bias."""
        known = labelled(seen)
        ones = np.ones((known.labels.size, 1))
        inputs = np.hstack([project_features(known.features, self.dims, self.seed), ones])
        gradients = outer_sums(_softmax_errors(known), inputs, known.sizes)
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

    def scale(self, reference: Vector) -> float:  # noqa: ARG002
        """Return the largest distance."""
        return 2.0

    def _directions(self, by_class: Matrix) -> Matrix:
        gradients = by_class[:, :, 1:]
        return unit_rows(gradients.reshape(-1, self.dims + 1)).reshape(gradients.shape)
