"""What rounds cost the clients, and what time that makes it: ledger, clock and the sums of the round in hand."""

import numpy as np

from fielding._typing import Counts, Mask, Vector
from fielding.federation.ledger import Costs, Ledger
from fielding.simulation.clock import Clock, seconds_of
from fielding.simulation.settings import Hardware
from fielding.simulation.task_costs import finish_times

IDLE_S = 60.0
"""Simulated seconds that a round waits in which nobody can be asked."""


class Accounts:
    """Charges clients for what they do, by the hardware they do it on, and lets time pass.

    Parameters
    ----------
    n_clients
        How many clients there are; they are known by their row.
    hardware
        How fast they are, and when they can be reached.

    Attributes
    ----------
    ledger
        What was charged since the start.
    round_costs
        What the round in hand cost so far: ``bytes_down``, ``bytes_up``, ``client_seconds``.
    """

    def __init__(self, n_clients: int, hardware: Hardware) -> None:
        self.ledger = Ledger(n_clients)
        self.round_costs: dict[str, float] = {}
        self._hardware = hardware
        self._clock = Clock()

    @property
    def now_s(self) -> float:
        """Simulated seconds since the start."""
        return self._clock.now_s

    def is_online(self, clients: Counts) -> Mask:
        """Return which of some clients can be reached now."""
        return self._hardware.availability.available(clients, self.now_s)

    def begin(self) -> None:
        """Begin a round: it has cost nothing yet."""
        self.round_costs = dict.fromkeys(("bytes_down", "bytes_up", "client_seconds"), 0)

    def return_to(self, now_s: float, ledger: Ledger | None = None) -> None:
        """Come back to a time, and to what was charged by then; without a ledger that stays as it is."""
        self._clock = Clock(now_s)
        if ledger is not None:
            self.ledger = ledger

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._clock.advance(seconds)

    def seconds(self, clients: Counts, costs: Costs) -> Vector:
        """Return how long each task takes the client that does it, shape ``(n_tasks,)``."""
        return seconds_of(self._hardware.devices, clients, costs)

    def charge(self, category: str, clients: Counts, costs: Costs, *, seconds: Vector | None = None) -> Vector:
        """Charge tasks to clients without waiting for them, and return how long each takes.

        Parameters
        ----------
        category
            One of the ledger's.
        clients
            Who does each task, shape ``(n_tasks,)``.
        costs
            What each task asks for.
        seconds
            How long each took, if that is not what its costs say.
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
