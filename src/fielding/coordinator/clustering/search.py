"""Many restarts of k-means at once, roughly: a few passes in float32 by matrix products find where to look closely.

All restarts of one K are one matrix product. After seeding by the metric itself, distances are Euclidean in the
metric's space. For L1 and Jensen-Shannon these only resemble it, so for few points, where time is no matter, the metric
itself is used, and whoever uses the result of many goes on with exact distances.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Floats, Matrix, Vector
from fielding.coordinator.clustering.seeding import drawn_rows, seed_rows
from fielding.coordinator.clustering.space import Space

SEED_ROWS = 1_000
"""Points that seeds are drawn from, evenly spaced over all: chance needs no more."""
SEED_ROWS_OTHER = 500
"""The same outside Euclidean space, where distances are dearer."""
FEW = 200
"""Up to so many points the metric itself is used."""
MOST_NUMBERS = 2**25
"""Distances that the restarts of one K may hold at a time."""

Single: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoughSearch:
    """Points made ready for rough k-means.

    Parameters
    ----------
    points
        Scaled representations and a last column of ones, shape ``(n_points, n_features + 1)``.
    mapped
        The same in Euclidean space around their middle, shape ``(n_points, n_features)``.
    middle
        That middle, shape ``(n_features,)``.
    exact
        Few points in the metric's own space, if that is not Euclidean; else None.
    scale
        What the representations were divided by.
    space
        The metric's space.
    """

    points: Single
    mapped: Single
    exact: Matrix | None
    middle: Vector
    scale: float
    space: Space

    @classmethod
    def of(cls, points: Matrix, space: Space) -> "RoughSearch":
        """Return the search over these points, shape ``(n_points, n_features)``."""
        # Squares of very large or small numbers leave the range of float32; scaling changes no partition.
        scale = float(np.abs(points).max()) or 1.0
        scaled = points / scale
        mapped = space.euclidean(scaled)
        # Around the median, not the mean: one far point must not cost the others their digits.
        middle = np.median(mapped[:: 1 + len(mapped) // 256], axis=0)
        return cls(
            points=np.column_stack([scaled, np.ones(len(points))]).astype(np.float32),
            mapped=(mapped - middle).astype(np.float32),
            middle=middle,
            exact=None if space.is_euclidean or len(points) > FEW else space.mapped(points),
            scale=scale,
            space=space,
        )

    @property
    def knows_the_cost(self) -> bool:
        """Whether the cost of a restart is the metric's own, not one that resembles it."""
        return self.space.is_euclidean or self.exact is not None

    def starts(self, n_seeds: int, *, n_restarts: int, rng: np.random.Generator) -> Single:
        """Return seeds for every restart, scaled, shape ``(n_restarts, n_seeds, n_features)``."""
        most = SEED_ROWS if self.space.is_euclidean else SEED_ROWS_OTHER
        few = slice(None, None, -(-len(self.points) // most))
        rows = seed_rows(self._squares(few), n_seeds, n_restarts=n_restarts, rng=rng)
        return np.asarray(self.points[few][rows, :-1])

    def _squares(self, few: slice) -> Floats:
        """Return the squared distances between some of the points."""
        if not self.space.is_euclidean:
            places = self.space.mapped(self.at_scale(self.points[few, :-1]))
            return np.asarray(self.space.between(places, places) ** 2)
        mapped = self.mapped[few]
        lengths = np.einsum("ij,ij->i", mapped, mapped)
        squares = mapped @ (-2.0 * mapped.T)
        squares += lengths[:, None]
        squares += lengths
        np.maximum(squares, 0.0, out=squares)
        np.fill_diagonal(squares, 0.0)
        return squares

    def improved(self, centers: Single, *, n_passes: int) -> tuple[Single, Vector]:
        """Return the centers after a few passes of k-means, and the cost of every restart up to a constant.

        Parameters
        ----------
        centers
            Shape ``(n_restarts, k, n_features)``; of many restarts with many centers only as many as fit into memory.
        n_passes
            How many passes.
        """
        fitting = max(1, MOST_NUMBERS // (centers.shape[1] * len(self.points)))
        by_cluster = np.ascontiguousarray(centers[:fitting].transpose(1, 0, 2))
        for _ in range(n_passes):
            nearness, best = self._nearness(by_cluster)
            # A point that is exactly between two centers counts for both: good enough here, and no loop is needed.
            inside = (nearness == best).astype(np.float32).reshape(-1, len(self.points))
            sums = (inside @ self.points).reshape(*by_cluster.shape[:2], -1)
            sizes = sums[..., -1:]
            by_cluster = np.where(sizes > 0.0, sums[..., :-1] / np.maximum(sizes, 1.0), by_cluster)
        _, best = self._nearness(by_cluster)
        return by_cluster.transpose(1, 0, 2), best.sum(axis=1, dtype=np.float64)

    def varied(self, centers: Single, *, n_each: int, rng: np.random.Generator) -> Single:
        """Return the centers of every restart, then copies of them in which one center lies elsewhere.

        The new place is a point drawn with a chance in proportion to its squared distance from the centers: what
        one more restart finds with luck, a good restart with one center in the wrong place finds soon.

        Parameters
        ----------
        centers
            Shape ``(n_restarts, k, n_features)``.
        n_each
            Copies per restart.
        rng
            Where chance comes from.
        """
        n_restarts, k, _ = centers.shape
        _, best = self._nearness(np.ascontiguousarray(centers.transpose(1, 0, 2)))
        if self.exact is None:
            best = np.maximum(best + 0.5 * np.einsum("ij,ij->i", self.mapped, self.mapped), 0.0)
        rows = drawn_rows(best, n_each, rng=rng)
        copies = np.repeat(centers[:, None], n_each, axis=1)
        restarts, each = np.arange(n_restarts)[:, None], np.arange(n_each)
        copies[restarts, each, rng.integers(k, size=(n_restarts, n_each))] = self.points[rows, :-1]
        return np.concatenate([centers, copies.reshape(-1, *centers.shape[1:])])

    def at_scale(self, centers: Single) -> Matrix:
        """Return centers as they lie among the points that were given."""
        return np.asarray(centers.astype(np.float64) * self.scale)

    def _nearness(self, by_cluster: Single) -> tuple[Single, Single]:
        """Return what k-means adds up, up to the point's own part, ``(k, n_restarts, n_points)``, and its minimum."""
        flat = by_cluster.reshape(-1, by_cluster.shape[-1])
        if self.exact is not None:
            distances = self.space.between(self.exact, self.space.mapped(self.at_scale(flat))).T / self.scale
            shaped = (distances**self.space.power).astype(np.float32).reshape(*by_cluster.shape[:2], -1)
            return shaped, shaped.min(axis=0)
        mapped = (self.space.euclidean(flat) - self.middle).astype(np.float32)
        nearness = -mapped @ self.mapped.T
        nearness += 0.5 * np.einsum("ij,ij->i", mapped, mapped)[:, None]
        shaped = nearness.reshape(*by_cluster.shape[:2], -1)
        return shaped, shaped.min(axis=0)
