"""The tasks of one exchange: which are sent, which are settled, and whether there are enough answers."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from fielding.errors import InputError
from fielding.federation.clients import Reason
from fielding.flower.orders import Order, ProbeOrder, TrainOrder
from fielding.flower.partial_uploads import whole_model
from fielding.flower.replies import Answer, DescribeReply, ProbeReply, Refusal, TrainReply
from fielding.flower.wire import Asked, Received


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """An order for a node.

    Parameters
    ----------
    address
        Where it goes.
    order
        What it says.
    group
        Which answers it competes with: once its group has enough, nobody waits for it. None: it competes with none.
    """

    address: int
    order: Order
    group: int | None = None


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
        From the start of the push until the answer, or until nobody waited any more.
    bytes_down, bytes_up
        What the order and the answer weigh.
    """

    reason: Reason | None
    answer: Answer | None = None
    text: str = ""
    seconds: float = 0.0
    bytes_down: int = 0
    bytes_up: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What became of all tasks of an exchange, in their order, and how many seconds it took."""

    settled: tuple[Settled, ...]
    duration_s: float


class Board:
    """Keeps track of the tasks of one exchange.

    Parameters
    ----------
    tasks
        Who is asked what.
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

    def asked(self) -> dict[str, Asked]:
        """Return whose answers are awaited, by ticket, in the order of tasks."""
        return {
            ticket: Asked(address=self.tasks[at].address, verb=self.tasks[at].order.verb)
            for ticket, at in self.pending.items()
        }

    def is_done(self) -> bool:
        """Return whether nobody needs to be waited for."""
        tasks = [self.tasks[at] for at in self.pending.values()]
        return all(task.address in self._slow or self._has_enough(task.group) for task in tasks)

    def settle(self, received: Received, seconds: float) -> None:
        """Take note of an answer."""
        at = self.pending.pop(received.ticket)
        task = self.tasks[at]
        answer = _checked(task.order, received.answer)
        reason, text = _verdict(task.order, answer)
        if reason is None and self._has_enough(task.group):
            reason, text = "straggler", "its group had enough answers"
        if reason is None and task.group is not None:
            self._good[task.group] += 1
        self._settled[at] = Settled(
            reason=reason,
            answer=answer,
            text=text,
            seconds=seconds,
            bytes_down=self.bytes_down[at],
            bytes_up=received.n_bytes,
        )

    def give_up(self, ticket: str, reason: Reason, seconds: float) -> None:
        """Take note that nobody waits for an answer any more."""
        at = self.pending.pop(ticket)
        text = "no answer in time" if reason == "straggler" else "the node is gone"
        self._settled[at] = Settled(reason=reason, text=text, seconds=seconds, bytes_down=self.bytes_down[at])

    def results(self) -> tuple[Settled, ...]:
        """Return what became of each task, in their order."""
        return tuple(self._settled[at] for at in range(len(self.tasks)))

    def _has_enough(self, group: int | None) -> bool:
        return group is not None and group in self._wanted and self._good[group] >= self._wanted[group]


def _checked(order: Order, answer: Answer) -> Answer:
    """Return an answer as it counts: whole, or refused if it is not what the order asked for beyond the usual."""
    if isinstance(order, ProbeOrder) and isinstance(answer, ProbeReply):
        return _checked_probe(order, answer)
    if not (isinstance(order, TrainOrder) and isinstance(answer, TrainReply)):
        return answer
    try:
        return _checked_training(order, answer)
    except InputError as error:
        return Refusal(reason="failed", text=str(error), report=answer.report)


def _checked_training(order: TrainOrder, reply: TrainReply) -> TrainReply:
    """Return a trained model with all its numbers, or raise if something is missing."""
    if order.with_start_loss and reply.start_loss is None:
        raise InputError("the loss before training is missing")
    models = (order.model, *order.others)
    if (reply.start is None) != (len(models) == 1) or (reply.start or 0) >= len(models):
        raise InputError(f"{len(models)} models were offered, and number {reply.start} is said to be trained")
    if reply.is_part != (order.share is not None):
        raise InputError("a part of a model came, but the whole was wanted, or the other way round")
    if not reply.is_part:
        return reply
    return replace(reply, model=whole_model(order, reply.model, models[reply.start or 0]), is_part=False)


def _checked_probe(order: ProbeOrder, reply: ProbeReply) -> Answer:
    """Return answers, refused if they are not those to the questions."""
    wanted, got = (len(order.blocks), order.n_answers), reply.values.shape
    if got != wanted:
        return Refusal(reason="failed", text=f"answers have shape {got} instead of {wanted}")
    if order.wanted == "accuracies" and (reply.values[reply.sizes > 0] > 1.0).any():
        return Refusal(reason="failed", text="a share of right answers is above 1")
    return reply


def _verdict(order: Order, answer: Answer) -> tuple[Reason | None, str]:
    """Return why an answer does not count, in a word and in words; None if it does."""
    if isinstance(answer, Refusal):
        return answer.reason, answer.text
    if isinstance(order, TrainOrder) and isinstance(answer, DescribeReply):
        return "refused", "it has no data to train on"
    return None, ""
