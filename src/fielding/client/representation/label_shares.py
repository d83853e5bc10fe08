"""The label histogram of a window: plain, smoothed, or compared by square roots."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fielding._typing import Floats, Matrix, Vector
from fielding.client.representation.options import LARGEST_WEIGHT, check_number
from fielding.client.representation.representation import Effort, Seen
from fielding.client.representation.sums import as_reported, labelled, means_of, pair_counts
from fielding.distance import Kind


def label_counts(seen: Seen) -> Matrix:
    """Return how many samples of each label each client has, shape ``(n_clients, n_classes)``; -1 is no label."""
    known = labelled(seen)
    return pair_counts(known, known.labels, seen.n_classes)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelShares:
    """Share of each label in the window (the paper's).

    Examples
    --------
    >>> LabelShares().vectors(np.array([[3.0, 1.0], [0.0, 0.0]]), np.zeros(2)).tolist()
    [[0.75, 0.25], [0.0, 0.0]]
    """

    metric: ClassVar[str] = "l1"
    kind: ClassVar[Kind] = "histogram"
    effort: ClassVar[Effort] = "none"
    needs_labels: ClassVar[bool] = True

    def tally(self, seen: Seen) -> Matrix:
        """Return label counts."""
        return label_counts(seen)

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:  # noqa: ARG002 - every representation is called alike
        """Return shares."""
        return _shares(tallies)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothedLabelShares:
    """Share of each label as if a few more samples were there, spread evenly over the labels.

    Two small windows without a label in common then lie less than the whole diameter apart (METHODS.md B14).

    Parameters
    ----------
    pseudo
        How many samples more; each label gets its part of them.

    Examples
    --------
    >>> SmoothedLabelShares(pseudo=2.0).vectors(np.array([[2.0, 0.0], [0.0, 0.0]]), np.zeros(2)).tolist()
    [[0.75, 0.25], [0.0, 0.0]]
    """

    metric: ClassVar[str] = "l1"
    kind: ClassVar[Kind] = "histogram"
    effort: ClassVar[Effort] = "none"
    needs_labels: ClassVar[bool] = True

    pseudo: float = 1.0

    def __post_init__(self) -> None:
        check_number("pseudo", self.pseudo, low=0.0, high=LARGEST_WEIGHT)

    def tally(self, seen: Seen) -> Matrix:
        """Return label counts."""
        return label_counts(seen)

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:  # noqa: ARG002
        """Return smoothed shares."""
        sizes = tallies.sum(axis=1, keepdims=True)
        smoothed = (tallies + self.pseudo / tallies.shape[1]) / (sizes + self.pseudo).clip(min=1e-300)
        return as_reported(smoothed, sizes[:, 0] > 0, constant=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RootLabelShares:
    """Share of each label, compared by square roots: rare labels count for more, loud reports for less.

    Examples
    --------
    >>> RootLabelShares().vectors(np.array([[3.0, 1.0]]), np.zeros(2)).tolist(), RootLabelShares.metric
    ([[0.75, 0.25]], 'hellinger')
    """

    metric: ClassVar[str] = "hellinger"
    kind: ClassVar[Kind] = "histogram"
    effort: ClassVar[Effort] = "none"
    needs_labels: ClassVar[bool] = True

    def tally(self, seen: Seen) -> Matrix:
        """Return label counts."""
        return label_counts(seen)

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:  # noqa: ARG002
        """Return shares; the metric takes the roots."""
        return _shares(tallies)


def _shares(tallies: Matrix) -> Floats:
    sizes = np.asarray(tallies.sum(axis=1, keepdims=True))
    return as_reported(means_of(tallies, sizes), sizes[:, 0] > 0, constant=False)
