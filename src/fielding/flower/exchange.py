"""One exchange with many clients: a single push, answers until there are enough or the time is over."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fielding.errors import OptionError, echo
from fielding.flower.orders import Verb
from fielding.flower.replies import Answer, Refusal
from fielding.flower.tasks import Board, Outcome, Task
from fielding.flower.wire import Asked, Node, Received, Wire

NODE_POLL_S = 0.5
"""Seconds between two looks at who is there, while somebody waits for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long the server waits.

    Parameters
    ----------
    deadline_s
        For answers, in seconds from the end of the push.
    poll_s
        Seconds between two questions for them.
    forget_s
        How long a node that did not answer gets nothing else to do; then it is tried again. Default: ten deadlines.
    """

    deadline_s: float
    poll_s: float = 0.1
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
    round_index: int
    answer: Answer
    bytes_up: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What went over the wire since the start: exchanges (pushes), orders, answers, late ones among them, bytes."""

    n_exchanges: int = 0
    n_orders: int = 0
    n_answers: int = 0
    n_late: int = 0
    n_pulls: int = 0
    bytes_down: int = 0
    bytes_up: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Debt:
    """An answer that is owed: by whom, since when, until when it is in time, and when that node had come."""

    asked: Asked
    round_index: int
    activated_at: str | None
    since: float
    due: float


class Exchange:
    """Asks many clients at once, and remembers who still owes an answer: such nodes get nothing until they are free.

    Whoever missed a deadline is asked again when it is free, but nobody waits for it until it has been in time once, so
    that a slow node costs one deadline. Only where all nodes that can be reached are slow, they are waited for.

    Parameters
    ----------
    wire
        The way to nodes.
    patience
        How long to wait.
    clock, sleep
        What the time is, in seconds from anywhere, and how to let it pass.
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
        self._counts = dict.fromkeys(Traffic.__dataclass_fields__, 0)

    @property
    def traffic(self) -> Traffic:
        """What went over the wire since the start."""
        return Traffic(**self._counts)

    def owing(self) -> frozenset[int]:
        """Return the addresses that owe an answer."""
        return frozenset(debt.asked.address for debt in self._debts.values())

    def take_late(self) -> tuple[Late, ...]:
        """Return the answers that came late since this was asked last."""
        late, self._late = tuple(self._late), []
        return late

    def look(self) -> tuple[Node, ...]:
        """Return who can be reached now, by address; a node that came back owes nothing, what it worked on is lost."""
        nodes = tuple(sorted(self._wire.nodes(), key=lambda node: node.address))
        self._activated = {node.address: node.activated_at for node in nodes}
        now = self._clock()
        for ticket, debt in list(self._debts.items()):
            seen = self._activated.get(debt.asked.address)
            came_back = None not in (seen, debt.activated_at) and seen != debt.activated_at
            if came_back or now - debt.since > self.patience.owed_s:
                del self._debts[ticket]
        return nodes

    def gather(self, n_nodes: int, *, within_s: float) -> tuple[Node, ...]:
        """Wait until so many nodes can be reached and owe nothing, and return all those; fewer when time is over.

        Late answers are taken in meanwhile, so that it ends when all nodes owe one and one of them answers.
        """
        end = self._clock() + within_s
        while True:
            self._pull(None)
            nodes = self.look()  # before asking who owes: whoever came back no longer does
            owing = self.owing()
            free = tuple(node for node in nodes if node.address not in owing)
            left = end - self._clock()
            if len(free) >= n_nodes or left <= 0:
                return free
            self._sleep(min(NODE_POLL_S, left))

    def send(self, tasks: Sequence[Task], wanted: Mapping[int, int] | None = None) -> Outcome:
        """Push all orders at once, and wait for answers.

        Parameters
        ----------
        tasks
            Who is asked what. A node that owes an answer is not asked, and counts as a straggler.
        wanted
            How many good answers are enough, by group; all, for a group that is not named.

        Returns
        -------
        What became of each task. It ends when every group has enough and every task without a group is settled, those
        of slow nodes left aside, and at the deadline at the latest; whoever has not answered by then owes an answer. Of
        answers found at the same moment those of earlier tasks count first.
        """
        started = self._clock()
        board = Board(tasks, dict(wanted or {}), owing=self.owing(), slow=self._unawaited(tasks))
        self._push(board)
        end = self._clock() + self.patience.deadline_s
        while True:
            self._pull(board, started)
            left = end - self._clock()
            if board.is_done() or left <= 0:
                break
            self._sleep(min(self.patience.poll_s, left))
        self._close(board, started, end)
        return Outcome(settled=board.results(), duration_s=self._clock() - started)

    def _unawaited(self, tasks: Sequence[Task]) -> frozenset[int]:
        """Return who is not waited for: slow nodes, unless no other can be reached, or nothing would ever come."""
        there = self._activated.keys() | {task.address for task in tasks}
        return frozenset(self._slow) if there - self._slow else frozenset()

    def _push(self, board: Board) -> None:
        """Send what may be sent, in one push; none if there is nothing to send."""
        if not board.to_send:
            return
        if any(board.tasks[at].address not in self._activated for at in board.to_send):
            self.look()
        orders = [(board.tasks[at].address, board.tasks[at].order) for at in board.to_send]
        for at, posted in zip(board.to_send, self._wire.push(orders), strict=True):
            board.post(at, posted.ticket, posted.n_bytes if posted.ticket is not None else 0)
        self._counts["n_exchanges"] += 1
        self._counts["n_orders"] += len(board.pending)
        self._counts["bytes_down"] += sum(board.bytes_down)

    def _pull(self, board: Board | None, started: float = 0.0) -> None:
        """Take in what has come: answers of this exchange, and late ones of earlier ones."""
        asked = {ticket: debt.asked for ticket, debt in self._debts.items()}
        if board is not None:
            asked |= board.asked()
        if not asked:
            return
        self._counts["n_pulls"] += 1
        found = {received.ticket: received for received in self._wire.pull(asked)}
        for ticket in [ticket for ticket in asked if ticket in found]:  # in the order of tasks
            received = found[ticket]
            self._counts["n_answers"] += 1
            self._counts["bytes_up"] += received.n_bytes
            if ticket in self._debts:
                self._take_late(received, self._debts.pop(ticket))
            elif board is not None:
                self._judge(asked[ticket].address, received.answer, is_in_time=True)
                board.settle(received, self._clock() - started)

    def _take_late(self, received: Received, debt: _Debt) -> None:
        is_in_time = self._clock() <= debt.due  # its exchange may have ended before the deadline
        self._judge(debt.asked.address, received.answer, is_in_time=is_in_time)
        self._counts["n_late"] += 1
        self._late.append(
            Late(
                address=debt.asked.address,
                verb=debt.asked.verb,
                round_index=debt.round_index,
                answer=received.answer,
                bytes_up=received.n_bytes,
            )
        )

    def _judge(self, address: int, answer: Answer, *, is_in_time: bool) -> None:
        """Take note of who is slow; what Flower says in place of a node shows nothing of its speed."""
        if not is_in_time:
            self._slow.add(address)
        elif not (isinstance(answer, Refusal) and answer.reason in ("straggler", "offline")):
            self._slow.discard(address)

    def _close(self, board: Board, started: float, end: float) -> None:
        """Write down who owes an answer, and why it is missing: the node is gone, or slow."""
        if not board.pending:
            return
        now = self._clock()
        for ticket, asked in board.asked().items():
            order = board.tasks[board.pending[ticket]].order
            activated_at = self._activated.get(asked.address)
            self._debts[ticket] = _Debt(
                asked=asked, round_index=order.round_index, activated_at=activated_at, since=now, due=end
            )
            if now >= end:
                self._slow.add(asked.address)
        there = {node.address for node in self.look()}
        for ticket, asked in board.asked().items():
            is_there = asked.address in there and ticket in self._debts
            board.give_up(ticket, "straggler" if is_there else "offline", now - started)
