"""Points of the plane whose labels follow one of a few concepts (as in SEA and Sine), for clients that switch."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Vector
from fielding.client.fleet import FleetReports
from fielding.coordinator.policy import Policy
from fielding.engine.round import Done, Federation, run_round
from fielding.federation.evaluation import adjusted_rand_index
from fielding.methods.kinds import ReportsFrom
from fielding.methods.method import Method, MethodSetting, Parts
from fielding.runtime.observe import LookingCosts
from fielding.runtime.train import LocalRule
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.hardware import AlwaysAvailable, Availability, Devices, Hardware
from fielding.traces.histograms import WindowPlan
from fielding.traces.pool import Pool
from fielding.traces.schedule import sort_schedule
from fielding.traces.sliding import SlidingWindows
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import LearningRate

SAMPLES, N_STEPS, BATCH_SIZE, MS, KBPS = 60, 5, 20, 2.0, 1000.0
MODEL_BYTES = 4 * (2 + 1) * 2
CONCEPTS: tuple[Callable[[npt.NDArray[np.float32]], Mask], ...] = (
    lambda x: x[:, 0] + x[:, 1] > 0.0,
    lambda x: x[:, 0] + x[:, 1] <= 0.0,
    lambda x: x[:, 0] - x[:, 1] > 0.0,
)


def plane_windows(
    concepts: npt.ArrayLike, *, gap: int = 5, n_visible: int = 1, wrong_tests: bool = False
) -> SlidingWindows:
    """Return windows in which client c has concept ``concepts[interval][c]``, -1 for no samples in that interval.

    With ``wrong_tests`` the samples for testing have the opposite labels; all others are the same.
    """
    table = np.asarray(concepts)
    rng = np.random.default_rng(5)
    x = rng.uniform(-1.0, 1.0, (4000, 2)).astype(np.float32)
    pool = Pool(x=x, y=np.zeros(4000, dtype=np.int32), classes=("no", "yes"))
    interval, client = np.nonzero(table >= 0)
    sample = rng.integers(0, 4000, (interval.size, SAMPLES))
    concept = np.repeat(table[interval, client], SAMPLES)
    flat = sample.reshape(-1)
    y = np.stack([rule(x[flat]) for rule in CONCEPTS]).astype(np.int32)[concept, np.arange(flat.size)]
    if wrong_tests:
        y = np.where(pool.is_test()[flat], 1 - y, y)
    schedule = sort_schedule(
        tuple(range(table.shape[1])),
        table.shape[0],
        columns=(np.repeat(client, SAMPLES), np.repeat(interval, SAMPLES), flat, y, np.zeros(flat.size)),
        concepts=np.maximum(table, 0).astype(np.int32),
    )
    return SlidingWindows(pool, schedule, WindowPlan(gap=gap, window=gap * n_visible))


class Scripted:
    """Clients that report in the rounds that a script names; in the first round all do."""

    looked = LookingCosts()
    level: float | None = None
    span = 1

    def __init__(self, n_clients: int, script: Mapping[int, Sequence[int]]) -> None:
        self._script = {0: range(n_clients), **script}

    def observe(self, round_index: int) -> FleetReports:
        who = np.array(self._script.get(round_index, ()), dtype=np.int64)
        return FleetReports(clients=who, representations=np.ones((who.size, 2), np.float32), n_samples=who + 1)

    def hold(self, clients: Counts) -> None:
        """Forget them: nobody is offline in these tests."""


class Away:
    """Some clients cannot be reached before a moment."""

    def __init__(self, who: Sequence[int], until_s: float) -> None:
        self._who, self._until_s = who, until_s

    def available(self, clients: Counts, time_s: float | Vector) -> Mask:
        return ~(np.isin(clients, self._who) & (np.asarray(time_s) < self._until_s))


class Absent:
    """Whoever a test names at the moment cannot be reached."""

    def __init__(self) -> None:
        self.who: Sequence[int] = ()

    def available(self, clients: Counts, time_s: float | Vector) -> Mask:  # noqa: ARG002
        return ~np.isin(clients, self.who)


def plane_clients(
    windows: SlidingWindows,
    *,
    script: Mapping[int, Sequence[int]] | None = None,
    availability: Availability | None = None,
    rate: float = 1.0,
) -> SimulatedClients:
    """Return clients with a softmax model; they report as scripted, if at all."""
    n_clients = windows.n_clients
    reports_from: ReportsFrom = "nobody" if script is None else "flags"
    return SimulatedClients(
        windows,
        None if script is None else Scripted(n_clients, script),
        trainer_for(ModelRequest(name="softmax", input_shape=(2,), n_classes=2)),
        rule=LocalRule(n_steps=N_STEPS, batch_size=BATCH_SIZE, rate=LearningRate(initial=rate)),
        hardware=Hardware(
            devices=Devices(ms_per_sample=np.full(n_clients, MS), kbps=np.full(n_clients, KBPS)),
            availability=availability or AlwaysAvailable(),
        ),
        reports_from=reports_from,
        seed=7,
    )


def setting_of(clients: SimulatedClients, *, participants: int = 4) -> MethodSetting:
    """Return the setting of a method for these clients."""
    return MethodSetting(
        initial=clients.trainer.initial_model(1),
        client_ids=clients.client_ids,
        policy=Policy(seed=1),
        parts=Parts(participants=participants),
        seed=1,
        n_parameters=6,
        n_head=6,
        draw_model=clients.trainer.initial_model,
        n_visible=clients.windows.plan.n_visible,
    )


def run_rounds(clients: SimulatedClients, method: Method, rounds: Sequence[int], *, every: int = 100) -> list[Done]:
    """Run some rounds; evaluated are the first and then one of so many."""
    federation = Federation(clients=clients, method=method, evaluate_every=every, n_rounds=10_000)
    return [run_round(federation, at) for at in rounds]


def agreement(clients: SimulatedClients, method: Method) -> float:
    """Return how well the clusters agree with the true concepts now."""
    truth = clients.concepts()
    assert truth is not None
    return adjusted_rand_index(method.membership(), truth)


def seconds_for(*, fwd: int = 0, train: int = 0, n_bytes: int = 0) -> float:
    """Return the seconds that a client takes for so many samples and bytes, by METHODS.md 12."""
    return (fwd + 3 * train) * MS / 1000.0 + n_bytes / 128.0 / KBPS
