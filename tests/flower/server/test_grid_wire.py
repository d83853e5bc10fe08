"""Orders and answers through a grid that keeps Flower's habits, with Flower's own messages."""

import importlib.util
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from fielding.flower.server.exchange import Exchange, Patience, Task
from fielding.flower.server.grid_wire import GridWire
from fielding.flower.wire.messages import order_from, reply_records
from fielding.flower.wire.orders import (
    LONGEST_TEXT,
    Answer,
    DescribeReply,
    EvaluateReply,
    Refusal,
    TrainOrder,
    TrainReply,
    Verb,
)
from tests.flower import mail
from tests.flower.devices import WORK
from tests.flower.simulated_wire import Clock

if importlib.util.find_spec("flwr") is None:
    pytest.skip("flwr is not installed: it is in the extra 'flower'", allow_module_level=True)

import httpx
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo

LINK = 1
VERBS: dict[str, Verb] = {"train": "train", "query.describe": "describe", "evaluate": "evaluate"}


@pytest.fixture(autouse=True)
def _inside_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let messages be built as in a process that Flower started."""
    from flwr.supercore.task_identity import TaskIdentity

    for name, number in (("_run_id", 77), ("_node_id", LINK), ("_task_id", 3)):
        monkeypatch.setattr(TaskIdentity, name, number)


class FakeGrid:
    """What of Flower's grid a wire uses; ids are set by the push, and what is refused is left out or None.

    The replies of a pull are forgotten before they are unpacked; whoever asks for them again gets an error.
    """

    def __init__(self, *, leaves_out: bool = False) -> None:
        self.leaves_out = leaves_out
        self.infos: list[NodeInfo] = []
        self.refusing: set[int] = set()
        self.pushed: list[Message] = []
        self.replies: dict[str, Callable[[], Message]] = {}
        self.pulls: list[list[str]] = []
        self._forgotten: set[str] = set()

    def get_nodes(self) -> list[NodeInfo]:
        return self.infos

    def push_messages(self, messages: Iterable[Message]) -> list[str | None]:
        ids: list[str | None] = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"id-{len(self.pushed)}"
            self.pushed.append(message)
            if message.metadata.dst_node_id not in self.refusing:
                ids.append(message.metadata.message_id)
            elif not self.leaves_out:
                ids.append(None)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        self.pulls.append(list(message_ids))
        gone = [self._unavailable(one) for one in self.pulls[-1] if one in self._forgotten]
        delivered = {one: self.replies.pop(one) for one in self.pulls[-1] if one in self.replies}
        self._forgotten |= delivered.keys()
        return [*gone, *(unpack() for unpack in delivered.values())]

    def _unavailable(self, message_id: str) -> Message:
        (message,) = (one for one in self.pushed if one.metadata.message_id == message_id)
        return Message(Error(code=3, reason="message unavailable"), reply_to=message)

    def answer(self, content: RecordDict | Error, number: int = 0) -> None:
        """Have a message answered."""
        message = self.pushed[number]
        self.replies[message.metadata.message_id] = lambda: Message(content, reply_to=message)


def wire_on(grid: Any, ttl_s: float = 60.0) -> GridWire:
    return GridWire(grid, mail.EXPECTED, ttl_s=ttl_s)


def asked(grid: FakeGrid) -> dict[str, tuple[int, Verb]]:
    return {
        one.metadata.message_id: (one.metadata.dst_node_id, VERBS[one.metadata.message_type]) for one in grid.pushed
    }


def answer_to_training(content: RecordDict | Error) -> Answer:
    grid = FakeGrid()
    wire = wire_on(grid)
    wire.push([(5, mail.train_order())])
    grid.answer(content)
    ((answer, _),) = wire.pull(asked(grid)).values()
    return answer


def test_each_order_is_a_message_of_its_type_to_its_node() -> None:
    grid = FakeGrid()

    posted = wire_on(grid).push([(5, mail.train_order(3)), (6, mail.describe_order(3)), (7, mail.evaluate_order(3))])

    assert [
        (one.metadata.dst_node_id, one.metadata.message_type, one.metadata.group_id, one.metadata.ttl)
        for one in grid.pushed
    ] == [(5, "train", "3", 60.0), (6, "query.describe", "3", 60.0), (7, "evaluate", "3", 60.0)]
    assert [ticket for ticket, _ in posted] == ["id-0", "id-1", "id-2"]
    assert posted[0][1] > posted[1][1] > 0


def test_a_client_reads_what_was_pushed() -> None:
    grid = FakeGrid()

    wire_on(grid).push([(5, mail.train_order(3))])

    order = order_from(grid.pushed[0].content, "train")
    assert isinstance(order, TrainOrder)
    assert (order.round_index, order.work) == (3, WORK)


def test_a_model_for_many_nodes_is_one_object() -> None:
    grid, models = FakeGrid(), np.zeros((2, 6), dtype=np.float32)

    def order(row: int) -> TrainOrder:
        return mail.train_order(model=models[row])

    wire_on(grid).push([(at, order(at // 2)) for at in range(4)])

    assert len({id(one.content["arrays"]) for one in grid.pushed}) == 2


@pytest.mark.parametrize("leaves_out", [False, True], ids=["as over HTTP", "as in the simulation"])
def test_an_order_that_the_link_refuses_has_no_ticket(leaves_out: bool) -> None:
    grid = FakeGrid(leaves_out=leaves_out)
    grid.refusing = {5}

    posted = wire_on(grid).push([(5, mail.describe_order()), (6, mail.describe_order())])

    assert [ticket for ticket, _ in posted] == [None, "id-1"]


def test_nothing_is_pushed_or_pulled_for_nothing() -> None:
    grid = FakeGrid()

    assert (wire_on(grid).push([]), wire_on(grid).pull({})) == ([], {})
    assert (grid.pushed, grid.pulls) == ([], [])


def test_replies_are_known_by_what_they_answer() -> None:
    grid = FakeGrid()
    wire = wire_on(grid)
    wire.push([(5, mail.train_order()), (6, mail.describe_order()), (7, mail.evaluate_order())])
    for number, reply in ((2, mail.evaluate_reply()), (0, mail.train_reply()), (1, mail.describe_reply(4))):
        grid.answer(reply_records(reply), number)

    found = wire.pull(asked(grid))

    assert list(found) == ["id-0", "id-1", "id-2"]
    assert [type(answer) for answer, _ in found.values()] == [TrainReply, DescribeReply, EvaluateReply]
    assert all(n_bytes > 0 for _, n_bytes in found.values())
    assert grid.replies == {}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (0, "failed"),
        (1, "failed"),
        (2, "failed"),
        (3, "straggler"),
        (4, "straggler"),
        (5, "offline"),
        (8, "failed"),
        (99, "failed"),
    ],
)
def test_an_error_becomes_the_reason_why_an_answer_is_missing(code: int, reason: str) -> None:
    answer = answer_to_training(Error(code=code, reason="<class 'RuntimeError'>:\n" + "x" * 10_000))

    assert isinstance(answer, Refusal)
    assert answer.reason == reason
    assert answer.text.startswith(f"error {code}: <class 'RuntimeError'>: xxx")
    assert len(answer.text) == LONGEST_TEXT


def test_an_error_without_words_is_an_error_too() -> None:
    answer = answer_to_training(Error(code=2))

    assert isinstance(answer, Refusal)
    assert answer.text == "error 2: no reason given"


@pytest.mark.parametrize(
    "content", [RecordDict(), RecordDict({"arrays": ArrayRecord()}), RecordDict({"about": ConfigRecord({"a": []})})]
)
def test_nonsense_is_refused(content: RecordDict) -> None:
    answer = answer_to_training(content)

    assert isinstance(answer, Refusal)
    assert answer.reason == "failed"


def test_the_link_may_speak_for_a_node_but_no_node_for_another() -> None:
    grid = FakeGrid()
    wire = wire_on(grid)
    wire.push([(5, mail.describe_order()), (6, mail.describe_order())])
    forged = Message(reply_records(mail.describe_reply()), reply_to=grid.pushed[0])
    forged.metadata.__dict__["_src_node_id"] = 6
    gone = Message(Error(code=5), reply_to=grid.pushed[1])
    gone.metadata.__dict__["_src_node_id"] = LINK
    grid.replies = {"id-0": lambda: forged, "id-1": lambda: gone}

    (first, _), (second, _) = wire.pull(asked(grid)).values()

    assert isinstance(first, Refusal)
    assert isinstance(second, Refusal)
    assert (first.reason, second.reason) == ("failed", "offline")


def torn() -> Message:
    raise ValueError("Unexpected set of `children`.")


def test_a_reply_that_cannot_be_unpacked_makes_stragglers_of_the_others_of_its_pull() -> None:
    grid = FakeGrid()
    wire = wire_on(grid)
    wire.push([(5, mail.describe_order()), (6, mail.describe_order()), (7, mail.describe_order())])
    grid.replies["id-0"] = torn
    grid.answer(reply_records(mail.describe_reply()), 1)
    found = wire.pull(asked(grid))

    assert [(ticket, answer.reason) for ticket, (answer, _) in found.items() if isinstance(answer, Refusal)] == [
        ("id-0", "straggler"),
        ("id-1", "straggler"),
    ]
    assert len(found) == 2  # the third still works, and owes its answer


def test_after_one_such_reply_the_next_takes_no_others_with_it() -> None:
    grid = FakeGrid()
    wire = wire_on(grid)
    wire.push([(5, mail.describe_order())])
    grid.replies["id-0"] = torn
    wire.pull(asked(grid))
    wire.push([(5, mail.describe_order()), (6, mail.describe_order())])
    grid.replies["id-1"] = torn
    grid.answer(reply_records(mail.describe_reply()), 2)
    tickets = asked(grid)
    del tickets["id-0"]
    (first, _), (second, _) = wire.pull(tickets).values()

    assert isinstance(first, Refusal)
    assert first.text == "the reply cannot be unpacked: Unexpected set of `children`."
    assert isinstance(second, DescribeReply)


def test_replies_that_can_be_unpacked_are_pulled_together() -> None:
    grid = FakeGrid()
    wire = wire_on(grid)
    wire.push([(5, mail.describe_order()), (6, mail.describe_order())])
    wire.pull(asked(grid))
    wire.pull(asked(grid))

    assert grid.pulls == [["id-0", "id-1"], ["id-0", "id-1"]]


@pytest.mark.parametrize("error", [httpx.ConnectError("no link"), ConnectionError("no link")])
def test_a_link_that_cannot_be_reached_is_not_blamed_on_clients(error: Exception) -> None:
    grid = FakeGrid()
    wire = wire_on(grid)
    wire.push([(5, mail.describe_order())])

    def unreachable() -> Message:
        raise error

    grid.replies["id-0"] = unreachable

    with pytest.raises(type(error)):
        wire.pull(asked(grid))


def test_replies_to_messages_of_others_are_passed_over() -> None:
    grid = FakeGrid()
    wire = wire_on(grid)
    wire.push([(5, mail.describe_order()), (6, mail.describe_order())])
    stray = Message(reply_records(mail.describe_reply()), reply_to=grid.pushed[1])
    grid.replies["id-0"] = lambda: stray

    assert wire.pull({"id-0": (5, "describe")}) == {}


def test_nodes_come_by_address_with_who_they_are() -> None:
    grid = FakeGrid()
    grid.infos = [
        NodeInfo(node_id=9, public_key=b"k9", last_activated_at="t9", heartbeat_interval=30.0, name="nine\n"),
        NodeInfo(node_id=2, public_key=b"k2", last_activated_at="t2", heartbeat_interval=1e300),
    ]

    first, second = wire_on(grid).nodes()

    assert (first.address, first.public_key, first.activated_at, first.heartbeat_s) == (2, b"k2", "t2", 1e300)
    assert (second.address, second.name) == (9, "nine")


def test_an_exchange_runs_over_a_grid() -> None:
    clock, grid = Clock(), FakeGrid()
    grid.infos = [NodeInfo(node_id=at, last_activated_at="t") for at in (5, 6, 7)]

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if clock.n_sleeps == 1:
            grid.answer(reply_records(mail.train_reply()), 0)
        if clock.n_sleeps == 2:
            grid.answer(Error(code=2, reason="boom"), 1)

    patience = Patience(deadline_s=1.0, poll_s=0.25)
    exchange = Exchange(wire_on(grid, patience.owed_s), patience, clock=clock, sleep=sleep)
    tasks = [
        Task(address=5, order=mail.train_order(), group=0),
        Task(address=6, order=mail.train_order(), group=0),
        Task(address=7, order=mail.describe_order()),
    ]

    settled, duration_s = exchange.send(tasks, {0: 2})

    assert [one.reason for one in settled] == [None, "failed", "straggler"]
    assert (len(grid.pushed), exchange.owing(), duration_s) == (3, frozenset({7}), 1.0)
    grid.answer(reply_records(mail.describe_reply()), 2)
    assert len(exchange.gather(3, within_s=5.0)) == 3
    assert [type(one.answer) for one in exchange.take_late()] == [DescribeReply]
