"""Which samples are held against which, to tell the kinds of drift of a trace apart at a bounded cost."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Mask
from fielding.rng import client_key, hashed
from fielding.traces.trace import Trace

MOST_CLIENTS, MOST_PAIRS = 200, 300
"""Clients that are looked at, and pairs of cells of each sort."""
AT_A_TIME = 40
"""Pairs of one interval that are taken before others of the next: no single interval shall speak for all."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Pairs of cells, a cell being what one client got in one interval.

    Parameters
    ----------
    first, second
        The rows of the trace in the two cells of each pair.
    """

    first: tuple[Counts, ...]
    second: tuple[Counts, ...]

    def __len__(self) -> int:
        return len(self.first)

    def rows(self) -> Counts:
        """Return all rows that have a part in a pair, rising."""
        return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *self.first, *self.second]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compared:
    """What is held against what.

    Parameters
    ----------
    over_time
        Adjacent intervals of one client.
    between
        Two clients in the same interval; no cell is in two of these pairs.
    """

    over_time: Pairs
    between: Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSize:
    """How large cells are.

    Parameters
    ----------
    least
        Samples without which a cell is left out.
    most
        Rows that are taken of a cell, chosen by their hash; None for all.
    """

    least: int
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Cells:
    """The cells of a trace, by client and then by interval; ``order`` ranks them by chance."""

    client: Counts
    interval: Counts
    rows: tuple[Counts, ...]
    order: Counts

    def pairs(self, first: Counts, second: Counts) -> Pairs:
        return Pairs(
            first=tuple(self.rows[cell] for cell in first.tolist()),
            second=tuple(self.rows[cell] for cell in second.tolist()),
        )


def compared_samples(trace: Trace, interval_of: Counts, size: CellSize, *, is_usable: Mask | None = None) -> Compared:
    """Return pairs of cells over time and between clients, the same for equal traces.

    Parameters
    ----------
    trace
        The samples.
    interval_of
        The interval of each row, shape ``(n_rows,)``.
    size
        Which cells count, and how much of them.
    is_usable
        The rows that may be taken, shape ``(n_rows,)``; None for all.

    Examples
    --------
    >>> trace = Trace(client_ids=("a", "b"), client=np.array([0, 0, 1, 1]), time=np.array([0.0, 1.0, 0.0, 1.0]),
    ...               y=np.zeros(4, dtype=np.int32), classes=("cat",))
    >>> compared = compared_samples(trace, trace.interval_of("1s"), CellSize(least=1))
    >>> len(compared.over_time), len(compared.between), compared.over_time.rows().tolist()
    (2, 2, [0, 1, 2, 3])
    """
    cells = _cells(trace, interval_of, size, is_usable)
    # Sorted by client and interval, so the next interval of a client, if it has one, stands next.
    earlier = np.flatnonzero((np.diff(cells.client) == 0) & (np.diff(cells.interval) == 1))
    chosen = earlier[_taken_in_turn(cells, earlier, MOST_PAIRS)]
    others = _taken_in_turn(cells, np.arange(cells.client.size), 2 * MOST_PAIRS)
    by_interval = others[np.lexsort((cells.order[others], cells.interval[others]))]
    starts = np.flatnonzero(np.diff(cells.interval[by_interval], prepend=-1))
    sizes = np.diff(starts, append=by_interval.size)
    place = np.arange(by_interval.size) - np.repeat(starts, sizes)
    heads = np.flatnonzero((place % 2 == 0) & (place + 1 < np.repeat(sizes, sizes)))
    return Compared(
        over_time=cells.pairs(chosen, chosen + 1), between=cells.pairs(by_interval[heads], by_interval[heads + 1])
    )


def _taken_in_turn(cells: _Cells, which: Counts, most: int) -> Counts:
    """Return which of some cells are taken: some of an interval, then of the next, in an order left to chance."""
    order = np.lexsort((cells.order[which], cells.interval[which]))
    starts = np.flatnonzero(np.diff(cells.interval[which][order], prepend=-1))
    rank = np.arange(order.size) - np.repeat(starts, np.diff(starts, append=order.size))
    chance = hashed(0, "compared intervals", cells.interval[which][order].astype(np.uint64))
    return order[np.lexsort((rank, chance, rank // AT_A_TIME))][:most]


def _cells(trace: Trace, interval_of: Counts, size: CellSize, is_usable: Mask | None) -> _Cells:
    keys = np.array([client_key(client_id) for client_id in trace.client_ids], dtype=np.uint64)
    is_chosen = np.zeros(keys.size, dtype=np.bool_)
    is_chosen[np.argsort(hashed(0, "compared clients", keys), kind="stable")[:MOST_CLIENTS]] = True
    usable = is_chosen[trace.client] if is_usable is None else is_chosen[trace.client] & is_usable
    rows = np.flatnonzero(usable)
    chance = hashed(0, "compared rows", rows.astype(np.uint64))
    rows = rows[np.lexsort((chance, interval_of[rows], trace.client[rows]))]
    place = trace.client[rows].astype(np.int64) * (int(interval_of.max()) + 2) + interval_of[rows]
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    ends = np.append(starts[1:], rows.size)
    n_samples = np.add.reduceat(trace.weights[rows], starts) if rows.size else np.empty(0, dtype=np.int64)
    enough = np.flatnonzero(n_samples >= size.least)
    stops = ends if size.most is None else np.minimum(ends, starts + size.most)
    heads = rows[starts[enough]]
    client, interval = trace.client[heads].astype(np.int64), interval_of[heads].astype(np.int64)
    return _Cells(
        client=client,
        interval=interval,
        rows=tuple(np.sort(rows[starts[cell] : stops[cell]]) for cell in enough.tolist()),
        order=hashed(0, "compared cells", interval.astype(np.uint64), keys[client]).argsort().argsort(),
    )
