"""How badly the shared model fits a window, class by class."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fielding._typing import Floats, Matrix, Vector
from fielding.client.representation.representation import (
    LARGEST_WEIGHT,
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
from fielding.config.options import check_number
from fielding.distance import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Mean loss of the shared model for each class and overall: that something is odd, hardly what.

    The losses of the classes are divided by the root of their number: together they weigh as much as the overall one.

    Parameters
    ----------
    shrink
        The loss of a class is drawn toward that of all clients as if so many samples more had been as hard; that of an
        absent class is theirs, and that of a class that no client had is their overall loss.

    Examples
    --------
    >>> everywhere = np.array([2.0, 1.0, 0.5])  # the only class: samples, their losses; then the squares of all losses
    >>> Loss(shrink=1.0).vectors(np.array([[3.0, 4.5, 9.0]]), everywhere).tolist()
    [[1.25, 1.5, 1.0]]
    """

    metric: ClassVar[str] = "l2"
    kind: ClassVar[Kind] = "vector"
    effort: ClassVar[Effort] = "forward"
    needs_labels: ClassVar[bool] = True

    shrink: float = 2.0

    def __post_init__(self) -> None:
        check_number("shrink", self.shrink, low=0.0, high=LARGEST_WEIGHT)

    def tally(self, seen: Seen) -> Matrix:
        """Return for each class the number of samples and the sum of their losses, then the sum of squared losses."""
        known = labelled(seen)
        losses = sample_losses(known)[:, np.newaxis]
        rows = np.hstack([np.ones(losses.shape), losses])
        by_class = outer_sums(one_hot(known.labels, known.n_classes), rows, known.sizes)
        return np.hstack(
            [by_class.reshape(known.sizes.size, 2 * known.n_classes), client_sums(np.square(losses), known.sizes)]
        )

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:
        """Return the losses of the classes, the overall loss and a 1."""
        counts, sums = tallies[:, 0:-1:2], tallies[:, 1:-1:2]
        known, total = reference[0:-1:2], reference[1:-1:2]
        expected = np.where(known > 0, means_of(total, known), total.sum() / max(1.0, known.sum()))
        # Without shrinking, too, an absent class is as hard as for all clients.
        weight = np.where(counts > 0, self.shrink, 1.0)
        by_class = (np.where(counts > 0, sums, 0.0) + weight * expected) / (counts + weight)
        sizes = counts.sum(axis=1, keepdims=True)
        overall = means_of(sums.sum(axis=1, keepdims=True), sizes)
        return as_reported(np.hstack([by_class / np.sqrt(counts.shape[1]), overall]), sizes[:, 0] > 0)

    def scale(self, reference: Vector) -> float:
        """Return how far the loss of a single sample typically lies from the overall one."""
        n_samples = max(1.0, reference[0:-1:2].sum())
        return spread_of(reference[-1] / n_samples, float(reference[1:-1:2].sum() / n_samples) ** 2)


def sample_losses(known: Seen) -> Vector:
    """Return the cross-entropy of each sample, shape ``(n_samples,)``."""
    scores = known.scores.astype(np.float64)
    highest = scores.max(axis=1, initial=-np.inf)
    logs = np.log(np.exp(scores - highest[:, np.newaxis]).sum(axis=1))
    return np.asarray(logs + highest - scores[np.arange(known.labels.size), known.labels])
