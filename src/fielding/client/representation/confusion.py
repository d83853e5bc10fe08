"""What the shared model makes of a window: its predictions, alone or by true label."""

from dataclasses import dataclass
from math import isqrt
from typing import ClassVar

import numpy as np

from fielding._typing import Floats, Matrix, Vector
from fielding.client.representation.representation import (
    LARGEST_WEIGHT,
    Effort,
    Seen,
    as_reported,
    labelled,
    means_of,
    one_hot,
    outer_sums,
    pair_counts,
    softmax,
)
from fielding.config.options import check_number
from fielding.distance import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """Share of each label among the shared model's predictions: label and input drift without labels.

    Ties go to the lower label.

    Examples
    --------
    >>> scores = np.array([[0.0, 1.0], [2.0, 1.0], [0.0, 1.0], [0.0, 3.0]], dtype=np.float32)
    >>> seen = Seen(labels=np.full(4, -1), features=scores, scores=scores, sizes=np.array([4]))
    >>> Predictions().vectors(Predictions().tally(seen), np.zeros(2)).tolist()
    [[0.25, 0.75]]
    """

    metric: ClassVar[str] = "hellinger"
    kind: ClassVar[Kind] = "histogram"
    effort: ClassVar[Effort] = "forward"
    needs_labels: ClassVar[bool] = False

    def tally(self, seen: Seen) -> Matrix:
        """Return how often each label is predicted."""
        return pair_counts(seen, np.argmax(seen.scores, axis=1), seen.n_classes)

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:  # noqa: ARG002
        """Return shares."""
        sizes = tallies.sum(axis=1, keepdims=True)
        return as_reported(means_of(tallies, sizes), sizes[:, 0] > 0, constant=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ConfusionRows:
    """A representation on sums by true label and by what the shared model takes it for."""

    metric: ClassVar[str] = "hellinger"
    kind: ClassVar[Kind] = "histogram"
    effort: ClassVar[Effort] = "forward"
    needs_labels: ClassVar[bool] = True

    shrink: float = 2.0

    def __post_init__(self) -> None:
        check_number("shrink", self.shrink, low=0.0, high=LARGEST_WEIGHT)

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:
        """Return the rows, one after the other: each sums to one over the number of classes."""
        n_classes = isqrt(tallies.shape[1])
        counts = tallies.reshape(tallies.shape[0], n_classes, n_classes)
        everywhere = reference.reshape(n_classes, n_classes)
        seen_before = everywhere.sum(axis=1, keepdims=True)
        expected = np.where(seen_before > 0, means_of(everywhere, seen_before), 1.0 / n_classes)
        sizes = counts.sum(axis=2, keepdims=True)
        # Without shrinking, too, an absent label stands as it does for all clients.
        weight = np.where(sizes > 0, self.shrink, 1.0)
        rows = (counts + weight * expected) / (sizes + weight) / n_classes
        return as_reported(rows.reshape(tallies.shape), tallies.sum(axis=1) > 0, constant=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion(_ConfusionRows):
    """Share of each prediction of the shared model given the true label: meaning and inputs, not the label mix.

    Each row of the confusion matrix sums to one over the number of classes, whatever the label mix.

    Parameters
    ----------
    shrink
        Rows are drawn toward that of all clients as if so many samples more had behaved like them; the row of an absent
        label is theirs. A label that no client had is predicted as anything.

    Examples
    --------
    >>> everywhere = np.array([8.0, 0.0, 0.0, 8.0])  # all right so far
    >>> Confusion(shrink=2.0).vectors(np.array([[0.0, 6.0, 0.0, 0.0]]), everywhere).tolist()
    [[0.125, 0.375, 0.0, 0.5]]
    """

    def tally(self, seen: Seen) -> Matrix:
        """Return how often each label is taken for each, row after row."""
        known, n_classes = labelled(seen), seen.n_classes
        pairs = known.labels * n_classes + np.argmax(known.scores, axis=1)
        return pair_counts(known, pairs, n_classes**2)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftConfusion(_ConfusionRows):
    """Mean probability that the shared model gives each class, given the true label: finer than its predictions.

    As :class:`Confusion`, but a sample counts for every class by the probability that the model gives it, so that doubt
    shows, too: on few samples this tells looks apart that predictions do not.
    """

    def tally(self, seen: Seen) -> Matrix:
        """Return sums of probabilities by true label, row after row."""
        known = labelled(seen)
        sums = outer_sums(one_hot(known.labels, known.n_classes), softmax(known.scores), known.sizes)
        return sums.reshape(known.sizes.size, known.n_classes**2)
