"""Passes over points that are too many for a copy: chunk by chunk, on all cores, summed in the order of the chunks."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Matrix, Membership
from fielding.blas_threads import in_threads
from fielding.client.report import row_chunks
from fielding.coordinator.clustering.labels import nearest_center
from fielding.coordinator.clustering.space import Space, space_of
from fielding.coordinator.points import CHUNK, Points
from fielding.distance import Metric

FULL_PASSES = 8  # passes of k-means over all points, after it has settled on a sample


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pass:
    """What one look at all points (or a chunk) against fixed centers brings.

    A tie goes to the lower index. ``sums``: of every center's points and, last, their number, shape ``(k, n_features +
    1)``; ``cost``: of distances to the nearest center, to the metric's power.
    """

    labels: Membership
    sums: Matrix
    cost: float


def chunk_of(points: Points, part: slice) -> Matrix:
    """Return a run of the points as a new float64 matrix."""
    if points.rows is None:
        return Points(points.matrix[part]).all()
    return Points(points.matrix, points.rows[part]).all()


def run_pass(points: Points, centers: Matrix, *, space: Space) -> Pass:
    """Return the nearest center of every point, and what the next centers need."""
    places = space.mapped(centers)

    def look(part: slice) -> Pass:
        rows = chunk_of(points, part)
        distances = space.between(space.mapped(rows), places)
        labels = nearest_center(distances)
        inside = (labels == np.arange(len(centers))[:, None]).astype(np.float64)
        sums = np.column_stack([inside @ rows, inside.sum(axis=1)])
        return Pass(labels=labels, sums=sums, cost=space.cost(distances[np.arange(len(labels)), labels]))

    parts = in_threads(look, list(row_chunks(len(points), CHUNK)))
    return Pass(
        labels=np.concatenate([part.labels for part in parts]),
        sums=np.sum([part.sums for part in parts], axis=0),
        cost=float(np.sum([part.cost for part in parts])),
    )


def settle_labels(points: Points, centers: Matrix, *, metric: Metric, n_passes: int = FULL_PASSES) -> Membership:
    """Return the best labels that a few passes of k-means over all points come by.

    One pass means that the centers stay where they are.

    Examples
    --------
    >>> from fielding.distance import METRICS
    >>> line = Points(np.array([[0.0], [1.0], [9.0]]))
    >>> settle_labels(line, np.array([[0.0], [1.0]]), metric=METRICS["l1"]).tolist()
    [0, 0, 1]
    """
    space = space_of(metric)
    best = seen = run_pass(points, centers, space=space)
    for _ in range(n_passes - 1):
        sizes = seen.sums[:, -1:]
        centers = np.where(sizes > 0.0, seen.sums[:, :-1] / np.maximum(sizes, 1.0), centers)
        before, seen = seen, run_pass(points, centers, space=space)
        best = seen if seen.cost < best.cost else best
        if np.array_equal(seen.labels, before.labels):
            break
    return best.labels
