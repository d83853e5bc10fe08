"""What a method costs the machine beside training: whole rounds in turns with a bare round of federated averaging."""

import statistics
import time
from collections.abc import Sequence

import numpy as np

from fielding._typing import Json, Models
from fielding.bench.workloads import WORKLOADS, Workload, workload_pool
from fielding.config.reader import config_from
from fielding.engine.round import Federation, run_round
from fielding.federation.clients import TrainingPlan
from fielding.federation.models import mean_model
from fielding.simulation.assembly import Own, Simulation, assembled, initial_model
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.experiment import federation_of

METHODS = ("global", "fielding", "ifca", "flexcfl", "auxo", "fedac")
WARM_UP = 3
"""Rounds that are not timed: the first makes the clusters, and caches fill."""


def method_overhead(*, n_rounds: int, methods: Sequence[str] = METHODS) -> dict[str, Json]:
    """Compare rounds of methods between drift events with bare rounds of federated averaging, in turns, on W1.

    A bare round draws as many participants uniformly, lets them train through the same door with the same trainer, and
    takes the mean. Nobody drifts after the start, and nothing is evaluated or written down.

    Returns
    -------
    ``bare_ms``, and by method ``round_ms`` and ``to_bare``: medians, and the ratio of medians.
    """
    workload = WORKLOADS["w1"]
    own = Own(samples=workload_pool(workload))
    bare = _simulation(workload, own, "global", n_rounds)
    others = {name: _simulation(workload, own, name, n_rounds) for name in methods}
    federations = {name: _federation(one) for name, one in others.items()}
    model = initial_model(bare, None)
    seconds: dict[str, list[float]] = {name: [] for name in ("bare", *methods)}
    for round_index in range(WARM_UP + n_rounds):
        begun = time.perf_counter()
        model = _bare_round(bare.clients, model, round_index, workload.n_participants)
        seconds["bare"].append(time.perf_counter() - begun)
        for name, federation in federations.items():
            begun = time.perf_counter()
            run_round(federation, round_index)
            seconds[name].append(time.perf_counter() - begun)
    for one in (bare, *others.values()):
        one.clients.close()
    medians = {name: statistics.median(times[WARM_UP:]) for name, times in seconds.items()}
    found: dict[str, Json] = {
        name: {"round_ms": 1e3 * medians[name], "to_bare": medians[name] / medians["bare"]} for name in methods
    }
    return {"rounds": n_rounds, "bare_ms": 1e3 * medians["bare"], "methods": found}


def _simulation(workload: Workload, own: Own, method: str, n_rounds: int) -> Simulation:
    config = config_from(
        {
            "rounds": WARM_UP + n_rounds + 1,  # one more, so that the last is not evaluated
            "trace": {
                "scenario": "static",
                "clients": workload.n_clients,
                "samples": 125,
                "gap": 1000,
                "window": 1000,
            },
            "training": {"participants": workload.n_participants, "prox": 0.0},
            "evaluation": {"every": 1_000_000},
            "clock": {"overcommit": 1.0},
            "method": {"name": method},
        }
    )
    return assembled(config, own, n_workers=1)


def _federation(simulation: Simulation) -> Federation:
    method = simulation.method(initial_model(simulation, None))
    return federation_of(simulation, method, simulation.clients)


def _bare_round(clients: SimulatedClients, model: Models, round_index: int, n_participants: int) -> Models:
    clients.begin(round_index)
    everyone = np.flatnonzero(clients.askable())
    order = np.argsort(clients.draws("select", everyone))[:n_participants]
    chosen = np.sort(everyone[order])
    plan = TrainingPlan(
        models=model[np.newaxis],
        clients=chosen,
        groups=np.zeros(chosen.size, dtype=np.int64),
        start=np.zeros(chosen.size, dtype=np.int64),
        wanted=np.array([chosen.size]),
    )
    return mean_model(clients.train(plan).models)
