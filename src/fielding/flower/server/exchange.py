"""One exchange with many clients: orders go out, answers come until there are enough or the time is over."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Protocol

import numpy as np

from fielding.client.privacy.sums import GRID
from fielding.errors import InputError, OptionError, echo
from fielding.federation.clients import Reason
from fielding.flower.wire.orders import (
    OF_CENTERS,
    Answer,
    DescribeReply,
    Order,
    ProbeOrder,
    ProbeReply,
    Refusal,
    TrainOrder,
    TrainReply,
    Verb,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node that can be reached.

    Parameters
    ----------
    address
        Where to send messages; it does not identify a client.
    public_key
        Identifies the client in a deployment; random bytes in Flower's simulation.
    activated_at
        When it came, as text; another text means that it went and came back, and that what it worked on is lost.
    heartbeat_s
        Seconds between its signs of life; for ever in Flower's simulation.
    name
        What its owner calls it; may be empty.
    """

    address: int
    public_key: bytes = b""
    activated_at: str = ""
    heartbeat_s: float = 30.0
    name: str = ""


class Wire(Protocol):
    """What an exchange needs of a network; no call may wait for clients."""

    def nodes(self) -> Sequence[Node]:
        """Return the nodes that can be reached now, in any order."""
        ...

    def push(self, orders: Sequence[tuple[int, Order]]) -> Sequence[tuple[str | None, int]]:
        """Send orders to addresses all at once; return the ticket and the bytes of each, in their order.

        Its answer is asked for by the ticket; None: the order was not taken.
        """
        ...

    def pull(self, asked: Mapping[str, tuple[int, Verb]]) -> Mapping[str, tuple[Answer, int]]:
        """Return the answers that have come and their bytes, by ticket; each is returned once.

        ``asked`` holds address and verb of each order. A bad answer is a refusal, no error.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """An order for the node at an address.

    ``group`` says which answers it competes with: once its group has enough, its answer is no longer waited for. None:
    it competes with none. ``is_awaited``: whether its answer is waited for at all; if not, it counts when it comes.
    """

    address: int
    order: Order
    group: int | None = None
    is_awaited: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settled:
    """What became of a task.

    Parameters
    ----------
    reason
        Why there is no answer that counts; None: there is one.
    answer
        What came, if something did. With a reason it may still bring a report.
    text
        The reason in words; may be those of a client.
    seconds
        From the start of the push until the answer, or until the wait for it ended.
    bytes_down, bytes_up
        Sizes of the order and of the answer.
    """

    reason: Reason | None
    answer: Answer | None = None
    text: str = ""
    seconds: float = 0.0
    bytes_down: int = 0
    bytes_up: int = 0


class Board:
    """Keeps track of the tasks of one exchange.

    Parameters
    ----------
    tasks
        The orders, and where they go.
    wanted
        How many good answers are enough, by group; all, for a group that is not named.
    owing
        Addresses that get nothing, since they owe an answer.
    slow
        Addresses that are asked, but not waited for.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        wanted: Mapping[int, int],
        *,
        owing: Collection[int],
        slow: Collection[int] = (),
    ) -> None:
        self.tasks, self._wanted, self._slow = tuple(tasks), wanted, frozenset(slow)
        self.pending: dict[str, int] = {}
        self.bytes_down = [0] * len(self.tasks)
        self._settled: dict[int, Settled] = {}
        self._good: Counter[int] = Counter()
        for at, task in enumerate(self.tasks):
            if task.address in owing:
                self._settled[at] = Settled(reason="straggler", text="it still owes an earlier answer")
        self.to_send = [at for at in range(len(self.tasks)) if at not in self._settled]

    def post(self, at: int, ticket: str | None, n_bytes: int) -> None:
        """Take note that a task was sent, or not taken."""
        if ticket is None:
            self._settled[at] = Settled(reason="offline", text="the order was not taken")
        else:
            self.pending[ticket], self.bytes_down[at] = at, n_bytes

    def unanswered_orders(self) -> dict[str, tuple[int, Verb]]:
        """Return address and verb of the orders without an answer, by ticket, in the order of tasks."""
        return {ticket: (self.tasks[at].address, self.tasks[at].order.verb) for ticket, at in self.pending.items()}

    def is_done(self) -> bool:
        """Return whether no answer is worth waiting for."""
        tasks = [self.tasks[at] for at in self.pending.values()]
        return all(not task.is_awaited or task.address in self._slow or self._has_enough(task.group) for task in tasks)

    def is_awaited(self, ticket: str) -> bool:
        """Return whether the answer to an order is waited for."""
        return self.tasks[self.pending[ticket]].is_awaited

    def settle(self, ticket: str, answer: Answer, *, n_bytes: int, seconds: float) -> None:
        """Take note of an answer."""
        at = self.pending.pop(ticket)
        task = self.tasks[at]
        answer = _check_answer(task.order, answer)
        reason: Reason | None = None
        text = ""
        if isinstance(answer, Refusal):
            reason, text = answer.reason, answer.text
        elif isinstance(task.order, TrainOrder) and isinstance(answer, DescribeReply):
            reason, text = "refused", "it has no data to train on"
        elif self._has_enough(task.group):
            reason, text = "straggler", "its group had enough answers"
        elif task.group is not None:
            self._good[task.group] += 1
        self._settled[at] = Settled(
            reason=reason,
            answer=answer,
            text=text,
            seconds=seconds,
            bytes_down=self.bytes_down[at],
            bytes_up=n_bytes,
        )

    def give_up(self, ticket: str, reason: Reason, seconds: float) -> None:
        """Take note that an answer is no longer waited for."""
        at = self.pending.pop(ticket)
        text = "no answer in time" if reason == "straggler" else "the node is gone"
        self._settled[at] = Settled(reason=reason, text=text, seconds=seconds, bytes_down=self.bytes_down[at])

    def results(self) -> tuple[Settled, ...]:
        """Return what became of each task, in their order."""
        return tuple(self._settled[at] for at in range(len(self.tasks)))

    def _has_enough(self, group: int | None) -> bool:
        return group is not None and group in self._wanted and self._good[group] >= self._wanted[group]


def _check_answer(order: Order, answer: Answer) -> Answer:
    """Return an answer as it counts: with a whole model, or a refusal if it is not what the order asked for."""
    if isinstance(order, ProbeOrder) and isinstance(answer, ProbeReply):
        wanted, got = (len(order.blocks), order.n_answers), answer.values.shape
        if got != wanted:
            return Refusal(reason="failed", text=f"answers have shape {got} instead of {wanted}")
        if order.wanted in OF_CENTERS and not _is_within(order, answer):
            return Refusal(reason="failed", text="more is added to a sum than one client may, or no such cluster is")
        if order.wanted == "accuracies" and (answer.values[answer.sizes > 0] > 1.0).any():
            return Refusal(reason="failed", text="a share of right answers is above 1")
    if isinstance(order, TrainOrder) and isinstance(answer, TrainReply):
        try:
            return _complete_model(order, answer)
        except InputError as error:
            return Refusal(reason="failed", text=str(error), report=answer.report)
    return answer


def _is_within(order: ProbeOrder, answer: ProbeReply) -> bool:
    """Return whether an answer about centers is one that a client can give: none moves a sum farther."""
    values = answer.values[0]
    if not (np.isfinite(values).all() and (values == np.floor(values)).all()):
        return False
    most = {"cluster": len(order.models) - 1, "silhouettes": isqrt(GRID**2 // max(1, len(order.sets)))}
    if order.wanted == "step":
        return bool(np.square(values).sum() <= GRID**2 / 2)
    return bool((values <= most[order.wanted]).all())


def _complete_model(order: TrainOrder, reply: TrainReply) -> TrainReply:
    """Return a reply whose model has all its numbers, or raise if something is missing."""
    plan, updates = order.plan, reply.updates
    if plan.with_start_loss and updates.start_loss is None:
        raise InputError("the loss before training is missing")
    n_models, start = plan.models.shape[0], int(updates.start[0])
    if (start < 0) != (n_models == 1) or start >= n_models:
        trained = start if start >= 0 else None
        raise InputError(f"{n_models} models were offered, and number {trained} is said to be trained")
    updates = replace(updates, start=np.array([max(start, 0)]))
    if reply.is_part != (order.share is not None):
        raise InputError("a part of a model came, but the whole was wanted, or the other way round")
    if order.share is not None:
        model, part = plan.models[updates.start[0]].copy(), updates.models[0]
        is_sent = order.sent_numbers()
        if part.size != int(np.count_nonzero(is_sent)):
            raise InputError(f"a part of a model has {part.size} numbers; the order wanted {np.count_nonzero(is_sent)}")
        model[is_sent] = part
        updates = replace(updates, models=model[np.newaxis])
    return replace(reply, updates=updates, is_part=False)


LATER_S = 0.1
"""Seconds after which many orders that are not awaited follow those that are, so that training does not queue behind
them: SuperLinks store messages one by one, and in Flower's simulation all nodes share the cores."""
NODE_POLL_S = 0.5  # seconds between two looks at which nodes are there, while the server waits for them
SLACKENING, MOST_POLL_S = 0.1, 1.0
"""While no answer comes, the server asks again after such a share of the time that it has waited since the last one,
and at the latest after so many seconds: an answer is found with a tenth of its own delay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long the server waits.

    Parameters
    ----------
    deadline_s
        For answers, in seconds from the end of the push.
    poll_s
        Seconds between two questions for them at least; the longer nothing came, the rarer they are.
    forget_s
        How long a node that did not answer gets nothing else to do; then it is tried again. Default: ten deadlines.
    """

    deadline_s: float
    poll_s: float = 0.05
    forget_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("deadline_s", "poll_s", "forget_s"):
            got = getattr(self, name)
            if got is not None and not 0 < got < float("inf"):
                raise OptionError(f"{name} is {echo(got)}; give seconds above 0")

    @property
    def owed_s(self) -> float:
        """How long an answer is owed, seconds; messages have to live as long."""
        return 10 * self.deadline_s if self.forget_s is None else self.forget_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Late:
    """An answer that came after its exchange: no model of it counts, but its report does."""

    address: int
    verb: Verb
    answer: Answer
    bytes_up: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Debt:
    """An answer that a node owes: since when, until when it is in time, and when that node had come.

    One that was never waited for keeps a node from no other order: messages queue, and it is done with this one soon.
    """

    address: int
    verb: Verb
    activated_at: str | None
    since: float
    due: float
    is_awaited: bool


class Exchange:
    """Asks many clients at once, and remembers which nodes owe an answer: these get nothing until they are free.

    A node that missed a deadline is asked again when it is free, but is not waited for until it has been in time once,
    so that a slow node costs one deadline. Only where all nodes that can be reached are slow, they are waited for.
    ``clock`` and ``sleep`` tell the time, in seconds from anywhere, and let it pass.
    """

    def __init__(
        self,
        wire: Wire,
        patience: Patience,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._wire, self.patience = wire, patience
        self._clock, self._sleep = clock, sleep
        self._debts: dict[str, _Debt] = {}
        self._slow: set[int] = set()
        self._activated: dict[int, str] = {}
        self._late: list[Late] = []

    def pause(self, seconds: float) -> None:
        """Let some time pass."""
        self._sleep(seconds)

    def owing(self) -> frozenset[int]:
        """Return the addresses that owe an answer which was waited for."""
        return frozenset(debt.address for debt in self._debts.values() if debt.is_awaited)

    def answering(self) -> dict[int, bool]:
        """Return the addresses with an answer to come that is not waited for, and whether it may still be in time."""
        now = self._clock()
        return {debt.address: now <= debt.due for debt in self._debts.values() if not debt.is_awaited}

    def take_late(self) -> tuple[Late, ...]:
        """Return the answers that came late since this was asked last."""
        late, self._late = tuple(self._late), []
        return late

    def look(self) -> tuple[Node, ...]:
        """Return the nodes that can be reached now, by address; one that came back owes nothing: its work is lost."""
        nodes = tuple(sorted(self._wire.nodes(), key=lambda node: node.address))
        self._activated = {node.address: node.activated_at for node in nodes}
        now = self._clock()
        for ticket, debt in list(self._debts.items()):
            seen = self._activated.get(debt.address)
            came_back = None not in (seen, debt.activated_at) and seen != debt.activated_at
            if came_back or now - debt.since > self.patience.owed_s:
                del self._debts[ticket]
        return nodes

    def gather(
        self, n_nodes: int, *, within_s: float, of: Callable[[Node], bool] = lambda _node: True
    ) -> tuple[Node, ...]:
        """Wait until so many nodes can be reached and owe nothing, and return all those; fewer when time is over.

        ``of`` says which nodes count.

        Late answers are taken in meanwhile, so that it ends when all nodes owe one and one of them answers.
        """
        end = self._clock() + within_s
        while True:
            self._pull(None)
            nodes = self.look()  # before asking for debts: a node that came back has none
            owing = self.owing()
            free = tuple(node for node in nodes if node.address not in owing and of(node))
            left = end - self._clock()
            if len(free) >= n_nodes or left <= 0:
                return free
            self._sleep(min(NODE_POLL_S, left))

    def forgive(self) -> None:
        """Let nodes be asked again whose answers were due a deadline ago: these may be lost, but count if they come."""
        since = self._clock() - self.patience.deadline_s
        for ticket, debt in self._debts.items():
            if debt.due <= since:
                self._debts[ticket] = replace(debt, is_awaited=False)

    def send(self, tasks: Sequence[Task], wanted: Mapping[int, int] | None = None) -> tuple[tuple[Settled, ...], float]:
        """Push all orders at once, and wait for answers; orders that nobody waits for follow if they are the more.

        Parameters
        ----------
        tasks
            The orders. A node that owes an answer is not asked, and counts as a straggler.
        wanted
            How many good answers are enough, by group; all, for a group that is not named.

        Returns
        -------
        What became of each task, in their order, and how many seconds it took. It ends when every group has enough and
        every task without a group is settled, those of slow nodes and those that are not awaited left aside, and at the
        deadline at the latest; nodes that have not answered by then owe an answer. Of answers found at the same moment
        those of earlier tasks count first.
        """
        started = self._clock()
        there = self._activated.keys() | {task.address for task in tasks}
        slow = self._slow if there - self._slow else ()  # if all are slow they are waited for, or nothing would come
        board = Board(tasks, dict(wanted or {}), owing=self.owing(), slow=slow)
        if any(board.tasks[at].address not in self._activated for at in board.to_send):
            self.look()
        first, others = board.to_send, list[int]()
        awaited = [at for at in first if board.tasks[at].is_awaited]
        if 0 < len(awaited) < len(first) - len(awaited):
            first, others = awaited, [at for at in first if not board.tasks[at].is_awaited]
        self._push(board, first)
        pushed_at = came_at = self._clock()  # the last answer
        end = came_at + self.patience.deadline_s
        while True:
            has_come, now = self._pull(board, started), self._clock()
            is_over = board.is_done() or now >= end
            if others and (is_over or now - pushed_at >= LATER_S):
                self._push(board, others)
                others = []
                continue  # what they answer at once counts
            if is_over:
                break
            came_at = now if has_come else came_at
            pause = max(self.patience.poll_s, min(MOST_POLL_S, SLACKENING * (now - came_at)))
            self._sleep(min(pause, end - now))
        if board.pending:
            self._give_up(board, started, end)
        return board.results(), self._clock() - started

    def _push(self, board: Board, which: Sequence[int]) -> None:
        """Push some tasks at once."""
        if which:
            orders = [(board.tasks[at].address, board.tasks[at].order) for at in which]
            for at, (ticket, n_bytes) in zip(which, self._wire.push(orders), strict=True):
                board.post(at, ticket, n_bytes)

    def _pull(self, board: Board | None, started: float = 0.0) -> bool:
        """Take in what has come: answers of this exchange, and late ones of earlier ones; return whether any did."""
        asked = {ticket: (debt.address, debt.verb) for ticket, debt in self._debts.items()}
        if board is not None:
            asked |= board.unanswered_orders()
        if not asked:
            return False
        found = self._wire.pull(asked)
        for ticket in [ticket for ticket in asked if ticket in found]:  # in the order of tasks
            (address, verb), (answer, n_bytes) = asked[ticket], found[ticket]
            if (debt := self._debts.pop(ticket, None)) is not None:
                # Its exchange may have ended before the deadline.
                is_in_time = self._clock() <= debt.due
                if is_in_time or debt.is_awaited:
                    self._judge(address, answer, is_in_time=is_in_time)
                self._late.append(Late(address=address, verb=verb, answer=answer, bytes_up=n_bytes))
            elif board is not None:
                self._judge(address, answer, is_in_time=True)
                board.settle(ticket, answer, n_bytes=n_bytes, seconds=self._clock() - started)
        return bool(found)

    def _judge(self, address: int, answer: Answer, *, is_in_time: bool) -> None:
        """Take note of slow nodes; what Flower says in place of a node shows nothing of its speed."""
        if not is_in_time:
            self._slow.add(address)
        elif not (isinstance(answer, Refusal) and answer.reason in ("straggler", "offline")):
            self._slow.discard(address)

    def _give_up(self, board: Board, started: float, end: float) -> None:
        """Write down which nodes owe an answer, and why it is missing: the node is gone, or slow."""
        now = self._clock()
        awaited = {ticket for ticket in board.pending if board.is_awaited(ticket)}
        for ticket, (address, verb) in board.unanswered_orders().items():
            self._debts[ticket] = _Debt(
                address=address,
                verb=verb,
                activated_at=self._activated.get(address),
                since=now,
                due=end,
                is_awaited=ticket in awaited,
            )
            if now >= end and ticket in awaited:
                self._slow.add(address)
        there = {node.address for node in self.look()} if awaited else set()
        for ticket, (address, _) in board.unanswered_orders().items():
            is_there = address in there and ticket in self._debts
            reason: Reason = "straggler" if is_there or ticket not in awaited else "offline"
            board.give_up(ticket, reason, now - started)
