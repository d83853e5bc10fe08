"""What one sample changes in the counts of a window: which representations can be reported privately, and how.

Two windows are neighbours if they differ in the value of one sample; how many samples there are is public. Counts that
every sample adds at most 1 to in all, and nothing below 0, then differ by at most 2 in L1: what the old value added is
gone, what the new one adds has come (docs/privacy.md). So

- ``label``, ``label-smoothed``, ``label-sqrt``: a sample adds 1 to the count of its label, or nothing without one;
- ``predictions``: 1 to the count of what the shared model takes it for;
- ``confusion``: 1 to one cell, that of its label and what it is taken for, or nothing without a label;
- ``soft-confusion``: to the cells of its label the probability of each class, cut down to whole thousandths, so that
  they are whole numbers and add up to 1 at most.

What is made of noised counts and of the number of samples adds nothing to what they tell.
"""

import numpy as np

from fielding._typing import Counts, Floats, Matrix, Vector
from fielding.client.representation.confusion import Confusion, Predictions, SoftConfusion
from fielding.client.representation.label import LabelShares, RootLabelShares, SmoothedLabelShares
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


def unit_of(representation: Representation | None, name: str | None = None) -> int:
    """Return what one sample adds to the counts of a representation at most, or raise if that is not proven.

    ``name``: of the representation, for the message; None for a function of the user's own.

    Examples
    --------
    >>> unit_of(LabelShares()), unit_of(SoftConfusion())
    (1, 1000)
    """
    unit = UNITS.get(type(representation))
    if unit is None:
        what = "of one's own" if name is None else echo(name)
        raise OptionError(
            f"how much one sample changes a representation {what} is not proven; take one of {', '.join(PRIVATE)}"
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
    if isinstance(representation, (Confusion, SoftConfusion)):
        vectors = representation.vectors(np.maximum(tallies, 0.0), np.maximum(reference, 0.0)).astype(np.float64)
    else:
        more = representation.pseudo if isinstance(representation, SmoothedLabelShares) else 0.0
        vectors = (tallies + more / tallies.shape[1]) / np.maximum(sizes + more, 1.0)
    # Zeros would say that there are no samples.
    vectors = np.where(vectors.any(axis=1, keepdims=True), vectors, 1.0 / vectors.shape[1])
    return as_reported(vectors, n_samples > 0, constant=False)
