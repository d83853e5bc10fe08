"""What one sample changes in the counts of a window: which representations can be reported privately, and how.

Two windows are neighbours if they differ in the value of one sample; how many samples there are is public. Counts that
every sample adds at most 1 to in all, and nothing below 0, then differ by at most 2 in L1: what the old value added is
gone, what the new one adds has come (docs/privacy.md). So

- ``label``, ``label-smoothed``, ``label-sqrt``: a sample adds 1 to the count of its label, or nothing without one;
- ``predictions``: 1 to the count of what the shared model takes it for;
- ``confusion``: 1 to one cell, that of its label and what it is taken for, or nothing without a label;
- ``soft-confusion``: to the cells of its label the probability of each class, cut down to whole thousandths, so that
  they are whole numbers and add up to 1 at most.

Means of other numbers are sums of vectors, one per sample, cut down to a length. Each is put on a grid on which that
length has ``STEPS`` steps: its numbers are projected and cut down to whole steps, whose squares are added up as
whole numbers, so that no error of rounding lets it be longer. The value of a sample then moves such a sum by at most 2
lengths in L2, exactly. So

- ``embedding``: a sample adds its feature vector;
- ``head-gradient``: the gradient of its loss by the last layer, whose length is known in closed form, or nothing
  without a label.

What is made of noised counts or sums and of the number of samples adds nothing to what they tell.
"""

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Floats, Matrix, Vector
from fielding.blas_threads import ONE_BLAS_THREAD
from fielding.client.representation.confusion import Confusion, Predictions, SoftConfusion
from fielding.client.representation.embedding import Embedding
from fielding.client.representation.gradient import Gradient, HeadGradient
from fielding.client.representation.label import LabelShares, RootLabelShares, SmoothedLabelShares
from fielding.client.representation.projection import DENSE_NUMBERS, orthonormal
from fielding.client.representation.representation import (
    Representation,
    Seen,
    as_reported,
    labelled,
    one_hot,
    outer_sums,
    softmax,
)
from fielding.errors import OptionError, echo

SENSITIVITY = 2  # samples' worth of counts that the value of one sample changes, in L1
THOUSANDTHS = 1000
STEPS = 2**14
"""Steps of the grid that the longest vector of a sample is long, in L2."""
UNITS: dict[type, int] = {
    LabelShares: 1,
    SmoothedLabelShares: 1,
    RootLabelShares: 1,
    Predictions: 1,
    Confusion: 1,
    SoftConfusion: THOUSANDTHS,
    Embedding: STEPS,
    HeadGradient: STEPS,
}
"""What one sample adds to counts at most in L1, or to a sum of vectors in L2, by the type of the representation."""
PRIVATE = ("label", "label-smoothed", "label-sqrt", "predictions", "confusion", "soft-confusion")
"""The names of these representations."""


SUMMED = (Embedding, HeadGradient)
"""Representations that are sums of vectors, which get Gaussian noise."""
NOISED_SUMS = ("embedding", "head-gradient")
"""The names of these representations."""
SUM_DIMS = 64  # numbers that embeddings are projected to, if they have more
_AT_ONCE = 2**21  # numbers of samples' vectors that are held at a time


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
            "representation 'gradient' is made of sums over samples, and a private one needs each sample's cut down by "
            "itself; take 'head-gradient', the same for the last layer"
        )
    if unit is None:
        what = "of one's own" if name is None else echo(name)
        raise OptionError(
            f"how much one sample changes a representation {what} is not proven; take one of "
            f"{', '.join((*PRIVATE, *NOISED_SUMS))}"
        )
    return unit


def count_samples(representation: Representation, seen: Seen, max_norm: float = 1.0) -> Counts:
    """Return the counts, or sums, of each client's samples in units, whole numbers, shape ``(n_clients, n_counts)``.

    ``max_norm``: as :func:`sum_samples` takes it.

    Examples
    --------
    >>> scores = np.log(np.array([[0.2504, 0.7496]], dtype=np.float32))
    >>> seen = Seen(labels=np.array([1]), features=scores, scores=scores, sizes=np.array([1]))
    >>> count_samples(SoftConfusion(), seen).tolist(), count_samples(Confusion(), seen).tolist()
    ([[0, 0, 250, 749]], [[0, 0, 0, 1]])
    """
    if is_summed(representation):
        return sum_samples(representation, seen, max_norm)
    unit = unit_of(representation)
    if unit == 1:
        return np.rint(representation.tally(seen)).astype(np.int64)
    known = labelled(seen)
    parts = np.floor(softmax(known.scores) * unit)
    parts[parts.sum(axis=1) > unit] = 0.0  # never, but for an error of rounding: then the sample does not count
    sums = outer_sums(one_hot(known.labels, known.n_classes), parts, known.sizes)
    return np.rint(sums).astype(np.int64).reshape(known.sizes.size, known.n_classes**2)


def sum_samples(representation: Representation, seen: Seen, max_norm: float) -> Counts:
    """Return the sum of each client's samples in steps, each of ``STEPS`` at most, shape ``(n_clients, n_numbers)``.

    ``max_norm``: the length that is taken for ``STEPS``; longer vectors of samples are cut down to it. What a sample
    adds depends on no other sample.

    Examples
    --------
    >>> features = np.array([[3.0, 4.0], [0.5, 0.0]], dtype=np.float32)
    >>> seen = Seen(labels=np.array([0, 1]), features=features, scores=features, sizes=np.array([2]))
    >>> (sum_samples(Embedding(), seen, 1.0) / STEPS).round(3).tolist()
    [[1.1, 0.8]]
    """
    inputs = _finite(seen.features)
    if isinstance(representation, HeadGradient):
        inputs = np.hstack([inputs, np.ones((seen.labels.size, 1))])
        is_known = (seen.labels >= 0)[:, np.newaxis]  # others stay in their places, and add nothing
        errors = softmax(seen.scores) - one_hot(np.maximum(seen.labels, 0), seen.n_classes)
        errors = np.where(is_known, _finite(errors), 0.0)
        n_numbers = errors.shape[1] * inputs.shape[1]
        n_dims, seed, purpose = representation.dims or n_numbers, representation.seed, "private sums"
    elif isinstance(representation, Embedding):
        errors, n_numbers = np.ones((seen.labels.size, 1)), inputs.shape[1]
        n_dims, seed, purpose = SUM_DIMS, 0, "project features"
    else:
        raise RuntimeError("this representation is no sum of vectors")
    _check_projection(n_numbers, n_dims)
    squares = np.square(errors).sum(axis=1) * np.square(inputs).sum(axis=1)
    errors = errors * (STEPS * np.minimum(1.0 / max_norm, 1.0 / np.sqrt(np.maximum(squares, 1e-30))))[:, np.newaxis]
    sums = np.zeros((seen.sizes.size, min(n_dims, n_numbers)), dtype=np.int64)
    owners, n_rows = seen.owners, max(1, _AT_ONCE // max(1, n_numbers))
    for start in range(0, owners.size, n_rows):
        block = slice(start, start + n_rows)
        vectors = (errors[block, :, np.newaxis] * inputs[block, np.newaxis, :]).reshape(-1, n_numbers)
        if n_dims < n_numbers:
            with ONE_BLAS_THREAD:
                vectors = vectors @ orthonormal(n_numbers, n_dims, seed, purpose)
        steps = np.trunc(vectors).astype(np.int64)
        steps[np.square(steps).sum(axis=1) > STEPS**2] = 0  # never, but for an error: then the sample does not count
        np.add.at(sums, owners[block], steps)
    return sums


def check_head(representation: Representation | None, n_head: int, n_classes: int) -> None:
    """Raise if the vectors of samples, as a last layer of so many numbers has them, are too long to be summed up.

    ``n_head``: 0 if that is not known.
    """
    if n_head and isinstance(representation, HeadGradient):
        _check_projection(n_head, representation.dims or n_head)
    elif n_head and is_summed(representation):
        _check_projection(n_head // n_classes - 1, SUM_DIMS)


def _check_projection(n_numbers: int, n_dims: int) -> None:
    if n_dims < n_numbers and n_numbers * n_dims > DENSE_NUMBERS:
        raise OptionError(
            f"vectors of {n_numbers} numbers cannot be projected to {n_dims}: give fewer dims, or a model with a "
            "smaller last layer"
        )


def _finite(rows: npt.NDArray[np.floating]) -> Matrix:
    """Return rows in double precision; what is no number or infinite counts for nothing."""
    return np.nan_to_num(rows.astype(np.float64), posinf=0.0, neginf=0.0)


def first_reference(representation: Representation, tallies: Matrix) -> Vector:
    """Return what windows are compared with, of what clients told first; counts below zero are none."""
    return np.asarray((tallies if is_summed(representation) else np.maximum(tallies, 0.0)).sum(axis=0))


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
