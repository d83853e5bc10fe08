"""A wire without a network: nodes that answer after so many seconds of a clock that tests turn."""

from collections.abc import Mapping, Sequence

from fielding.flower.server.exchange import Exchange, Node, Patience, Settled, Task
from fielding.flower.wire.orders import Answer, Order, Verb
from tests.flower import mail

NEVER = float("inf")


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.n_sleeps = 0.0, 0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        self.n_sleeps += 1


class SimulatedWire:
    """Nodes that answer after ``delays`` seconds, with ``answers`` where those are named.

    A node whose address is in ``refusing`` takes no orders; one in ``gone`` is not seen.
    """

    def __init__(self, clock: Clock, addresses: Sequence[int]) -> None:
        self.clock = clock
        self.addresses = list(addresses)
        self.delays: dict[int, float] = {}
        self.answers: dict[int, Answer] = {}
        self.activated: dict[int, str] = {}
        self.refusing: set[int] = set()
        self.gone: set[int] = set()
        self.push_s = 0.0
        self.pushes: list[list[tuple[int, Order]]] = []
        self._due: dict[str, tuple[float, Answer]] = {}

    def nodes(self) -> list[Node]:
        return [
            Node(address=at, activated_at=self.activated.get(at, "once"))
            for at in reversed(self.addresses)
            if at not in self.gone
        ]

    def push(self, orders: Sequence[tuple[int, Order]]) -> list[tuple[str | None, int]]:
        self.clock.now += self.push_s
        self.pushes.append(list(orders))
        posted: list[tuple[str | None, int]] = []
        for number, (address, order) in enumerate(orders):
            ticket = None if address in self.refusing else f"{len(self.pushes)}/{number}"
            if ticket is not None:
                due = self.clock.now + self.delays.get(address, 0.0)
                self._due[ticket] = (due, self.answers.get(address, usual(order)))
            posted.append((ticket, 100))
        return posted

    def pull(self, asked: Mapping[str, tuple[int, Verb]]) -> dict[str, tuple[Answer, int]]:
        ready = [ticket for ticket in asked if ticket in self._due and self._due[ticket][0] <= self.clock.now]
        return {ticket: (self._due.pop(ticket)[1], 10) for ticket in reversed(ready)}  # in no useful order


def usual(order: Order) -> Answer:
    """Return what a client in good health answers."""
    if order.verb == "train":
        return mail.train_reply()
    if order.verb == "probe":
        return mail.probe_reply()
    return mail.describe_reply() if order.verb == "describe" else mail.evaluate_reply()


def exchange_with(n_nodes: int, *, deadline_s: float = 10.0) -> tuple[Exchange, SimulatedWire, Clock]:
    """Return an exchange with nodes 1, 2, ..., their wire and the clock."""
    clock = Clock()
    wire = SimulatedWire(clock, range(1, n_nodes + 1))
    patience = Patience(deadline_s=deadline_s, poll_s=0.5)
    return Exchange(wire, patience, clock=clock, sleep=clock.sleep), wire, clock


def train(address: int, group: int | None = 0, round_index: int = 0) -> Task:
    return Task(address=address, order=mail.train_order(round_index), group=group)


def describe(address: int, round_index: int = 0) -> Task:
    return Task(address=address, order=mail.describe_order(round_index))


def reasons(settled: Sequence[Settled]) -> list[str | None]:
    return [one.reason for one in settled]
