"""What the results of a run depend on, and what of it has changed since."""

import hashlib
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import numpy as np

from fielding._typing import Json, Models
from fielding._version import __version__
from fielding.config.keys import Config
from fielding.config.reader import config_table
from fielding.records.manifest import difference, file_digest
from fielding.simulation.assembly import Own, Simulation
from fielding.simulation.devices import PROFILES
from fielding.traces.sources import Dealt

FREE = ("workers", "stop_at_accuracy", "stop_at_time_s", "checkpoint")
"""Keys that may change when a run is resumed."""
_HASHED_BYTES = 1 << 28


def run_manifest(config: Config, own: Own, simulation: Simulation, initial: Models) -> dict[str, Json]:
    """Return what the results of a run depend on, and what its classes are called."""
    is_torch = own.model is not None or config.model.factory is not None or config.training.trainer == "torch"
    packages = ("numpy", "torch") if is_torch else ("numpy",)
    table = {name: value for name, value in config_table(config).items() if name not in FREE}
    given = {name: getattr(own, name) is not None for name in ("samples", "model", "represent")}
    return {
        "fielding": __version__,
        "machine": _machine(packages),
        "classes": list(simulation.dealt.pool.classes),
        "seed": config.seed,
        "config": table,
        "own": dict(given),
        "data_blake2b": _data_digest(simulation.dealt),
        "initial_blake2b": hashlib.blake2b(np.ascontiguousarray(initial).data, digest_size=16).hexdigest(),
        "clock_blake2b": {
            name: file_digest(Path(path))
            for name, path in (("profile", config.clock.profile), ("availability", config.clock.availability))
            if path is not None and path not in PROFILES
        },
        "trainer": {"name": "torch" if is_torch else "numpy", **simulation.trainer.path.record()},
        "n_numbers": simulation.trainer.layout.size,
    }


def _data_digest(dealt: Dealt) -> str:
    """Return what tells these samples from others; of more than 256 MB only every so many rows are read."""
    schedule, pool = dealt.schedule, dealt.pool
    digest = hashlib.blake2b(repr((schedule.client_ids, pool.shape, pool.classes)).encode(), digest_size=16)
    for column in (schedule.client, schedule.interval, schedule.sample, schedule.y, schedule.look):
        digest.update(np.ascontiguousarray(column).data)
    step = max(1, -(-pool.x.nbytes // _HASHED_BYTES))
    digest.update(np.ascontiguousarray(pool.x[::step]).data)
    return digest.hexdigest()


def _machine(packages: Sequence[str]) -> dict[str, Json]:
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        **{name: metadata.version(name) for name in packages},
    }


def version_notes(stored: dict[str, Json], now: dict[str, Json]) -> tuple[str, ...]:
    """Return, in words, which versions differ from those that a run was begun with; its bits may differ then, too."""
    found = [difference(stored[name], now[name], name) for name in ("fielding", "machine") if name in stored]
    return tuple(f"{one}; results may differ in the last digits" for one in found if one)
