"""A schedule: which client sees which sample of a pool in which interval, as what label and with what look."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Codes, Counts, Features, Membership
from fielding.client.report import checked_ids
from fielding.errors import InputError


class Look(Protocol):
    """Changes how samples look: a rotation, a blur, another sensor. Frozen, without memory."""

    def apply(self, x: Features) -> Features:
        """Return changed features of the same shape, ``(n_samples, ...)``; the argument stays as it was."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AsIs:
    """Leaves samples as they are; the first look of every schedule."""

    def apply(self, x: Features) -> Features:
        """Return the features themselves."""
        return x


AS_IS = AsIs()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """Who sees what when; rows are sorted by client, then by interval.

    Parameters
    ----------
    client, interval, sample
        One entry per row: position in ``client_ids``, interval from 0, row of the pool; shape ``(n_entries,)``.
    y
        The label that the client sees, which a drift of meaning may have changed, shape ``(n_entries,)``.
    looks
        The changes of appearance; the first leaves samples as they are.
    concepts
        The true concept of each client in each interval, for scoring only, shape ``(n_intervals, n_clients)``; None
        where it is not known.
    last
        By the end of which interval each row has left the window, where windows go by time, shape ``(n_entries,)``;
        per client it never falls. None: all rows stay for the same number of intervals.
    n_ahead
        How many intervals at the end no round of the run reaches: models are only tested on them.
    """

    client_ids: tuple[ClientId, ...]
    n_intervals: int
    client: Codes
    interval: Codes
    sample: Codes
    y: Codes
    look: npt.NDArray[np.int16]
    looks: tuple[Look, ...] = (AS_IS,)
    concepts: Membership | None = None
    last: Codes | None = None
    n_ahead: int = 0

    def __post_init__(self) -> None:
        checked_ids(self.client_ids)
        n_entries = self.client.size
        if not n_entries:
            raise InputError("the schedule deals no samples; at least one is needed")
        if any(column.shape != (n_entries,) for column in (self.interval, self.sample, self.y, self.look)):
            raise InputError("the columns of a schedule differ in length; give one entry of each per row")
        is_same = self.client[1:] == self.client[:-1]
        if ((self.client[1:] < self.client[:-1]) | (is_same & (self.interval[1:] < self.interval[:-1]))).any():
            raise InputError("the rows of a schedule are not sorted; sort them by client, then by interval")
        expected = (self.n_intervals, len(self.client_ids))
        if self.concepts is not None and self.concepts.shape != expected:
            raise InputError(f"concepts have shape {self.concepts.shape}; give one per interval and client, {expected}")

    @property
    def n_clients(self) -> int:
        """How many clients there are."""
        return len(self.client_ids)


def sort_schedule(
    client_ids: tuple[ClientId, ...],
    n_intervals: int,
    *,
    columns: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike, npt.ArrayLike, npt.ArrayLike],
    looks: tuple[Look, ...] = (AS_IS,),
    concepts: Membership | None = None,
    last: Counts | None = None,
) -> Schedule:
    """Return the schedule of rows in any order; rows of the same client and interval keep theirs, or go by ``last``.

    ``columns``: client, interval, sample, y and look of each row; the rest as in :class:`Schedule`.

    Examples
    --------
    >>> plan = sort_schedule(("a", "b"), 2, columns=([1, 0], [0, 1], [7, 8], [0, 1], [0, 0]))
    >>> plan.client.tolist(), plan.sample.tolist()
    ([0, 1], [8, 7])
    """
    client, interval, sample, y, look = (np.asarray(column) for column in columns)
    place = client.astype(np.int64) * n_intervals + interval
    order = np.argsort(place, kind="stable") if last is None else np.lexsort((last, place))
    return Schedule(
        client_ids=client_ids,
        n_intervals=n_intervals,
        client=client[order].astype(np.int32),
        interval=interval[order].astype(np.int32),
        sample=sample[order].astype(np.int32),
        y=y[order].astype(np.int32),
        look=look[order].astype(np.int16),
        looks=looks,
        concepts=concepts,
        last=None if last is None else last[order].astype(np.int32),
    )


def same_past(one: Schedule, other: Schedule, n_intervals: int) -> bool:
    """Return whether clients get the same in the first intervals and in the one after, on which models are tested.

    The true concepts count, too, of the intervals themselves: they are written down.
    """
    if one.client_ids != other.client_ids:
        return False
    rows = [np.flatnonzero(schedule.interval <= n_intervals) for schedule in (one, other)]
    for name in ("client", "interval", "sample", "y", "look"):
        if not np.array_equal(*(getattr(schedule, name)[at] for schedule, at in zip((one, other), rows, strict=True))):
            return False
    if one.concepts is None or other.concepts is None:
        return one.concepts is other.concepts
    return np.array_equal(one.concepts[:n_intervals], other.concepts[:n_intervals])
