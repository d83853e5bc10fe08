"""How fast clients compute and transfer: drawn by a calibrated rule, or read from the user's file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from fielding._typing import ClientId, Counts, Vector
from fielding.errors import InputError, OptionError, echo, unknown_name
from fielding.rng import Hashes, client_key, hashed
from fielding.simulation.client_rows import bounded_parser, rows_of_clients
from fielding.traces.csv_table import CsvTable, open_table
from fielding.traces.text_columns import Column, NameColumn, NumberColumn, fill_columns

FASTEST_MS, SLOWEST_MS = 15.0, 199.0
"""Drawn compute times are clipped to the range that FedScale's trace is said to have."""
LEAST_SPEED, MOST_SPEED = 1e-6, 1e9
"""What a file may say of a device; beyond, seconds would overflow."""


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
    """Return the devices of a run's clients.

    Parameters
    ----------
    profile
        A name of ``PROFILES``, or the path of a CSV file for :func:`read_devices`.
    client_ids
        The clients of the run.
    seed
        The seed of the run.

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
    if path.suffix in (".csv", ".gz") or len(path.parts) > 1 or path.is_file():
        return read_devices(path, client_ids)
    raise OptionError(f"{unknown_name('device profile', profile, PROFILES)}, or the path of a CSV file")


def synthetic_devices(keys: Hashes, seed: int, profile: DeviceProfile = SYNTHETIC) -> Devices:
    """Draw devices; a client's device depends on its key, the seed and the profile alone.

    Parameters
    ----------
    keys
        :func:`~fielding.rng.client_key` of every client, uint64, shape ``(n_clients,)``.
    seed
        The seed of the run.
    profile
        The population to draw from.

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

    Parameters
    ----------
    path
        The file.
    client_ids
        The clients of the run.

    Raises
    ------
    FileFormatError
        If a cell is no speed, a client stands there twice, or a client of the run is missing.
    """
    table = open_table(Path(path))
    speed = bounded_parser("speed of a device", least=LEAST_SPEED, most=MOST_SPEED)
    ms_per_sample, kbps, names = NumberColumn(speed), NumberColumn(speed), NameColumn()
    wanted: list[tuple[int, Column]] = [
        (table.position("ms_per_sample"), ms_per_sample),
        (table.position("kbps"), kbps),
    ]
    if has_ids := "client" in table.header:
        wanted.append((table.position("client"), names))
    fill_columns(table, wanted, None)
    in_turn = np.arange(len(client_ids)) % kbps.values().size
    rows = _row_per_client(table, names, client_ids) if has_ids else in_turn
    return Devices(ms_per_sample=ms_per_sample.values()[rows], kbps=kbps.values()[rows])


def _row_per_client(table: CsvTable, names: NameColumn, client_ids: Sequence[ClientId]) -> Counts:
    """Return the row of every client, or raise if one has none or two."""
    owners, codes = rows_of_clients(table, names, client_ids), names.codes()
    _, first = np.unique(codes, return_index=True)
    if first.size < codes.size:
        again = int(np.setdiff1d(np.arange(codes.size), first)[0])
        raise table.mistake(again, "client", got=names.names()[codes[again]], wanted="there twice; keep one row each")
    rows = np.empty(len(client_ids), dtype=np.int64)
    rows[owners[owners >= 0]] = np.flatnonzero(owners >= 0)
    return rows


def _normal(keys: Hashes, seed: int, purpose: str) -> Vector:
    """Return a standard normal number for every client, by the method of Box and Muller (1958)."""
    radius, angle = (_between_0_and_1(hashed(seed, purpose, keys, draw)) for draw in (0, 1))
    return np.asarray(np.sqrt(-2.0 * np.log(radius)) * np.cos(2.0 * np.pi * angle))


def _between_0_and_1(hashes: Hashes) -> Vector:
    """Return evenly spread numbers that are neither 0 nor 1: the upper 52 bits, and a half."""
    return ((hashes >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
