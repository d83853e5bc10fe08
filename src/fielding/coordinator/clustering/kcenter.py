"""Stage 7, the other way: k-center by farthest-first traversal, whose centers are clients (METHODS.md, A15)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fielding._typing import Matrix, Membership, Vector
from fielding.blas_threads import in_threads
from fielding.client.report import row_chunks
from fielding.coordinator.clustering.passes import chunk_of
from fielding.coordinator.clustering.space import Space, space_of
from fielding.coordinator.points import CHUNK, Points
from fielding.distance import TIE, Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class KCenter:
    """Farthest-first traversal: no point is farther from its center than twice the best possible radius."""

    def partitions(
        self,
        points: Matrix,
        ks: Sequence[int],
        *,
        metric: Metric,
        rng: np.random.Generator,  # noqa: ARG002
        start: Matrix | None = None,  # noqa: ARG002
    ) -> dict[int, Membership]:
        """Return for every K the nearest of the first K centers; a tie goes to the earlier center.

        Examples
        --------
        >>> from fielding.distance import METRICS
        >>> line = np.array([[0.0], [4.0], [5.0], [12.0]])
        >>> KCenter().partitions(line, [2, 3], metric=METRICS["l1"], rng=np.random.default_rng(1))[3].tolist()
        [2, 0, 0, 1]
        """
        found = dict(enumerate(_farthest_first(Points(points), max(ks), metric), start=1))
        return {k: found[min(k, len(found))] for k in ks}

    def extended(self, points: Points, centers: Matrix, *, metric: Metric) -> Membership:
        """Return the labels of a traversal of all points with as many centers; the sample only chose their number."""
        *_, last = _farthest_first(points, len(centers), metric)
        return last


def _farthest_first(points: Points, most: int, metric: Metric) -> Iterator[Membership]:
    """Yield the labels with one center, two, ...; fewer than asked once every point is a center."""
    space = space_of(metric)
    labels = np.zeros(len(points), dtype=np.int32)
    radius = _distances(points, points.mean()[None], space)
    # The point nearest to the mean; a tie goes to the lowest row, here and below.
    nearest = int(np.argmax(radius <= radius.min() + TIE))
    radius = _distances(points, points.take(np.array([nearest])), space)
    yield labels
    for index in range(1, most):
        farthest = int(np.argmax(radius >= radius.max() - TIE))
        if radius[farthest] <= TIE:
            return
        distances = _distances(points, points.take(np.array([farthest])), space)
        is_closer = distances < radius - TIE
        labels = np.where(is_closer, np.int32(index), labels)
        radius = np.where(is_closer, distances, radius)
        yield labels


def _distances(points: Points, center: Matrix, space: Space) -> Vector:
    """Return the distance of every point from one center, in the metric's space."""
    place = space.mapped(center)
    parts = in_threads(
        lambda part: space.between(space.mapped(chunk_of(points, part)), place), list(row_chunks(len(points), CHUNK))
    )
    return np.concatenate(parts)[:, 0]
