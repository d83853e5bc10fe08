"""What a round costs the server of a deployment as clients become many: CPU seconds, without network and devices."""

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fielding._typing import Json
from fielding.config.reader import config_from
from fielding.federation.evaluation import ClientScores
from fielding.flower.device.state import one_update
from fielding.flower.server.contacts import Presence
from fielding.flower.server.deployment import Deployment, run_deployment
from fielding.flower.server.exchange import Node, Patience
from fielding.flower.wire.orders import (
    Answer,
    DescribeReply,
    EvaluateReply,
    Expected,
    Order,
    Report,
    TrainOrder,
    TrainReply,
    Verb,
)

N_CLASSES, N_INPUTS, N_GROUPS = 10, 8, 5
PARTICIPANTS, DRIFTING, N_SAMPLES = 5, 0.01, 40
"""Clients that train in a round, the share of all that drifts in one, and the samples in a window."""
_SCORES = ClientScores(
    clients=np.zeros(1, dtype=np.int64), n_test=np.array([8]), correct=np.array([6]), loss=np.array([0.5])
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """CPU seconds of the server in the median round, and its messages."""

    n_clients: int
    budget: Json
    seconds_a_round: float
    times_the_smallest: float  # of the same budget
    messages_a_round: float


class InstantWire:
    """Nodes that answer at once; ``spent_s`` is the CPU that they and the wire took, which is not the server's."""

    def __init__(self, n_clients: int, n_numbers: int) -> None:
        self._nodes = [Node(address=at + 1, public_key=f"-----BEGIN {at}".encode()) for at in range(n_clients)]
        self._model = np.zeros(n_numbers, dtype=np.float32)
        self._rng = np.random.default_rng(1)
        self._mixes = self._rng.dirichlet(np.full(N_CLASSES, 0.3), N_GROUPS)
        self._number, self._round = np.zeros(n_clients + 1, dtype=np.int64), np.zeros(n_clients + 1, dtype=np.int64)
        self._ready: dict[str, Answer] = {}
        self.n_pushed, self.spent_s = 0, 0.0

    def nodes(self) -> list[Node]:
        """Return all nodes."""
        return self._nodes

    def push(self, orders: Sequence[tuple[int, Order]]) -> list[tuple[str | None, int]]:
        """Answer orders."""
        begun, tickets = time.process_time(), [str(self.n_pushed + at) for at in range(len(orders))]
        for ticket, (address, order) in zip(tickets, orders, strict=True):
            self._ready[ticket] = self._answer(address, order)
        self.n_pushed += len(orders)
        self.spent_s += time.process_time() - begun
        return [(ticket, 100) for ticket in tickets]

    def pull(self, asked: Mapping[str, tuple[int, Verb]]) -> dict[str, tuple[Answer, int]]:
        """Return all answers."""
        begun = time.process_time()
        found = {ticket: (self._ready.pop(ticket), 100) for ticket in asked if ticket in self._ready}
        self.spent_s += time.process_time() - begun
        return found

    def _answer(self, address: int, order: Order) -> Answer:
        if order.verb == "evaluate":
            return EvaluateReply(scores=_SCORES)
        report, silence = None, order.round_index - int(self._round[address])
        if not self._number[address] or self._rng.random() > (1.0 - DRIFTING) ** silence:
            self._number[address] += 1
            counts = self._rng.multinomial(N_SAMPLES, self._mixes[self._rng.integers(N_GROUPS)])
            shares = (counts / N_SAMPLES).astype(np.float32)
            report = Report(number=int(self._number[address]), representation=shares, n_samples=N_SAMPLES)
        self._round[address] = order.round_index
        if isinstance(order, TrainOrder):
            updates = one_update(self._model, n_samples=N_SAMPLES, losses=np.array([0.5, 0.25]), start=-1)
            return TrainReply(updates=updates, report=report)
        return DescribeReply(n_samples=N_SAMPLES, report=report)


def measure_rounds(n_clients: int, budget: Json, *, n_rounds: int = 8) -> tuple[float, float]:
    """Return CPU seconds of the server and messages in the median round, the first two and tests left out."""
    table: dict[str, Json] = {
        "rounds": n_rounds + 3,
        "model": {"name": "softmax"},
        "training": {"participants": PARTICIPANTS},
        "coordinator": {"participants_per_cluster": 1, "k_max": N_GROUPS},
        "reports": {"budget": budget},
        "evaluation": {"every": n_rounds + 3, "clients": 20},
    }
    deployment = Deployment(
        config=config_from(table),
        classes=N_CLASSES,
        shape=(N_INPUTS,),
        presence=Presence(min_nodes=n_clients),
        patience=Patience(deadline_s=600.0),
    )
    wires: list[InstantWire] = []
    marks: list[tuple[float, int]] = []

    def wire_of(expected: Expected, _patience: Patience) -> InstantWire:
        wires.append(InstantWire(n_clients, expected.n_numbers))
        return wires[-1]

    def watch(_row: Mapping[str, Json]) -> bool:
        marks.append((time.process_time() - wires[-1].spent_s, wires[-1].n_pushed))
        return True

    with tempfile.TemporaryDirectory() as folder:
        run_deployment(deployment, wire_of, Path(folder) / "run", watch=watch)
    steps = np.diff(np.array(marks[1:-1]), axis=0)  # differences between the ends of rounds
    return statistics.median(steps[:, 0].tolist()), statistics.median(steps[:, 1].tolist())


def compare_sizes(sizes: Sequence[int], budgets: Sequence[Json], *, n_rounds: int = 8) -> list[Row]:
    """Measure rounds of every size and budget."""
    rows: list[Row] = []
    for budget in budgets:
        first: float | None = None
        for n_clients in sizes:
            seconds, n_messages = measure_rounds(n_clients, budget, n_rounds=n_rounds)
            first = seconds if first is None else first
            rows.append(
                Row(
                    n_clients=n_clients,
                    budget=budget,
                    seconds_a_round=seconds,
                    times_the_smallest=seconds / first,
                    messages_a_round=n_messages,
                )
            )
    return rows
