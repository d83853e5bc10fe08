"""Where each class lies for the shared model, against where it lies for everybody."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fielding._typing import Floats, Matrix, Vector
from fielding.client.representation.class_sums import ClassSums, class_sums
from fielding.client.representation.options import LARGEST_WEIGHT, MOST_DIMS, check_number, check_whole
from fielding.client.representation.projection import projected_features
from fielding.client.representation.representation import Effort, Seen
from fielding.client.representation.sums import as_reported, labelled, spread_of
from fielding.distance import Kind


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
    seed
        Of the projection.

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
        check_whole("seed", self.seed, low=0)

    def tally(self, seen: Seen) -> Matrix:
        """Return for each class the number of samples and the sum of features, then the sum of squared lengths."""
        known = labelled(seen)
        return class_sums(known, projected_features(known.features, self.dims, self.seed))

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:
        """Return the displacement of every class, one after the other, and a 1."""
        ours, everywhere = ClassSums.of(tallies, self.dims), ClassSums.of(reference[np.newaxis], self.dims)
        trust = np.where(ours.counts > 0, ours.counts / np.maximum(ours.counts + self.shrink, 1.0), 0.0)
        n_classes = ours.counts.shape[1]
        shares = (everywhere.counts + 1.0 / n_classes) / (everywhere.n_samples + 1.0)
        weights = (trust * np.sqrt(shares))[:, :, np.newaxis]
        moved = weights * (ours.class_means() - everywhere.class_means()) / _overall_spread(everywhere)
        return as_reported(moved.reshape(tallies.shape[0], n_classes * self.dims), ours.n_samples[:, 0] > 0)


def _overall_spread(everywhere: ClassSums) -> float:
    overall = everywhere.sums[0].sum(axis=0) / max(1.0, everywhere.n_samples[0, 0])
    return spread_of(everywhere.mean_square, float(np.square(overall).sum()))
