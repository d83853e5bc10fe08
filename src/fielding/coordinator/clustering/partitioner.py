"""What proposes partitions: the protocols that k-means and k-center follow, and that your own may follow."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from fielding._typing import Matrix, Membership
from fielding.coordinator.points import Points
from fielding.distance import Metric


@runtime_checkable
class Partitioner(Protocol):
    """Proposes one partition per number of clusters for points that fit into memory."""

    def partitions(
        self,
        points: Matrix,
        ks: Sequence[int],
        *,
        metric: Metric,
        rng: np.random.Generator,
        start: Matrix | None,
    ) -> dict[int, Membership]:
        """Return a cluster index per point for every K.

        Parameters
        ----------
        points
            One representation per row, shape ``(n_points, n_features)``.
        ks
            The numbers of clusters asked for, rising, each below ``n_points``.
        metric
            What a distance is.
        rng
            Where chance comes from.
        start
            Centers to try as one more start for their own number, shape ``(k, n_features)``.

        Returns
        -------
        Per K labels of shape ``(n_points,)``; clusters may be empty.
        """
        ...


@runtime_checkable
class Extender(Protocol):
    """Carries a partition of a sample over to all points, however many; optional for a partitioner.

    For one that lacks it, every point goes to the nearest mean of the sample's clusters.
    """

    def extended(self, points: Points, centers: Matrix, *, metric: Metric) -> Membership:
        """Return a cluster index per point.

        Parameters
        ----------
        points
            All points, read in chunks.
        centers
            The means of the sample's clusters, shape ``(k, n_features)``.
        metric
            What a distance is.
        """
        ...
