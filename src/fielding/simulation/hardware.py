"""The hardware of simulated clients: speeds of devices and networks, and when clients can be reached."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np

from fielding._typing import ClientId, Counts, Mask, Vector
from fielding.client.arrivals import checked_column
from fielding.errors import FileFormatError, InputError, OptionError, echo, unknown_name
from fielding.inputs import located
from fielding.rng import Hashes, client_key, hashed
from fielding.traces.csv_table import (
    CellError,
    CsvColumn,
    CsvTable,
    NameColumn,
    NumberColumn,
    fill_columns,
    number_parser,
    open_table,
)

LAST_MOMENT = 1e12  # seconds beyond this are a mistake


class Availability(Protocol):
    """Knows when clients can be reached; has no memory, so that any moment may be asked for in any order."""

    def available(self, clients: Counts, time_s: float | Vector) -> Mask:
        """Return which clients, by position, can be reached at a moment in simulated seconds: one for all, or each."""
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
        The client of each row, shape ``(n_rows,)``.
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

    A client without an interval can never be reached. An interval that names no client, stops before it starts or does
    not fit into its client's period is an :class:`InputError`.

    Examples
    --------
    >>> nights = Intervals(clients=np.array([0, 0]), start_s=np.array([0.0, 22.0]), stop_s=np.array([6.0, 24.0]))
    >>> availability = IntervalAvailability(2, nights)
    >>> [availability.available(np.array([0, 1]), time_s).tolist() for time_s in (5.0, 6.0, 23.0, 24.0 + 5.0)]
    [[True, False], [False, False], [True, False], [True, False]]
    """

    def __init__(self, n_clients: int, intervals: Intervals) -> None:
        shape = checked_column("clients of intervals", intervals.clients, n_clients).shape
        for name in ("start_s", "stop_s", "finish_s"):
            moments = getattr(intervals, name)
            if moments is None:
                continue
            if moments.shape != shape:
                raise InputError(f"{name} has shape {moments.shape}, clients {shape}; give one of each per interval")
            if not ((moments >= 0.0) & (moments <= LAST_MOMENT)).all():
                raise InputError(f"{name} holds {echo(moments.tolist())}; give seconds from 0 to {LAST_MOMENT:g}")
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
        """Return which clients can be reached; a binary search per client, any moment in any order."""
        period = self._period_s[clients]
        # A client without a period has no interval either: what its time becomes does not matter.
        time = np.mod(np.broadcast_to(time_s, clients.shape), np.where(period > 0.0, period, 1.0))
        # Behind the last interval of each client that started at or before its time.
        after, high = self._first[clients], self._first[clients + 1]
        while (open_rows := np.flatnonzero(after < high)).size:
            middle = (after[open_rows] + high[open_rows]) // 2
            has_started = self._start_s[middle] <= time[open_rows]
            after[open_rows[has_started]] = middle[has_started] + 1
            high[open_rows[~has_started]] = middle[~has_started]
        has_one = after > self._first[clients]
        return np.asarray(has_one & (time < self._reach_s[np.where(has_one, after - 1, 0)]))


def read_availability(path: str | Path, client_ids: Sequence[ClientId]) -> IntervalAvailability:
    """Read from a CSV file, plain or gzipped, with the columns ``client,start_s,stop_s`` and perhaps ``finish_s``.

    Rows may stand in any order; clients of the file that are not in the run do not matter. A client that can never
    be reached has one row whose start is its stop.

    Raises
    ------
    FileFormatError
        If a cell cannot be used, with its line; or if a client of the run has no row.
    """
    table, names = open_table(located(path)), NameColumn()
    moment = bounded_parser("moment in seconds", least=0.0, most=LAST_MOMENT)
    columns = {name: NumberColumn(moment) for name in ("start_s", "stop_s")}
    if "finish_s" in table.header:
        columns["finish_s"] = NumberColumn(moment)
    wanted: list[tuple[int, CsvColumn]] = [(table.position(name), column) for name, column in columns.items()]
    fill_columns(table, [(table.position("client"), names), *wanted], None)
    rows = Intervals(
        clients=names.codes().astype(np.int64), **{name: column.values() for name, column in columns.items()}
    )
    if misfit := _first_misfit(rows):
        row, column, reason = misfit
        raise table.mistake(row, column, got=f"{columns[column].values()[row]:g}", wanted=reason)
    owners = rows_of_clients(table, names, client_ids)
    kept = owners >= 0
    own = Intervals(
        clients=owners[kept],
        start_s=rows.start_s[kept],
        stop_s=rows.stop_s[kept],
        finish_s=None if rows.finish_s is None else rows.finish_s[kept],
    )
    return IntervalAvailability(len(client_ids), own)


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


def rows_of_clients(table: CsvTable, names: NameColumn, client_ids: Sequence[ClientId]) -> Counts:
    """Return for every row of a file the position of its client in the run; -1 for clients that are not in the run.

    Ids are compared as they are written: the client 7 of the run is the text ``7`` of the file.

    Raises
    ------
    FileFormatError
        If a client of the run is not in the file; the first one is named.
    """
    positions = {str(client_id): at for at, client_id in enumerate(client_ids)}
    listed = names.names()
    if absent := positions.keys() - set(listed):
        first = client_ids[min(positions[name] for name in absent)]
        raise FileFormatError(
            f"{table.path} has no row for client {echo(first)} ({len(absent)} of {len(client_ids)} clients are "
            "missing); give every client of the run a row"
        )
    by_code = np.array([positions.get(name, -1) for name in listed], dtype=np.int64)
    return by_code[names.codes()]


def bounded_parser(what: str, *, least: float, most: float) -> Callable[[Sequence[str]], Vector]:
    """Return a parser for numbers from ``least`` to ``most``; ``what`` names them in errors."""
    parse_number = number_parser(what)

    def parse(texts: Sequence[str]) -> Vector:
        numbers = parse_number(texts)
        is_fit = (numbers >= least) & (numbers <= most)
        if not is_fit.all():
            raise CellError(int(np.argmin(is_fit)), f"no {what}; give a number from {least:g} to {most:g}")
        return numbers

    return parse


FASTEST_MS, SLOWEST_MS = 15.0, 199.0
"""Drawn compute times are clipped to the range that FedScale's trace is said to have."""
LEAST_SPEED, MOST_SPEED = 1e-6, 1e9  # what a file may say of a device; beyond, seconds would overflow


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Devices:
    """The speed of every client.

    Parameters
    ----------
    ms_per_sample
        Milliseconds to put one sample through the model, shape ``(n_clients,)``.
    kbps
        Bandwidth in kbit/s, the same up and down, shape ``(n_clients,)``.

    Raises
    ------
    InputError
        If the shapes differ or a number is not finite and positive.
    """

    ms_per_sample: Vector
    kbps: Vector

    def __post_init__(self) -> None:
        if self.ms_per_sample.ndim != 1 or self.ms_per_sample.shape != self.kbps.shape:
            raise InputError(
                f"ms_per_sample has shape {self.ms_per_sample.shape} and kbps {self.kbps.shape}; "
                "give one of each per client"
            )
        for name, speeds in (("ms_per_sample", self.ms_per_sample), ("kbps", self.kbps)):
            is_fit = (speeds >= LEAST_SPEED) & (speeds <= MOST_SPEED)
            if not is_fit.all():
                at = int(np.argmin(is_fit))
                raise InputError(
                    f"{name} of client {at} is {echo(float(speeds[at]))}; "
                    f"give a number from {LEAST_SPEED:g} to {MOST_SPEED:g}"
                )

    def __len__(self) -> int:
        return int(self.kbps.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile:
    """A population of devices: log-normal bandwidth and compute time, independent of each other.

    Parameters
    ----------
    median_kbps, bandwidth_sigma
        Median of the bandwidth in kbit/s, and standard deviation of its logarithm.
    median_ms, compute_sigma
        The same for milliseconds per sample, clipped to ``FASTEST_MS`` and ``SLOWEST_MS``.
    """

    median_kbps: float = 8200.0
    bandwidth_sigma: float = 0.8
    median_ms: float = 33.0
    compute_sigma: float = 0.7


SYNTHETIC = DeviceProfile()

PROFILES: Mapping[str, DeviceProfile] = MappingProxyType(
    {
        "synthetic": SYNTHETIC,
        "synthetic-slow": DeviceProfile(median_kbps=6100.0, bandwidth_sigma=1.1),
        "uniform": DeviceProfile(median_kbps=6000.0, bandwidth_sigma=0.0, median_ms=42.0, compute_sigma=0.0),
    }
)
"""Populations by name; docs/clock.md tells where their numbers come from."""


def devices_of(profile: str | Path, client_ids: Sequence[ClientId], *, seed: int) -> Devices:
    """Return the devices of a run's clients: of a name of ``PROFILES``, or of a CSV file for :func:`read_devices`.

    Raises
    ------
    OptionError
        If it is neither a known name nor the path of a file.
    FileFormatError
        If the file cannot be used.

    Examples
    --------
    >>> devices = devices_of("uniform", ["ann", "bob"], seed=1)
    >>> devices.ms_per_sample.tolist(), devices.kbps.tolist()
    ([42.0, 42.0], [6000.0, 6000.0])
    """
    if isinstance(profile, str) and profile in PROFILES:
        keys = np.array([client_key(client_id) for client_id in client_ids], dtype=np.uint64)
        return synthetic_devices(keys, seed, PROFILES[profile])
    path = Path(profile)
    # What looks like a path is one, so that a mistyped path is not answered with the names of profiles.
    if path.suffix in (".csv", ".gz") or len(path.parts) > 1 or located(path).is_file():
        return read_devices(path, client_ids)
    raise OptionError(f"{unknown_name('device profile', profile, PROFILES)}, or the path of a CSV file")


def synthetic_devices(keys: Hashes, seed: int, profile: DeviceProfile = SYNTHETIC) -> Devices:
    """Draw devices; a client's depends on its :func:`~fielding.rng.client_key`, the seed and the profile alone.

    Examples
    --------
    >>> keys = np.array([client_key("ann"), client_key("bob")], dtype=np.uint64)
    >>> first, second = synthetic_devices(keys, 1), synthetic_devices(keys[::-1], 1)
    >>> bool((first.kbps == second.kbps[::-1]).all())
    True
    """
    bandwidth = _normal(keys, seed, "device-bandwidth")
    compute = _normal(keys, seed, "device-compute")
    ms_per_sample = profile.median_ms * np.exp(profile.compute_sigma * compute)
    return Devices(
        ms_per_sample=np.clip(ms_per_sample, FASTEST_MS, SLOWEST_MS),
        kbps=profile.median_kbps * np.exp(profile.bandwidth_sigma * bandwidth),
    )


def read_devices(path: str | Path, client_ids: Sequence[ClientId]) -> Devices:
    """Read devices from a CSV file, plain or gzipped, with the columns ``ms_per_sample`` and ``kbps``.

    With a column ``client`` every client takes the row of its id, and other clients of the file do not matter.
    Without one, the client at position c of the run takes row ``c`` modulo the number of rows.

    Raises
    ------
    FileFormatError
        If a cell is no speed, a client stands there twice, or a client of the run is missing.
    """
    table = open_table(located(path))
    speed = bounded_parser("speed of a device", least=LEAST_SPEED, most=MOST_SPEED)
    ms_per_sample, kbps, names = NumberColumn(speed), NumberColumn(speed), NameColumn()
    wanted: list[tuple[int, CsvColumn]] = [
        (table.position("ms_per_sample"), ms_per_sample),
        (table.position("kbps"), kbps),
    ]
    if has_ids := "client" in table.header:
        wanted.append((table.position("client"), names))
    fill_columns(table, wanted, None)
    rows = np.arange(len(client_ids)) % kbps.values().size
    if has_ids:
        owners, codes = rows_of_clients(table, names, client_ids), names.codes()
        _, first = np.unique(codes, return_index=True)
        if first.size < codes.size:
            again = int(np.setdiff1d(np.arange(codes.size), first)[0])
            got = names.names()[codes[again]]
            raise table.mistake(again, "client", got=got, wanted="there twice; keep one row each")
        rows[owners[owners >= 0]] = np.flatnonzero(owners >= 0)
    return Devices(ms_per_sample=ms_per_sample.values()[rows], kbps=kbps.values()[rows])


def _normal(keys: Hashes, seed: int, purpose: str) -> Vector:
    """Return a standard normal number for every client, by the method of Box and Muller (1958)."""
    radius, angle = (unit_numbers(hashed(seed, purpose, keys, draw)) for draw in (0, 1))
    return np.asarray(np.sqrt(-2.0 * np.log(radius)) * np.cos(2.0 * np.pi * angle))


def unit_numbers(hashes: Hashes) -> Vector:
    """Return evenly spread numbers that are neither 0 nor 1: the upper 52 bits, and a half."""
    return ((hashes >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hardware:
    """Speeds and availability of all clients; ``overcommit`` of them are asked for each answer that is wanted."""

    devices: Devices
    availability: Availability
    overcommit: float = 1.0
