"""A federation small enough to think through: few clients, few samples, two or three classes."""

import numpy as np

from fielding.client.drift import AnyChange
from fielding.federation.clients import TrainingPlan
from fielding.runtime.observe import LabelObserver
from fielding.runtime.train import LocalRule
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.hardware import AlwaysAvailable, Availability, Devices, Hardware
from fielding.traces.histograms import WindowPlan
from fielding.traces.pool import Pool
from fielding.traces.schedule import sort_schedule
from fielding.traces.sliding import SlidingWindows
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import LearningRate

N_FEATURES, N_CLASSES = 4, 3


def small_windows(n_clients: int = 6, n_intervals: int = 4, *, samples: int = 15, seed: int = 0) -> SlidingWindows:
    """Return windows over random samples; every interval brings each client new ones."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, N_CLASSES, 200).astype(np.int32)
    x = (rng.standard_normal((200, N_FEATURES)) + 2.0 * np.eye(N_CLASSES, N_FEATURES)[y]).astype(np.float32)
    pool = Pool(x=x, y=y, classes=("a", "b", "c"))
    n_rows = n_clients * n_intervals * samples
    sample = rng.integers(0, 200, n_rows)
    client = np.repeat(np.arange(n_clients), n_intervals * samples)
    interval = np.tile(np.repeat(np.arange(n_intervals), samples), n_clients)
    schedule = sort_schedule(
        tuple(range(n_clients)), n_intervals, columns=(client, interval, sample, y[sample], np.zeros(n_rows))
    )
    return SlidingWindows(pool, schedule, WindowPlan(gap=2, window=4))


def small_clients(
    windows: SlidingWindows | None = None,
    *,
    availability: Availability | None = None,
    overcommit: float = 1.0,
    kbps: float = 1000.0,
    n_workers: int = 1,
    prox: float = 0.0,
) -> SimulatedClients:
    """Return clients with a small softmax model; client c computes at 10 * (c + 1) ms per sample."""
    windows = windows or small_windows()
    n_clients = windows.n_clients
    trainer = trainer_for(ModelRequest(name="softmax", input_shape=(N_FEATURES,), n_classes=N_CLASSES))
    devices = Devices(ms_per_sample=10.0 * np.arange(1.0, n_clients + 1.0), kbps=np.full(n_clients, kbps))
    return SimulatedClients(
        windows,
        LabelObserver(windows, AnyChange()),
        trainer,
        rule=LocalRule(n_steps=3, batch_size=5, rate=LearningRate(initial=0.1), prox=prox),
        hardware=Hardware(devices=devices, availability=availability or AlwaysAvailable(), overcommit=overcommit),
        seed=7,
        n_workers=n_workers,
    )


def one_group(clients: SimulatedClients, who: list[int], wanted: int) -> TrainingPlan:
    """Return a plan that asks some clients to train the initial model."""
    return TrainingPlan(
        models=clients.trainer.initial_model(1)[np.newaxis],
        clients=np.array(who),
        groups=np.zeros(len(who), dtype=np.int64),
        start=np.zeros(len(who), dtype=np.int64),
        wanted=np.array([wanted]),
    )
