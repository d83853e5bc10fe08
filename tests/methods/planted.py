"""Clients with planted concepts: the same inputs, but every concept names the classes differently."""

import numpy as np
import numpy.typing as npt

from fielding.client.drift import DriftTest, Threshold
from fielding.coordinator.policy import Policy
from fielding.engine.round import Done, Federation, run_round
from fielding.federation.aggregation import Aggregator, Mean
from fielding.methods.kinds import ReportsFrom
from fielding.methods.method import Method, MethodSetting, Parts
from fielding.runtime.observe import LabelObserver
from fielding.runtime.train import LocalRule
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.hardware import AlwaysAvailable, Devices, Hardware
from fielding.traces.histograms import WindowPlan
from fielding.traces.pool import Pool
from fielding.traces.schedule import sort_schedule
from fielding.traces.sliding import SlidingWindows
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import LearningRate

N_FEATURES, N_CLASSES, N_POOL, N_SAMPLES = 4, 3, 300, 40
N_NUMBERS = (N_FEATURES + 1) * N_CLASSES
MODEL_BYTES = 4 * N_NUMBERS


def planted_windows(concepts: npt.ArrayLike, *, most: float = 0.6) -> SlidingWindows:
    """Return windows of one interval per round in which client c has concept ``concepts[round][c]``, -1 for no data.

    A concept g names class b as (b + g) % 3, and ``most`` of the samples are of class 0: their label is g.
    """
    table = np.asarray(concepts)
    rng = np.random.default_rng(0)
    base = np.where(rng.random(N_POOL) < most, 0, rng.integers(1, N_CLASSES, N_POOL))
    x = (0.5 * rng.standard_normal((N_POOL, N_FEATURES)) + 2.0 * np.eye(N_CLASSES, N_FEATURES)[base]).astype(np.float32)
    y = np.concatenate([(base + shift) % N_CLASSES for shift in range(N_CLASSES)]).astype(np.int32)
    interval, client = np.nonzero(table >= 0)
    picks = rng.integers(0, N_POOL, (interval.size, N_SAMPLES)) + N_POOL * table[interval, client][:, np.newaxis]
    sample = picks.reshape(-1)
    schedule = sort_schedule(
        tuple(f"client-{at}" for at in range(table.shape[1])),
        table.shape[0],
        columns=(
            np.repeat(client, N_SAMPLES),
            np.repeat(interval, N_SAMPLES),
            sample,
            y[sample],
            np.zeros(sample.size),
        ),
        concepts=table.astype(np.int32),
    )
    pool = Pool(x=np.concatenate([x] * N_CLASSES), y=y, classes=("a", "b", "c"))
    return SlidingWindows(pool, schedule, WindowPlan(gap=1, window=1))


def planted_clients(
    concepts: npt.ArrayLike,
    *,
    reports_from: ReportsFrom = "flags",
    drift_test: DriftTest | None = None,
    n_steps: int = 5,
    rate: float = 0.3,
) -> SimulatedClients:
    """Return clients with planted concepts and a softmax model."""
    windows = planted_windows(concepts)
    trainer = trainer_for(ModelRequest(name="softmax", input_shape=(N_FEATURES,), n_classes=N_CLASSES))
    n_clients = windows.n_clients
    return SimulatedClients(
        windows,
        None if reports_from == "nobody" else LabelObserver(windows, drift_test or Threshold(eps=0.5)),
        trainer,
        rule=LocalRule(n_steps=n_steps, batch_size=10, rate=LearningRate(initial=rate)),
        hardware=Hardware(
            devices=Devices(ms_per_sample=np.full(n_clients, 1.0), kbps=np.full(n_clients, 1000.0)),
            availability=AlwaysAvailable(),
            overcommit=1.0,
        ),
        reports_from=reports_from,
        seed=3,
        n_workers=1,
    )


def setting_of(
    clients: SimulatedClients, *, participants: int = 4, aggregator: Aggregator | None = None
) -> MethodSetting:
    """Return what a method for these clients is made of."""
    return MethodSetting(
        initial=clients.trainer.initial_model(1),
        client_ids=clients.client_ids,
        policy=Policy(),
        parts=Parts(participants=participants, aggregator=aggregator or Mean()),
        seed=3,
        n_parameters=N_NUMBERS,
    )


def advanced(clients: SimulatedClients, method: Method, rounds: range) -> list[Done]:
    """Return what happened in some rounds."""
    federation = Federation(clients=clients, method=method, evaluate_every=1, n_rounds=100)
    return [run_round(federation, at) for at in rounds]
