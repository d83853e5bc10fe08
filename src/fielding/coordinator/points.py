"""A set of representations inside a larger matrix, read in chunks so that a million need no copy."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Floats, Matrix, Vector

CHUNK = 4_096  # rows that are read at a time: a chunk of 100 features in float64 fits into the cache of a core's share


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Some or all rows of a matrix of representations, in rising order of rows.

    ``rows`` None means all of them.
    """

    matrix: Floats
    rows: Counts | None = None

    def __len__(self) -> int:
        return self.matrix.shape[0] if self.rows is None else int(self.rows.size)

    @property
    def n_features(self) -> int:
        """Length of a representation."""
        return int(self.matrix.shape[1])

    def take(self, positions: Counts) -> Matrix:
        """Return the points at these positions of the set as a new float64 matrix."""
        rows = positions if self.rows is None else self.rows[positions]
        return self.matrix[rows].astype(np.float64)

    def all(self) -> Matrix:
        """Return every point as a new float64 matrix; meant for sets that fit twice into memory."""
        return (self.matrix if self.rows is None else self.matrix[self.rows]).astype(np.float64)

    def mean(self) -> Vector:
        """Return the mean of the points in float64, added up in the order of rows; there must be one."""
        total = np.zeros(self.n_features, dtype=np.float64)
        for _, rows in self.chunks():
            total += rows.sum(axis=0)
        return np.asarray(total / len(self))

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[slice, Matrix]]:
        """Yield the points in order, a slice of positions and its float64 rows at a time."""
        for start in range(0, len(self), size):
            part = slice(start, min(start + size, len(self)))
            rows = self.matrix[part] if self.rows is None else self.matrix[self.rows[part]]
            yield part, rows.astype(np.float64)
