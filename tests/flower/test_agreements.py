"""Old and new releases of Fielding in one federation."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fielding._extras import EXTRAS
from fielding._typing import Json
from fielding.client.drift import AnyChange
from fielding.client.report_rule import label_report_rule
from fielding.flower.wire.messages import AGREEMENTS, PROTOCOL, order_from, order_records, reply_from, reply_records
from fielding.flower.wire.orders import Answer, DescribeReply, Expected, Order, Refusal, Reply, Verb
from tests.flower import mail
from tests.flower.same_runs import assert_same_runs
from tests.flower.spoiling import put
from tests.simulation.run_cases import table

pytest.importorskip("flwr", reason="the flower extra is not installed")

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo

from fielding.flower.device.client_app import client_app
from fielding.flower.device.device import Device
from fielding.flower.server.deployment import Deployment, run_deployment
from fielding.flower.server.exchange import Patience
from fielding.flower.server.grid_wire import GridWire
from tests.flower.agreement_3 import RECORDED, answer_as_before, recorded, written
from tests.flower.device_wire import Deployed, deployed_config, deployment_of
from tests.flower.devices import Diary, device, samples

VERBS: dict[str, Verb] = {
    "train": "train",
    "query.describe": "describe",
    "evaluate": "evaluate",
    "query.probe": "probe",
}
OBSERVE: dict[str, Json] = {"classes": 2, "max_rounds": 2, "describing": label_report_rule(AnyChange()).record()}
ORDERS: dict[Verb, Order] = {
    "train": replace(mail.train_order(1), confirmed=1, observe=OBSERVE),
    "describe": replace(mail.describe_order(0), observe=OBSERVE),
    "evaluate": replace(mail.evaluate_order(1), observe=OBSERVE),
    "probe": replace(mail.probe_order(1), observe=OBSERVE),
}
"""The orders of the recorded messages."""


@pytest.fixture(autouse=True)
def _inside_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let messages be built as in a process that Flower started."""
    from flwr.supercore.task_identity import TaskIdentity

    for name, number in (("_run_id", 77), ("_node_id", 1), ("_task_id", 3)):
        monkeypatch.setattr(TaskIdentity, name, number)
    monkeypatch.setitem(EXTRAS, "flower", "flwr")


class DeviceGrid:
    """A grid whose nodes answer at once: ``old`` ones as a release that speaks agreement 3 alone.

    ``foreign``: what nodes say in place of an answer, by address.
    """

    def __init__(self, devices: dict[int, Device], *, old: Iterable[int] = ()) -> None:
        self.devices, self.old = devices, set(old)
        self.foreign: dict[int, list[int]] = {}
        self.agreements: dict[int, list[object]] = {at: [] for at in devices}
        self.came: dict[int, str] = {}
        self._replies: dict[str, Message] = {}
        self._n_pushed = 0

    def get_nodes(self) -> list[NodeInfo]:
        return [
            NodeInfo(node_id=at, public_key=f"-----BEGIN {at}".encode(), heartbeat_interval=30.0)
            if at not in self.came
            else NodeInfo(node_id=at, public_key=f"-----BEGIN {at}".encode(), last_activated_at=self.came[at])
            for at in self.devices
        ]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for message in messages:
            self._n_pushed += 1
            message.metadata.__dict__["_message_id"] = f"id-{self._n_pushed}"
            ids.append(message.metadata.message_id)
            self.agreements[message.metadata.dst_node_id].append(dict(message.content["config"])["fielding"])
            self._replies[ids[-1]] = self._answer(message)
        return ids

    def _answer(self, message: Message) -> Message:
        at, verb = message.metadata.dst_node_id, VERBS[message.metadata.message_type]
        if at in self.foreign:
            spoken = ConfigRecord({"speaks": self.foreign[at]})
            return Message(RecordDict({"agreement": spoken}), reply_to=message)
        try:
            if at in self.old:
                return Message(answer_as_before(self.devices[at], message.content, verb), reply_to=message)
            return Message(reply_records(self.devices[at].answer(order_from(message.content, verb))), reply_to=message)
        except Exception as error:  # as Flower does
            return Message(Error(code=2, reason=f"{type(error)}:<'{error}'>"), reply_to=message)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._replies.pop(one) for one in message_ids if one in self._replies]


def run_on(grid: Any, deployment: Deployment, out: Path) -> None:
    def wire_of(expected: Expected, patience: Patience) -> GridWire:
        return GridWire(grid, expected, ttl_s=patience.owed_s)

    patient = replace(deployment, patience=Patience(deadline_s=30.0, poll_s=0.01))
    assert run_deployment(patient, wire_of, out) is not None


def wire_on(grid: Any) -> GridWire:
    return GridWire(grid, mail.EXPECTED, ttl_s=60.0)


def ask(grid: Any, address: int, order: Order | None = None, wire: GridWire | None = None) -> Answer | None:
    """Return what comes back when a node is asked: at the second pull, if its order is said again."""
    wire = wire or wire_on(grid)
    ((ticket, _),) = wire.push([(address, order or ORDERS["describe"])])
    assert ticket is not None
    for _ in range(2):
        if found := wire.pull({ticket: (address, (order or ORDERS["describe"]).verb)}):
            return found[ticket][0]
    return None


def two_devices(folder: Path) -> dict[int, Device]:
    return {at: device(folder / str(at), Diary({0: samples([0, 1, 1])})) for at in (5, 6)}


# ---- messages of an older release ----------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ORDERS)
def test_an_order_in_agreement_3_is_to_the_byte_what_releases_of_it_wrote(verb: Verb) -> None:
    assert written(order_records(ORDERS[verb], agreement=3)) == written(recorded(RECORDED["orders"][verb]))


@pytest.mark.parametrize("verb", ORDERS)
def test_replies_of_an_older_release_are_understood(verb: Verb) -> None:
    answer = reply_from(recorded(RECORDED["replies"][verb]), verb, mail.EXPECTED)

    assert not isinstance(answer, Refusal)


@pytest.mark.parametrize("verb", ORDERS)
def test_a_reply_to_an_older_server_is_to_the_byte_what_it_was(verb: Verb) -> None:
    replies: dict[Verb, Reply] = {
        "train": mail.train_reply(),
        "describe": mail.describe_reply(partition=3),
        "evaluate": mail.evaluate_reply(),
        "probe": mail.probe_reply(),
    }

    assert written(reply_records(replies[verb])) == written(recorded(RECORDED["replies"][verb]))


def test_a_new_device_answers_an_older_server(tmp_path: Path) -> None:
    order = order_from(recorded(RECORDED["orders"]["describe"]), "describe")

    assert order == ORDERS["describe"]
    assert isinstance(two_devices(tmp_path)[5].answer(order), DescribeReply)


# ---- a federation of both ------------------------------------------------------------------------------------------


def test_old_and_new_devices_run_together_as_new_ones_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = deployed_config(table())
    new, mixed = (Deployed(config, tmp_path / name) for name in ("new", "mixed"))
    all_new = DeviceGrid(new.wire.devices)
    some_old = DeviceGrid(mixed.wire.devices, old=sorted(mixed.wire.devices)[::2])
    with caplog.at_level(logging.WARNING, "fielding"):
        run_on(some_old, deployment_of(mixed.simulation), tmp_path / "mixed" / "out")
    told = [record.getMessage() for record in caplog.records if "speaks agreement 3" in record.getMessage()]

    run_on(all_new, deployment_of(new.simulation), tmp_path / "new" / "out")

    assert_same_runs(tmp_path / "mixed" / "out", tmp_path / "new" / "out")
    assert len(told) == len(some_old.old)
    for at, spoken in some_old.agreements.items():
        wanted = {3} if at in some_old.old else {PROTOCOL}
        assert (spoken[0], set(spoken[1:])) == (PROTOCOL, wanted)


def test_an_older_device_is_not_asked_what_it_cannot_understand(tmp_path: Path) -> None:
    grid = DeviceGrid(two_devices(tmp_path), old=[5])
    wire = wire_on(grid)
    assert isinstance(ask(grid, 5, replace(mail.describe_order(), observe=OBSERVE, asks="name"), wire), DescribeReply)

    answer = ask(grid, 5, replace(mail.describe_order(), observe=OBSERVE, asks="end"), wire)

    assert isinstance(answer, Refusal)
    assert (answer.reason, answer.text) == (
        "refused",
        "it speaks agreement 3, in which it cannot be asked for 'end'; install this release of fielding on it",
    )
    assert grid.agreements[5] == [PROTOCOL, 3]


def test_a_device_of_no_common_agreement_is_refused_in_one_line_that_names_both(tmp_path: Path) -> None:
    grid = DeviceGrid(two_devices(tmp_path))
    grid.foreign[5] = [8, 9]

    answer = ask(grid, 5)

    assert isinstance(answer, Refusal)
    assert (answer.reason, answer.text) == (
        "failed",
        "it speaks agreement 8, 9, this server 3, 4; install the same release of fielding on both",
    )


def test_a_device_that_only_ever_names_agreements_is_asked_twice_and_no_more(tmp_path: Path) -> None:
    grid = DeviceGrid(two_devices(tmp_path))
    grid.foreign[5] = [3]

    assert isinstance(ask(grid, 5), Refusal)
    assert grid.agreements[5] == [PROTOCOL, 3]


def test_a_device_that_came_back_is_tried_in_the_newest_agreement_again(tmp_path: Path) -> None:
    grid = DeviceGrid(two_devices(tmp_path), old=[5])
    wire = wire_on(grid)
    wire.nodes()
    assert isinstance(ask(grid, 5, wire=wire), DescribeReply)
    wire.nodes()
    assert isinstance(ask(grid, 5, wire=wire), DescribeReply)
    grid.old, grid.came = set(), {5: "later"}  # it was upgraded
    wire.nodes()
    assert isinstance(ask(grid, 5, wire=wire), DescribeReply)

    assert grid.agreements[5] == [PROTOCOL, 3, 3, PROTOCOL]


def test_a_new_device_says_to_a_newer_server_which_agreements_it_speaks(tmp_path: Path) -> None:
    message = mail.instruction(ORDERS["describe"])
    put("config", "fielding", PROTOCOL + 5)(message.content)
    context = Context(1, 42, {"state-dir": str(tmp_path)}, RecordDict(), {})

    reply = client_app(load_data=lambda _node, _round: samples([0, 1]))(message, context)

    assert dict(reply.content["agreement"]) == {"speaks": list(AGREEMENTS)}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("spoken", [[], ["4"], [2.5], "3", [True], list(range(2000))], ids=lambda one: str(one)[:9])
def test_nonsense_about_agreements_is_nonsense(spoken: Any, tmp_path: Path) -> None:
    grid = DeviceGrid(two_devices(tmp_path))
    grid.foreign[5] = spoken

    answer = ask(grid, 5)

    assert isinstance(answer, Refusal)
    assert answer.text == "the records of a message lack 'about'; send about"
    assert grid.agreements[5] == [PROTOCOL]


# ---- clocks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("off_s", "way"), [(-200.0, "behind"), (500.0, "ahead of"), (2.0, None)])
def test_a_clock_that_is_off_is_told_on_server_and_device(
    off_s: float, way: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    from fielding.flower.device import client_app as app

    grid, now = DeviceGrid(two_devices(tmp_path)), time.time
    answered = grid._answer

    def off(message: Message) -> Message:
        reply = answered(message)
        reply.metadata.created_at = now() + off_s
        return reply

    monkeypatch.setattr(grid, "_answer", off)
    wire = wire_on(grid)
    with caplog.at_level(logging.WARNING, "fielding"):
        for _ in range(3):  # it is told once
            assert isinstance(ask(grid, 5, wire=wire), DescribeReply)
        app._check_clock(mail.instruction(ORDERS["describe"]), now() + off_s)

    told = [record.getMessage() for record in caplog.records if "clock" in record.getMessage()]
    assert len(told) == (0 if way is None else 2)
    assert all(f"{way} the server's; set it" in one for one in told)
    assert [("node 5" in one, "this device" in one) for one in told] in ([], [(True, False), (False, True)])
