"""When clients can be reached: always, or in the intervals of the user's file, which repeat."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from fielding._typing import ClientId, Counts, Mask, Vector
from fielding.client.arrivals import checked_column
from fielding.errors import InputError, echo
from fielding.simulation.client_rows import bounded_parser, rows_of_clients
from fielding.traces.csv_table import open_table
from fielding.traces.text_columns import Column, NameColumn, NumberColumn, fill_columns

LAST_MOMENT = 1e12
"""Seconds beyond this are a mistake."""


class Availability(Protocol):
    """Knows when clients can be reached; has no memory, so that any moment may be asked for in any order."""

    def available(self, clients: Counts, time_s: float | Vector) -> Mask:
        """Return who can be reached.

        Parameters
        ----------
        clients
            Positions, shape ``(n,)``.
        time_s
            The moment in simulated seconds, at least 0: one for all, or one for each.
        """
        ...


@dataclass(frozen=True, slots=True)
class AlwaysAvailable:
    """Every client can be reached at every moment.

    Examples
    --------
    >>> AlwaysAvailable().available(np.array([4, 2]), 1e9).tolist()
    [True, True]
    """

    def available(self, clients: Counts, time_s: float | Vector) -> Mask:  # noqa: ARG002
        """Return yes for each client."""
        return np.ones(clients.shape, dtype=np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Intervals:
    """When clients can be reached, in any order of rows.

    Parameters
    ----------
    clients
        Whose interval a row is, shape ``(n_rows,)``.
    start_s, stop_s
        From when to when, the stop excluded; a row whose start is its stop says nothing. Shape ``(n_rows,)``.
    finish_s
        After how many seconds the intervals of the row's client repeat, equal on all its rows and not before its
        last stop; None for the last stop itself.
    """

    clients: Counts
    start_s: Vector
    stop_s: Vector
    finish_s: Vector | None = None


class IntervalAvailability:
    """Clients can be reached in intervals, which repeat without end; they may overlap.

    A client without an interval can never be reached.

    Parameters
    ----------
    n_clients
        How many clients there are.
    intervals
        When they can be reached.

    Raises
    ------
    InputError
        If an interval names no client, stops before it starts, or does not fit into its client's period.

    Examples
    --------
    >>> nights = Intervals(clients=np.array([0, 0]), start_s=np.array([0.0, 22.0]), stop_s=np.array([6.0, 24.0]))
    >>> availability = IntervalAvailability(2, nights)
    >>> [availability.available(np.array([0, 1]), time_s).tolist() for time_s in (5.0, 6.0, 23.0, 24.0 + 5.0)]
    [[True, False], [False, False], [True, False], [True, False]]
    """

    def __init__(self, n_clients: int, intervals: Intervals) -> None:
        _check_shapes(n_clients, intervals)
        if misfit := _first_misfit(intervals):
            row, column, reason = misfit
            raise InputError(f"{column} of interval {row} is {reason}")
        order = np.lexsort((intervals.start_s, intervals.clients))
        clients = intervals.clients[order]
        self._start_s = intervals.start_s[order]
        # One more, so that there is something to look at when there are no intervals at all.
        self._reach_s = np.append(_furthest_stops(clients, intervals.stop_s[order]), 0.0)
        self._first = np.searchsorted(clients, np.arange(n_clients + 1))
        self._period_s = np.zeros(n_clients)
        finish_s = intervals.stop_s if intervals.finish_s is None else intervals.finish_s
        np.maximum.at(self._period_s, intervals.clients, finish_s)

    def available(self, clients: Counts, time_s: float | Vector) -> Mask:
        """Return who can be reached; a binary search per client, any moment in any order."""
        period = self._period_s[clients]
        # A client without a period has no interval either: what its time becomes does not matter.
        time = np.mod(np.broadcast_to(time_s, clients.shape), np.where(period > 0.0, period, 1.0))
        after = self._n_started(clients, time)
        has_one = after > self._first[clients]
        return np.asarray(has_one & (time < self._reach_s[np.where(has_one, after - 1, 0)]))

    def _n_started(self, clients: Counts, time: Vector) -> Counts:
        """Return behind the last interval of each client that started at or before its time."""
        low, high = self._first[clients], self._first[clients + 1]
        while (open_rows := np.flatnonzero(low < high)).size:
            middle = (low[open_rows] + high[open_rows]) // 2
            has_started = self._start_s[middle] <= time[open_rows]
            low[open_rows[has_started]] = middle[has_started] + 1
            high[open_rows[~has_started]] = middle[~has_started]
        return low


def read_availability(path: str | Path, client_ids: Sequence[ClientId]) -> IntervalAvailability:
    """Read from a CSV file, plain or gzipped, with the columns ``client,start_s,stop_s`` and perhaps ``finish_s``.

    Rows may stand in any order; clients of the file that are not in the run do not matter. A client that can never
    be reached has one row whose start is its stop.

    Parameters
    ----------
    path
        The file.
    client_ids
        The clients of the run.

    Raises
    ------
    FileFormatError
        If a cell cannot be used, with its line; or if a client of the run has no row.
    """
    table, names = open_table(Path(path)), NameColumn()
    moment = bounded_parser("moment in seconds", least=0.0, most=LAST_MOMENT)
    columns = {name: NumberColumn(moment) for name in ("start_s", "stop_s")}
    if "finish_s" in table.header:
        columns["finish_s"] = NumberColumn(moment)
    wanted: list[tuple[int, Column]] = [(table.position(name), column) for name, column in columns.items()]
    fill_columns(table, [(table.position("client"), names), *wanted], None)
    rows = Intervals(
        clients=names.codes().astype(np.int64), **{name: column.values() for name, column in columns.items()}
    )
    if misfit := _first_misfit(rows):
        row, column, reason = misfit
        raise table.mistake(row, column, got=f"{columns[column].values()[row]:g}", wanted=reason)
    owners = rows_of_clients(table, names, client_ids)
    return IntervalAvailability(len(client_ids), _of_the_run(rows, owners))


def _check_shapes(n_clients: int, intervals: Intervals) -> None:
    """Raise unless every row names a client and has finite moments."""
    shape = checked_column("clients of intervals", intervals.clients, n_clients).shape
    for name in ("start_s", "stop_s", "finish_s"):
        moments = getattr(intervals, name)
        if moments is None:
            continue
        if moments.shape != shape:
            raise InputError(f"{name} has shape {moments.shape}, clients {shape}; give one of each per interval")
        if not ((moments >= 0.0) & (moments <= LAST_MOMENT)).all():
            raise InputError(f"{name} holds {echo(moments.tolist())}; give seconds from 0 to {LAST_MOMENT:g}")


def _first_misfit(intervals: Intervals) -> tuple[int, str, str] | None:
    """Return row, column and reason of the first interval that contradicts itself or its client's first row."""
    misfits = [("stop_s", "before its start_s", intervals.stop_s < intervals.start_s)]
    if intervals.finish_s is not None:
        _, first, client = np.unique(intervals.clients, return_index=True, return_inverse=True)
        differs = intervals.finish_s != intervals.finish_s[first][client]
        misfits.append(("finish_s", "before its stop_s", intervals.finish_s < intervals.stop_s))
        misfits.append(("finish_s", "not the finish_s of the client's first row; give one per client", differs))
    for column, reason, is_misfit in misfits:
        if is_misfit.any():
            return int(np.argmax(is_misfit)), column, reason
    return None


def _of_the_run(rows: Intervals, owners: Counts) -> Intervals:
    """Return the intervals of the run's own clients, named by their position in it."""
    kept = owners >= 0
    return Intervals(
        clients=owners[kept],
        start_s=rows.start_s[kept],
        stop_s=rows.stop_s[kept],
        finish_s=None if rows.finish_s is None else rows.finish_s[kept],
    )


def _furthest_stops(clients: Counts, stop_s: Vector) -> Vector:
    """Return for every row the latest stop of its client so far; rows stand by client.

    Among the intervals that have started, one covers a moment if and only if the latest stop lies behind it: this
    is what lets a single binary search deal with intervals that overlap.
    """
    by_stop = np.argsort(stop_s, kind="stable")
    rank = np.empty(stop_s.size, dtype=np.int64)
    rank[by_stop] = np.arange(stop_s.size)
    # Ranks of later clients are lifted above those of earlier ones, so that no maximum runs over a border.
    floor = clients * stop_s.size
    return np.asarray(stop_s[by_stop[np.maximum.accumulate(floor + rank) - floor]])
