"""Windows of many clients as index ranges: the samples are held once, and a window is a range of positions."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Vector

Positions: TypeAlias = npt.NDArray[np.int64] | npt.NDArray[np.int32]
"""Rows of a sample store; four bytes each are enough for all but the largest."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranges:
    """A range of samples per client or job.

    ``start`` and ``stop`` point into ``entries``, the rows of a sample store by client and time, shared by all ranges.
    """

    start: Counts
    stop: Counts
    entries: Positions

    @property
    def sizes(self) -> Counts:
        """Number of samples of each range, shape ``(n_ranges,)``."""
        return self.stop - self.start

    def some(self, which: Counts) -> "Ranges":
        """Return some of the ranges, in the order given."""
        return Ranges(start=self.start[which], stop=self.stop[which], entries=self.entries)

    def only(self, kept: Mask) -> "Ranges":
        """Return the same ranges, those of all others empty."""
        return Ranges(start=self.start, stop=np.where(kept, self.stop, self.start), entries=self.entries)

    def of(self, which: Counts) -> tuple[Counts, Counts]:
        """Return the rows of some ranges one after the other, and how many each has.

        Examples
        --------
        >>> ranges = Ranges(start=np.array([0, 2]), stop=np.array([1, 4]), entries=np.array([5, 6, 7, 8]))
        >>> rows, sizes = ranges.of(np.array([1, 0]))
        >>> rows.tolist(), sizes.tolist()
        ([7, 8, 5], [2, 1])
        """
        start = self.start[which]
        sizes = self.stop[which] - start
        ends = np.cumsum(sizes)
        place = np.arange(int(sizes.sum()))
        place += np.repeat(start - (ends - sizes), sizes)
        return self.entries[place].astype(np.int64, copy=False), sizes


def joined_ranges(parts: list[Counts]) -> Ranges:
    """Return ranges of the given rows, one per part, in entries of their own."""
    sizes = np.array([part.size for part in parts], dtype=np.int64)
    stop = np.cumsum(sizes)
    return Ranges(start=stop - sizes, stop=stop, entries=np.concatenate([np.empty(0, dtype=np.int64), *parts]))


def segment_sums(values: Mask, sizes: Counts) -> Counts:
    """Return how many values are true in each of some consecutive segments."""
    totals = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    ends = np.cumsum(sizes)
    return np.asarray(totals[ends] - totals[ends - sizes])


def segment_means(values: npt.NDArray[np.float32], sizes: Counts) -> Vector:
    """Return the mean of each of some consecutive segments, added up in float64; NaN for an empty one."""
    owner = np.repeat(np.arange(sizes.size), sizes)
    sums = np.bincount(owner, weights=values.astype(np.float64), minlength=sizes.size)
    return np.asarray(np.divide(sums, sizes, out=np.full(sizes.size, np.nan), where=sizes > 0))
