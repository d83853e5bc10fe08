"""What one sample changes in the counts of a window: which representations can be reported privately, and how.

Two windows are neighbours if they differ in the value of one sample; how many samples there are is public. Counts that
every sample adds at most 1 to in all, and nothing below 0, then differ by at most 2 in L1: what the old value added is
gone, what the new one adds has come (docs/privacy.md). So

- ``label``, ``label-smoothed``, ``label-sqrt``: a sample adds 1 to the count of its label, or nothing without one;
- ``predictions``: 1 to the count of what the shared model takes it for;
- ``confusion``: 1 to one cell, that of its label and what it is taken for, or nothing without a label;
- ``soft-confusion``: to the cells of its label the probability of each class, cut down to whole thousandths, so that
  they are whole numbers and add up to 1 at most.

Means of other numbers are sums of vectors, one per sample, that are cut down to a length and then divided by it. The
value of a sample moves such a sum by at most 2 in L2, and a projection with orthonormal rows makes nothing longer. So

- ``embedding``: a sample adds its feature vector;
- ``head-gradient``: the gradient of its loss by the last layer, whose length is known in closed form, or nothing
  without a label.

What is made of noised counts or sums and of the number of samples adds nothing to what they tell.
"""

import numpy as np

from fielding._typing import Counts, Floats, Matrix, Vector
from fielding.client.representation.confusion import Confusion, Predictions, SoftConfusion
from fielding.client.representation.embedding import Embedding
from fielding.client.representation.gradient import Gradient, HeadGradient
from fielding.client.representation.label import LabelShares, RootLabelShares, SmoothedLabelShares
from fielding.client.representation.projection import DENSE_NUMBERS, orthonormal, project_features
from fielding.client.representation.representation import (
    Representation,
    Seen,
    as_reported,
    client_sums,
    labelled,
    one_hot,
    outer_sums,
    softmax,
)
from fielding.errors import OptionError, echo

SENSITIVITY = 2  # samples' worth of counts that the value of one sample changes, in L1
THOUSANDTHS = 1000
UNITS: dict[type, int] = {
    LabelShares: 1,
    SmoothedLabelShares: 1,
    RootLabelShares: 1,
    Predictions: 1,
    Confusion: 1,
    SoftConfusion: THOUSANDTHS,
}
"""What one sample adds to the counts at most, in L1, by the type of the representation."""
PRIVATE = ("label", "label-smoothed", "label-sqrt", "predictions", "confusion", "soft-confusion")
"""The names of these representations."""


SUMMED = (Embedding, HeadGradient)
"""Representations that are sums of vectors, which get Gaussian noise."""
NOISED_SUMS = ("embedding", "head-gradient")
"""The names of these representations."""
SUM_DIMS = 64  # numbers that embeddings are projected to, if they have more


def is_summed(representation: Representation | None) -> bool:
    """Return whether a representation is a sum of vectors, one per sample."""
    return isinstance(representation, SUMMED)


def unit_of(representation: Representation | None, name: str | None = None) -> int:
    """Return what one sample adds to the counts of a representation at most, or raise if that is not proven.

    ``name``: of the representation, for the message; None for a function of the user's own.

    Examples
    --------
    >>> unit_of(LabelShares()), unit_of(SoftConfusion())
    (1, 1000)
    """
    unit = UNITS.get(type(representation))
    if isinstance(representation, Gradient):
        raise OptionError(
            "representation 'gradient' would need the gradient of each sample alone, to cut it down, and trainers give "
            "sums; take 'head-gradient', the same for the last layer"
        )
    if unit is None:
        what = "of one's own" if name is None else echo(name)
        raise OptionError(
            f"how much one sample changes a representation {what} is not proven; take one of "
            f"{', '.join((*PRIVATE, *NOISED_SUMS))}"
        )
    return unit


def count_samples(representation: Representation, seen: Seen) -> Counts:
    """Return the counts of each client's samples in units, whole numbers, shape ``(n_clients, n_counts)``.

    Examples
    --------
    >>> scores = np.log(np.array([[0.2504, 0.7496]], dtype=np.float32))
    >>> seen = Seen(labels=np.array([1]), features=scores, scores=scores, sizes=np.array([1]))
    >>> count_samples(SoftConfusion(), seen).tolist(), count_samples(Confusion(), seen).tolist()
    ([[0, 0, 250, 749]], [[0, 0, 0, 1]])
    """
    unit = unit_of(representation)
    if unit == 1:
        return np.rint(representation.tally(seen)).astype(np.int64)
    known = labelled(seen)
    parts = np.floor(softmax(known.scores) * unit)
    parts[parts.sum(axis=1) > unit] = 0.0  # never, but for an error of rounding: then the sample does not count
    sums = outer_sums(one_hot(known.labels, known.n_classes), parts, known.sizes)
    return np.rint(sums).astype(np.int64).reshape(known.sizes.size, known.n_classes**2)


def sum_samples(representation: Representation, seen: Seen, max_norm: float) -> Matrix:
    """Return the sum of each client's samples, each of length 1 at most, shape ``(n_clients, n_numbers)``.

    ``max_norm``: the length that is taken for 1; longer vectors of samples are cut down to it.

    Examples
    --------
    >>> features = np.array([[3.0, 4.0], [0.5, 0.0]], dtype=np.float32)
    >>> seen = Seen(labels=np.array([0, 1]), features=features, scores=features, sizes=np.array([2]))
    >>> sum_samples(Embedding(), seen, 1.0).round(3).tolist()
    [[1.1, 0.8]]
    """
    if isinstance(representation, Embedding):
        rows = np.nan_to_num(seen.features.astype(np.float64), posinf=0.0, neginf=0.0)
        rows = rows * _factors(np.square(rows).sum(axis=1), max_norm)[:, np.newaxis]
        return client_sums(project_features(rows.astype(np.float32), min(SUM_DIMS, rows.shape[1]), 0), seen.sizes)
    if not isinstance(representation, HeadGradient):
        raise RuntimeError("this representation is no sum of vectors")
    known = labelled(seen)
    inputs = np.hstack([known.features, np.ones((known.labels.size, 1), dtype=np.float32)]).astype(np.float64)
    inputs = np.nan_to_num(inputs, posinf=0.0, neginf=0.0)
    errors = np.nan_to_num(softmax(known.scores) - one_hot(known.labels, known.n_classes))
    squares = np.square(errors).sum(axis=1) * np.square(inputs).sum(axis=1)
    sums = outer_sums(errors * _factors(squares, max_norm)[:, np.newaxis], inputs, known.sizes)
    flat = sums.reshape(known.sizes.size, sums.shape[1] * sums.shape[2])
    n_dims = min(representation.dims or flat.shape[1], flat.shape[1])
    if n_dims < flat.shape[1] and flat.shape[1] * n_dims > DENSE_NUMBERS:
        raise OptionError(f"a last layer of {flat.shape[1]} numbers cannot be projected to {n_dims}; give fewer dims")
    return np.asarray(flat @ orthonormal(flat.shape[1], n_dims, representation.seed, "private sums"))


def _factors(squares: Vector, max_norm: float) -> Vector:
    """Return what vectors of squared lengths are multiplied by, so that none is longer than 1."""
    return np.asarray(np.minimum(1.0, max_norm / np.sqrt(np.maximum(squares, 1e-30))) / max_norm)


def noised_vectors(representation: Representation, tallies: Matrix, n_samples: Counts, reference: Vector) -> Floats:
    """Return what noised counts, in samples, are reported as, float32, shape ``(n_clients, n_numbers)``.

    Counts of labels or predictions are divided by the number of samples, which is public: not by their sum, and numbers
    below zero stay, since a mean over clients is then right. Rows of confusion are made of what is above zero.
    ``reference``: as representations take it. A client without samples has zeros, and no other has.

    Examples
    --------
    >>> noised_vectors(LabelShares(), np.array([[5.0, -1.0], [0.0, 0.0]]), np.array([4, 4]), np.zeros(2)).tolist()
    [[1.25, -0.25], [0.5, 0.5]]
    """
    sizes = n_samples[:, np.newaxis].astype(np.float64)
    if is_summed(representation):
        vectors = tallies / np.maximum(sizes, 1.0)
    elif isinstance(representation, (Confusion, SoftConfusion)):
        vectors = representation.vectors(np.maximum(tallies, 0.0), np.maximum(reference, 0.0)).astype(np.float64)
    else:
        more = representation.pseudo if isinstance(representation, SmoothedLabelShares) else 0.0
        vectors = (tallies + more / tallies.shape[1]) / np.maximum(sizes + more, 1.0)
    # Zeros would say that there are no samples.
    vectors = np.where(vectors.any(axis=1, keepdims=True), vectors, 1.0 / vectors.shape[1])
    return as_reported(vectors, n_samples > 0, constant=False)
