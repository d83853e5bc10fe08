"""A federation whose clients keep something between rounds, and whose data change for all of them at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fielding._typing import Models
from fielding.federation.clients import Updates
from fielding.federation.ledger import Ledger
from fielding.runtime.train import LocalRule
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.hardware import AlwaysAvailable, Devices, Hardware
from fielding.traces.histograms import WindowPlan
from fielding.traces.pool import Pool
from fielding.traces.schedule import sort_schedule
from fielding.traces.sliding import SlidingWindows
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import LearningRate, Trainer
from tests.runtime.plans import RecordingTrainer, plan_of

N_FEATURES, N_CLASSES = 4, 4
RULE = LocalRule(n_steps=3, batch_size=5, rate=LearningRate(initial=0.2))


def concept_windows(
    concepts: Sequence[int], *, n_clients: int = 6, samples: int = 30, n_visible: int = 2, spread: float = 0.6
) -> SlidingWindows:
    """Return windows over well separated samples; concept c brings labels 2c and 2c + 1, a new interval every round."""
    rng = np.random.default_rng(5)
    y = np.tile(np.arange(N_CLASSES), 300).astype(np.int32)
    x = (spread * rng.standard_normal((y.size, N_FEATURES)) + 2.0 * np.eye(N_CLASSES)[y]).astype(np.float32)
    pool = Pool(x=x, y=y, classes=tuple("abcd"))
    by_concept = [np.flatnonzero(y // 2 == concept) for concept in range(2)]
    drawn = [rng.choice(by_concept[concept], (n_clients, samples)) for concept in concepts]
    sample = np.stack(drawn, axis=1).ravel()
    client = np.repeat(np.arange(n_clients), len(concepts) * samples)
    interval = np.tile(np.repeat(np.arange(len(concepts)), samples), n_clients)
    columns = (client, interval, sample, y[sample], np.zeros(sample.size))
    schedule = sort_schedule(tuple(range(n_clients)), len(concepts), columns=columns)
    return SlidingWindows(pool, schedule, WindowPlan(gap=1, window=n_visible))


def keeping_clients(
    windows: SlidingWindows, rule: LocalRule, *, model: str = "mlp", record: bool = False
) -> SimulatedClients:
    """Return clients; client c computes at 10 * (c + 1) ms per sample."""
    trainer: Trainer = trainer_for(
        ModelRequest(name=model, hidden=6, input_shape=(N_FEATURES,), n_classes=N_CLASSES, trainer="numpy")
    )
    n_clients = windows.n_clients
    devices = Devices(ms_per_sample=10.0 * np.arange(1.0, n_clients + 1.0), kbps=np.full(n_clients, 1000.0))
    return SimulatedClients(
        windows,
        None,
        RecordingTrainer(inner=trainer) if record else trainer,
        rule=rule,
        hardware=Hardware(devices=devices, availability=AlwaysAvailable()),
        seed=3,
    )


@dataclass(slots=True, kw_only=True)
class Averaging:
    """Federated averaging by hand: round by round, with whoever takes part in it."""

    clients: SimulatedClients
    model: Models
    next_round: int = 0
    times: list[float] = field(default_factory=lambda: [0.0])

    def round(self, who: Sequence[int]) -> Updates:
        self.clients.begin(self.next_round)
        updates = self.clients.train(plan_of(who, models=self.model[np.newaxis]))
        if updates.clients.size:
            self.model = updates.models.mean(axis=0)
        self.next_round += 1
        self.times.append(self.clients.now_s)
        return updates

    def resumed(self, fresh: SimulatedClients) -> "Averaging":
        """Return the same federation on clients that have to be brought to where these are."""
        ledger = Ledger.restored(self.clients.ledger.arrays())
        fresh.return_to(self.next_round - 1, self.times, ledger=ledger, arrays=self.clients.snapshot())
        return replace(self, clients=fresh, times=list(self.times))


def averaging(clients: SimulatedClients) -> Averaging:
    return Averaging(clients=clients, model=clients.trainer.initial_model(1))


def same_state(one: SimulatedClients, other: SimulatedClients) -> bool:
    """Return whether two sets of clients keep the same bits and were charged the same."""
    pairs = [(one.snapshot(), other.snapshot()), (one.ledger.arrays(), other.ledger.arrays())]
    return all(
        first.keys() == second.keys() and all(first[name].tobytes() == second[name].tobytes() for name in first)
        for first, second in pairs
    )


def resumes_at_every_round(make: Callable[[], SimulatedClients], participants: Sequence[Sequence[int]]) -> bool:
    """Return whether a federation that is stopped after any round goes on as if it had never been."""
    straight = averaging(make())
    stopped: list[Averaging] = []
    for who in participants:
        straight.round(who)
        for one in stopped:
            one.round(who)
        stopped.append(straight.resumed(make()))
    return all(
        one.model.tobytes() == straight.model.tobytes() and same_state(one.clients, straight.clients) for one in stopped
    )
