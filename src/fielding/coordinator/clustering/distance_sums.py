"""How far every point lies from every cluster of several partitions: all that a silhouette needs, in one pass.

Partitions of the same points share many clusters, and many clients send the same histogram. So equal clusters are
summed once and equal points are measured once, whatever the metric.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Matrix, Membership, Vector
from fielding.blas_threads import in_threads
from fielding.client.report import row_chunks
from fielding.coordinator.clustering.space import jensen_shannon, root_rows
from fielding.distance import METRICS, Metric, unit_rows

TILE = 256  # rows and columns of a tile of distances: it stays in the cache while it is used
TOO_CLOSE = 1e-8  # squared distances below this share of the squared extent are measured again, without cancellation
SINGLE_FROM = 2_048
"""From so many points on float32 may do: the errors of so many distances average out to less than 1e-7."""
TOO_CLOSE_SINGLE = 5e-3  # the share below which squared distances in float32 are measured again

Number = TypeVar("Number", np.float32, np.float64)


def pairwise_sums(weights: npt.NDArray[Number], tile: Callable[[slice, slice], npt.NDArray[Number]]) -> Matrix:
    """Return the sums over all points of weight times distance.

    ``tile``: two runs of points to their distances, one row per point of the first; symmetric, and the distance of a
    point to itself counts as 0.

    Examples
    --------
    >>> line = np.array([0.0, 1.0, 5.0])
    >>> apart = lambda rows, columns: np.abs(line[rows, None] - line[columns])
    >>> pairwise_sums(np.ones((3, 1)), apart).ravel().tolist()
    [6.0, 5.0, 9.0]
    """
    runs = list(row_chunks(len(weights), TILE))

    def strip(at: int) -> tuple[Matrix, list[npt.NDArray[Number]]]:
        rows, later = runs[at], []
        distances = tile(rows, rows)
        np.fill_diagonal(distances, 0.0)
        own = (distances @ weights[rows]).astype(np.float64)
        for columns in runs[at + 1 :]:
            distances = tile(rows, columns)
            own += distances @ weights[columns]
            later.append(distances.T @ weights[rows])
        return own, later

    sums = np.zeros(weights.shape)
    for at, (own, later) in enumerate(in_threads(strip, range(len(runs)))):
        sums[runs[at]] += own
        for columns, part in zip(runs[at + 1 :], later, strict=True):
            sums[columns] += part
    return sums


def sums_of(points: Matrix, weights: Matrix, between: Callable[[Matrix, Matrix], Matrix]) -> Matrix:
    """Return the sums over all points of weight times any distance."""
    return pairwise_sums(weights, lambda rows, columns: between(points[columns], points[rows]).T)


def euclidean_sums(points: Matrix, weights: Matrix) -> Matrix:
    """Return the sums over all points of weight times Euclidean distance, by matrix products.

    Fastest when no two points are equal; a row of weights per point, shape ``(n_points, n_columns)``.
    """
    # Squared lengths should be no larger than they must: digits are lost in proportion to them.
    centered = points - np.median(points[:: 1 + len(points) // 256], axis=0)
    squares = np.einsum("ij,ij->i", centered, centered)
    # Squared lengths as two more features: the product then is the squared distance, with no pass for the sum.
    ones = np.ones(len(points))
    left = np.column_stack([-2.0 * centered, squares, ones])
    right = np.column_stack([centered, ones, squares])
    extent = 2.0 * float(squares.max())
    if _single_will_do(centered, extent):
        single = _product_tile(left.astype(np.float32), right.astype(np.float32), centered, extent * TOO_CLOSE_SINGLE)
        return pairwise_sums(weights.astype(np.float32), single)
    return pairwise_sums(weights, _product_tile(left, right, centered, extent * TOO_CLOSE))


def _product_tile(
    left: npt.NDArray[Number], right: npt.NDArray[Number], centered: Matrix, too_close: float
) -> Callable[[slice, slice], npt.NDArray[Number]]:
    """Return what measures tiles by products, and rows with a distance too close for that directly."""

    def tile(rows: slice, columns: slice) -> npt.NDArray[Number]:
        distances = left[rows] @ right[columns].T
        if rows == columns:
            np.fill_diagonal(distances, np.inf)
        is_close = bool(distances.min() < too_close)
        close = np.flatnonzero(distances.min(axis=1) < too_close) if is_close else None
        np.sqrt(np.maximum(distances, 0.0, out=distances), out=distances)
        if close is not None:
            distances[close] = METRICS["l2"].between(centered[rows][close], centered[columns])
        return distances

    return tile


def _single_will_do(centered: Matrix, extent: float) -> bool:
    """Return whether float32 is enough: many points, and as far as some of them tell, no two close together."""
    if len(centered) < SINGLE_FROM:
        return False
    some = centered[:: len(centered) // TILE]
    distances = METRICS["l2"].between(some, some)
    np.fill_diagonal(distances, np.inf)
    return bool(distances.min() ** 2 > 2.0 * TOO_CLOSE_SINGLE * extent)


BLOCK = 32  # points in a block: small enough to waste no work, large enough for the matrix product
N_GROUPS = 8  # features are handled in so many groups, fixed so that sums do not depend on the number of threads


def l1_sums(points: Matrix, weights: Matrix) -> Matrix:
    """Return the sums over all points of weight times L1 distance.

    A row of weights per point, shape ``(n_points, n_columns)``; not negative for weights that are not negative.
    """
    groups = [part for part in np.array_split(np.arange(points.shape[1]), N_GROUPS) if part.size]
    sums = np.zeros(weights.shape)
    for part in in_threads(lambda features: _sums_along(points, weights, features), groups):
        sums += part
    return np.asarray(np.maximum(sums, 0.0))


def _sums_along(points: Matrix, weights: Matrix, features: Counts) -> Matrix:
    n_points, n_columns = weights.shape
    n_blocks = -(-n_points // BLOCK)
    # The last block is filled up with points of weight zero.
    padded = np.vstack([weights, np.zeros((1, n_columns))])
    order = np.full(n_blocks * BLOCK, n_points)
    values, rank = np.empty(n_blocks * BLOCK), np.empty(n_points, dtype=np.int64)
    left, right = np.ones((n_blocks, BLOCK, BLOCK + 2)), np.empty((n_blocks, BLOCK + 2, n_columns))
    sums = np.zeros(weights.shape)
    for feature in features:
        column = np.ascontiguousarray(points[:, feature])
        # From the middle of the values, so that little is lost when sums are subtracted.
        column -= np.median(column[:: 1 + n_points // 256])
        order[:n_points] = np.argsort(column, kind="stable")
        rank[order[:n_points]] = np.arange(n_points)
        values[:n_points] = column[order[:n_points]]
        values[n_points:] = values[n_points - 1]
        right[:, :BLOCK] = padded[order].reshape(n_blocks, BLOCK, n_columns)
        _fill(values.reshape(n_blocks, BLOCK), left, right)
        sums += np.matmul(left, right).reshape(-1, n_columns)[rank]
    return sums


def _fill(values: Vector, left: Matrix, right: Matrix) -> None:
    """Write differences inside blocks, and what all lower and higher blocks weigh together, into the two factors."""
    lines = np.ones((len(values), 2, BLOCK))
    lines[:, 1] = values
    totals = np.matmul(lines, right[:, :BLOCK])
    until = np.cumsum(totals, axis=0)
    lower, higher = until - totals, until[-1] - until
    right[:, BLOCK] = lower[:, 0] - higher[:, 0]
    right[:, BLOCK + 1] = higher[:, 1] - lower[:, 1]
    inside = left[:, :, :BLOCK]
    np.subtract(values[:, :, None], values[:, None, :], out=inside)
    np.abs(inside, out=inside)
    left[:, :, BLOCK] = values


COSINE_NOISE = 1e-13  # mean cosine distances below this are rounding


def distance_sums(points: Matrix, partitions: Sequence[Membership], *, metric: Metric) -> list[Matrix]:
    """Return the sum of distances from every point to the members of every cluster, per partition.

    Partitions have shape ``(n_points,)``; per partition a matrix of shape ``(n_points, n_clusters)``.

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [5.0]])
    >>> split = np.array([0, 0, 1], dtype=np.int32)
    >>> distance_sums(line, [split], metric=METRICS["l1"])[0].tolist()
    [[1.0, 5.0], [1.0, 4.0], [9.0, 0.0]]
    """
    members, columns = _distinct_clusters(partitions)
    distinct = _distinct_points(points)
    weights = np.add.reduceat(members[distinct.order], distinct.starts, axis=0)
    sums = _weighted_sums(points[distinct.order[distinct.starts]], weights, metric)[distinct.group]
    return [sums[:, column] for column in columns]


def _weighted_sums(points: Matrix, weights: Matrix, metric: Metric) -> Matrix:
    """Return for distinct points and columns of weights the sums of weight times distance."""
    if metric is not METRICS.get(metric.name):
        return sums_of(points, weights, metric.between)
    return _SUMS[metric.name](points, weights)


def _cosine_sums(points: Matrix, weights: Matrix) -> Matrix:
    units, totals = unit_rows(points), weights.sum(axis=0)
    itself = 1.0 - np.einsum("ij,ij->i", units, units)
    sums = totals - units @ (units.T @ weights) - itself[:, None] * weights
    # One minus one leaves noise, which must not pass for a distance.
    return np.where(sums > COSINE_NOISE * totals, sums, 0.0)


_SUMS: dict[str, Callable[[Matrix, Matrix], Matrix]] = {
    "l1": l1_sums,
    "l2": euclidean_sums,
    "hellinger": lambda points, weights: euclidean_sums(root_rows(points), weights),
    "js": lambda points, weights: sums_of(points, weights, jensen_shannon),
    "cosine": _cosine_sums,
}


def _distinct_clusters(partitions: Sequence[Membership]) -> tuple[Matrix, list[list[int]]]:
    """Return who is in every distinct cluster, as zeros and ones, and the columns of each partition's clusters."""
    column_of: dict[bytes, int] = {}
    members: list[Mask] = []
    columns: list[list[int]] = []
    for labels in partitions:
        columns.append([])
        for index in range(int(labels.max()) + 1):
            inside = labels == index
            column = column_of.setdefault(np.packbits(inside).tobytes(), len(members))
            if column == len(members):
                members.append(inside)
            columns[-1].append(column)
    return np.stack(members, axis=1).astype(np.float64), columns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Distinct:
    """Equal points as groups: positions sorted by group, where each group starts, and the group of every point."""

    order: Counts
    starts: Counts
    group: Counts


def _distinct_points(points: Matrix) -> _Distinct:
    # Equal rows get equal keys; different rows with equal keys merely stay apart or split a group, which does no harm.
    weights = np.cos(np.arange(1.0, points.shape[1] + 1.0))
    keys = np.einsum("ij,j->i", points, weights)
    order = np.argsort(keys, kind="stable")
    is_new = np.ones(len(points), dtype=np.bool_)
    ties = np.flatnonzero(np.diff(keys[order]) == 0.0) + 1
    is_new[ties] = (points[order[ties]] != points[order[ties - 1]]).any(axis=1)
    group = np.empty(len(points), dtype=np.int64)
    group[order] = np.cumsum(is_new) - 1
    return _Distinct(order=order, starts=np.flatnonzero(is_new), group=group)
