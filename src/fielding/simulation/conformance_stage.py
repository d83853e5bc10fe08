"""A federation made to try methods: small, and with every kind of client that breaks them.

Of sixteen clients, in two kinds that differ in their labels, client 1 goes over to the other kind, 6 comes and goes,
7 joins late, 8 leaves, 9 never has a sample, 10 cannot be reached at first and 11 never.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fielding._typing import Codes, Counts, Features, Json, Mask
from fielding.engine.config_reader import config_from
from fielding.errors import OptionError
from fielding.rng import stream
from fielding.simulation.assembly import Own, Simulation, assembled, initial_model
from fielding.traces.pool import Pool
from fielding.traces.trace import Trace

N_CLIENTS, N_DAYS, PER_DAY, N_ROUNDS = 16, 6, 8, 8
DAY_S = 86400.0
WANDERER, GUEST, LATE, LEAVER, EMPTY, WAKING, GONE = 1, 6, 7, 8, 9, 10, 11
LONG_S = 1e9

Table = dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stage:
    """What a method is tried on.

    Parameters
    ----------
    table
        The config.
    own
        The samples.
    """

    table: Table
    own: Own

    def changed(self, section: str, **values: Json) -> "Stage":
        """Return the same with other values in a section of the config."""
        inner = self.table.get(section)
        return replace(self, table={**self.table, section: {**(inner if isinstance(inner, dict) else {}), **values}})

    def simulation(self) -> Simulation:
        """Return a simulation that is ready to run."""
        return assembled(config_from(self.table), self.own, n_workers=1)


def stage_for(name: str, options: Mapping[str, Json], folder: Path) -> Stage:
    """Return the stage of a method: a natural trace, or a scenario for methods that have to know the true concepts.

    Raises
    ------
    InputError
        If the method cannot be made on either.
    """
    availability = folder / "availability.csv"
    write_availability(availability)
    table: Table = {
        "rounds": N_ROUNDS,
        "workers": 1,
        "model": {"name": "softmax"},
        "training": {"participants": 8, "local_steps": 2, "batch_size": 4, "learning_rate": 0.1},
        "method": {**options, "name": name},
        "coordinator": {"detector": "any-change", "k_max": 3},
        "clock": {"availability": str(availability)},
        "evaluation": {"every": 2},
        "checkpoint": {"every": 1},
    }
    natural = Stage(table=table, own=Own(samples=hard_trace())).changed("trace", interval="1d", gap=2, window=4)
    try:
        try_method(natural)
    except OptionError:
        dealt = Stage(table=table, own=Own(samples=two_kinds_pool()))
        dealt = dealt.changed("trace", scenario="places", clients=N_CLIENTS, samples=PER_DAY, gap=2, window=4)
        try_method(dealt)
        return dealt
    return natural


def try_method(stage: Stage) -> None:
    """Make the method of a stage, which raises if it cannot be made."""
    simulation = stage.simulation()
    try:
        simulation.method(initial_model(simulation, None))
    finally:
        simulation.clients.close()


def hard_trace() -> Trace:
    """Return six days of samples; see the top of this file for who is who."""
    rng = stream(0, "conformance")
    client = np.repeat(np.arange(N_CLIENTS, dtype=np.int32), N_DAYS * PER_DAY)
    day = np.tile(np.repeat(np.arange(N_DAYS), PER_DAY), N_CLIENTS)
    kind = (client % 2) ^ ((client == WANDERER) & (day >= N_DAYS // 2))
    y = np.where(rng.random(client.size) < 0.8, kind, 1 - kind) + 2 * (rng.random(client.size) < 0.3)
    kept = _is_there(client, day)
    return Trace(
        client_ids=tuple(range(N_CLIENTS)),
        client=client[kept],
        time=(DAY_S * day + np.arange(client.size) % PER_DAY)[kept].astype(np.float64),
        y=y[kept].astype(np.int32),
        classes=tuple("abcd"),
        x=_features(y, rng)[kept],
    )


def _is_there(client: Codes, day: Counts) -> Mask:
    is_away = ((client == LATE) & (day < N_DAYS // 2)) | ((client == LEAVER) & (day > 1)) | (client == EMPTY)
    return np.asarray(~is_away)


def two_kinds_pool() -> Pool:
    """Return samples of four classes for a scenario to deal."""
    rng = stream(0, "conformance")
    y = rng.integers(0, 4, 240)
    return Pool(x=_features(y, rng), y=y.astype(np.int32), classes=tuple("abcd"))


def _features(y: Counts, rng: np.random.Generator) -> Features:
    return (rng.standard_normal((y.size, 4)) + 2.0 * np.eye(4)[y]).astype(np.float32)


def write_availability(path: Path) -> None:
    """Write when clients can be reached."""
    spans = dict.fromkeys(range(N_CLIENTS), (0.0, LONG_S))
    spans |= {WAKING: (0.5, LONG_S), GONE: (0.0, 0.0)}
    lines = [f"{client},{start},{stop},{LONG_S}" for client, (start, stop) in spans.items() if client != GUEST]
    lines += [f"{GUEST},{at},{at + 0.3},{LONG_S}" for at in np.arange(0.0, 20.0, 0.6).tolist()]
    path.write_text("\n".join(["client,start_s,stop_s,finish_s", *lines]) + "\n", encoding="utf-8")
