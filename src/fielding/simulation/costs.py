"""Costs of jobs and answers, and the accounts of all clients: ledger, clock, sums of the round in hand."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Models, Vector
from fielding.federation.clients import TrainingPlan
from fielding.federation.ledger import Costs, Ledger
from fielding.runtime.train import is_choice
from fielding.simulation.clock import Clock, seconds_of
from fielding.simulation.hardware import Hardware

BYTES_PER_NUMBER = 4  # models and reports travel as float32


def job_costs(plan: TrainingPlan, *, n_trained: Counts, n_passed: Counts, along: tuple[int, int] = (0, 0)) -> Costs:
    """Return the costs of each job of a plan.

    It trains on ``n_trained`` samples, and puts ``n_passed`` through a model beside that, shape ``(n_jobs,)``;
    ``along``: numbers that travel with the models, to the client and back.
    """
    model_bytes, n_models = BYTES_PER_NUMBER * plan.models.shape[1], plan.models.shape[0]
    # Which model was chosen comes back with it; so does the loss before training.
    n_figures = int(is_choice(plan)) + int(plan.with_start_loss)
    up_bytes = _bytes(plan.uploads if plan.upload_shares is None else plan.upload_shares, model_bytes, model_bytes)
    return Costs(
        down_bytes=_bytes(plan.downloads, model_bytes * (n_models if plan.chooses else 1), model_bytes)
        + along[0] * BYTES_PER_NUMBER,
        up_bytes=up_bytes + (n_figures + along[1]) * BYTES_PER_NUMBER,
        train_samples=n_trained,
        forward_samples=n_passed,
    )


def answer_costs(clients: Counts, models: Models, n_passed: Counts, held: Mask | None = None) -> Costs:
    """Return what answers about models cost; a client that is asked twice downloads the models once.

    Parameters
    ----------
    clients
        The clients that answer, shape ``(n_asked,)``; one may come several times.
    models
        Shape ``(n_models, n_numbers)``; without models one number is sent back.
    n_passed
        Samples that each client puts through each model, shape ``(n_asked,)``.
    held
        Which clients have the models already, same shape; None for none.

    Examples
    --------
    >>> models, held = np.zeros((2, 5), dtype=np.float32), np.array([False, False, True])
    >>> costs = answer_costs(np.array([4, 4, 7]), models, np.array([10, 20, 30]), held)
    >>> np.asarray(costs.down_bytes).tolist(), costs.up_bytes, np.asarray(costs.forward_samples).tolist()
    ([40, 0, 0], 8, [20, 40, 60])
    """
    is_sent = np.zeros(clients.size, dtype=np.int64)
    is_sent[np.unique(clients, return_index=True)[1]] = 1
    if held is not None:
        is_sent = is_sent * ~held
    return Costs(
        down_bytes=BYTES_PER_NUMBER * models.size * is_sent,
        up_bytes=BYTES_PER_NUMBER * (models.shape[0] or 1),
        forward_samples=n_passed * models.shape[0],
    )


def _bytes(share: Vector | None, usual: int, model_bytes: int) -> int | Counts:
    """Return bytes: as many as usual, or so many models' worth."""
    return usual if share is None else np.round(np.asarray(share) * model_bytes).astype(np.int64)


def without(costs: Costs, spared: Mask) -> Costs:
    """Return what tasks cost if some of them are not begun.

    Examples
    --------
    >>> without(Costs(down_bytes=8, train_samples=np.array([2, 3])), np.array([True, False])).train_samples.tolist()
    [0, 3]
    """
    if not spared.any():
        return costs
    return Costs(
        down_bytes=np.where(spared, 0, costs.down_bytes),
        up_bytes=np.where(spared, 0, costs.up_bytes),
        forward_samples=np.where(spared, 0, costs.forward_samples),
        train_samples=np.where(spared, 0, costs.train_samples),
    )


def finish_times(clients: Counts, seconds: Vector) -> Vector:
    """Return when each job is done; a client does its jobs one after the other, in their order.

    Examples
    --------
    >>> finish_times(np.array([3, 5, 3]), np.array([1.0, 2.0, 4.0])).tolist()
    [1.0, 2.0, 5.0]
    """
    order = np.argsort(clients, kind="stable")
    _, first = np.unique(clients[order], return_index=True)
    if first.size == clients.size:
        return seconds
    sums = np.cumsum(seconds[order])
    before = np.repeat(sums[first] - seconds[order][first], np.diff([*first.tolist(), clients.size]))
    finish = np.empty_like(seconds)
    finish[order] = sums - before
    return finish


IDLE_S = 60.0  # simulated seconds that a round waits in which no client can be asked


class Accounts:
    """Charges clients for what they do, by the hardware they do it on, and lets time pass.

    ``ledger`` holds what was charged since the start, ``round_costs`` what the round in hand cost so far:
    ``bytes_down``, ``bytes_up``, ``client_seconds``.
    """

    def __init__(self, n_clients: int, hardware: Hardware) -> None:
        self.ledger = Ledger(n_clients)
        self.round_costs: dict[str, float] = {}
        self._hardware = hardware
        self.clock = Clock()
        self._cluster_of: Counts = np.empty(0, dtype=np.int64)

    @property
    def now_s(self) -> float:
        """Simulated seconds since the start."""
        return self.clock.now_s

    def serve(self, row: Counts) -> None:
        """Note the cluster of each client, as the row of the model that serves it."""
        self._cluster_of = row

    def times_of(self, clients: Counts) -> Vector:
        """Return the time that the cluster of each of some clients has come to."""
        if not self.clock.sooner:
            return np.full(clients.shape, self.now_s)
        return self.clock.times_of(self._cluster_of[clients])

    def is_online(self, clients: Counts) -> Mask:
        """Return which of some clients can be reached by their clusters now."""
        return self._hardware.availability.available(clients, self.times_of(clients))

    def begin(self) -> None:
        """Begin a round: it has cost nothing yet."""
        self.round_costs = dict.fromkeys(("bytes_down", "bytes_up", "client_seconds"), 0)

    def return_to(
        self, now_s: float, ledger: Ledger | None = None, arrays: Mapping[str, npt.NDArray[np.generic]] | None = None
    ) -> None:
        """Come back to a time, and to what was charged by then; without a ledger that stays as it is.

        ``arrays``: those of the clock, if clusters had times of their own.
        """
        self.clock = Clock.restored(now_s, arrays or {})
        if ledger is not None:
            self.ledger = ledger

    def wait(self, seconds: float) -> None:
        """Let all clusters meet, and time pass."""
        self.clock.advance(seconds)

    def seconds(self, clients: Counts, costs: Costs) -> Vector:
        """Return how long each task takes the client that does it, shape ``(n_tasks,)``."""
        return seconds_of(self._hardware.devices, clients, costs)

    def charge(self, category: str, clients: Counts, costs: Costs, *, seconds: Vector | None = None) -> Vector:
        """Charge tasks to clients, shape ``(n_tasks,)``, without waiting for them, and return how long each takes.

        ``seconds`` is how long each took, if that is not what its costs say.
        """
        spent = self.seconds(clients, costs) if seconds is None else seconds
        self.ledger.charge(category, clients, down_bytes=costs.down_bytes, up_bytes=costs.up_bytes, seconds=spent)
        amounts = (costs.down_bytes, costs.up_bytes, spent)
        for name, amount in zip(self.round_costs, amounts, strict=True):
            self.round_costs[name] += np.broadcast_to(amount, clients.shape).sum().item()
        return spent

    def answer(self, clients: Counts, costs: Costs) -> None:
        """Charge clients for answers to a method's questions; the round waits for the last of them."""
        seconds = self.charge("probe", clients, costs)
        self.wait(float(finish_times(clients, seconds).max(initial=0.0)))
