"""A new run wants so many nodes, one that has begun outlives any outage, and late answers are charged as asked."""

import logging

import pytest

from fielding.errors import InputError
from fielding.flower.server.contacts import Contacts, Presence
from fielding.flower.server.exchange import Exchange, Patience, Task
from fielding.flower.wire.orders import Order
from tests.flower import mail
from tests.flower.simulated_wire import Clock, SimulatedWire


def contacts_with(min_nodes: int, *, back_at: float) -> tuple[Contacts, SimulatedWire, Clock]:
    """Return contacts with two nodes, of which number 2 is seen again at some time."""
    clock = Clock()
    wire = SimulatedWire(clock, [1, 2])

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if clock.now >= back_at:
            wire.gone.discard(2)

    exchange = Exchange(wire, Patience(deadline_s=10.0), clock=clock, sleep=sleep)
    presence = Presence(min_nodes=min_nodes, within_s=5.0)
    return Contacts(exchange, presence, reports_from="drifted", n_features=2), wire, clock


def test_a_new_run_without_enough_nodes_ends() -> None:
    contacts, wire, clock = contacts_with(2, back_at=100.0)
    wire.gone = {2}

    with pytest.raises(InputError, match=r"1 nodes could be reached within 5 s, 2 are wanted; start more nodes"):
        contacts.arrive(0)
    assert clock.now == 5.0


def test_an_outage_after_the_first_round_is_waited_out_and_told_every_minute(caplog: pytest.LogCaptureFixture) -> None:
    contacts, wire, clock = contacts_with(2, back_at=3600.0)
    contacts.arrive(0)
    wire.gone = {1, 2}

    with caplog.at_level(logging.WARNING, logger="fielding.flower"):
        nodes, _ = contacts.arrive(0)

    assert [node.address for node in nodes] == [2], "one is enough"
    assert clock.now == 3600.0
    assert caplog.text.count("the run waits until one is free") in (59, 60)


def test_a_run_that_goes_on_waits_for_as_many_for_a_while_and_then_does_without() -> None:
    first, _, _ = contacts_with(2, back_at=0.0)
    first.arrive(0)
    contacts, wire, clock = contacts_with(2, back_at=3600.0)
    contacts.restore(first.arrays(), first.ledger)
    wire.gone = {2}

    nodes, _ = contacts.arrive(0)

    assert ([node.address for node in nodes], clock.now) == ([1], 5.0), "it goes on with those that are there"


ORDERS: dict[str, tuple[Order, str]] = {
    "training": (mail.train_order(1), "model"),
    "training on trial": (mail.train_order(1, is_probe=True), "probe"),
    "news": (mail.describe_order(1), "report"),
    "a test": (mail.evaluate_order(1), "probe"),
}


@pytest.mark.parametrize(("order", "category"), ORDERS.values(), ids=ORDERS)
def test_a_late_answer_is_charged_as_its_order(order: Order, category: str) -> None:
    clock = Clock()
    wire = SimulatedWire(clock, [5])
    exchange = Exchange(wire, Patience(deadline_s=1.0, poll_s=0.25), clock=clock, sleep=clock.sleep)
    contacts = Contacts(exchange, Presence(min_nodes=1), reports_from="drifted", n_features=2)
    wire.answers[5] = mail.describe_reply(0)
    contacts.arrive(0)
    contacts.introduce([5], mail.describe_order(), with_report=True)
    before = {name: contacts.ledger.client_bytes_up(name).tolist()[0] for name in ("model", "report", "probe")}
    del wire.answers[5]
    wire.delays[5] = 2.0
    task = Task(address=5, order=order)
    (settled,) = contacts.send([task])[0]
    contacts.take_in(task, settled)
    (refused,) = contacts.send([Task(address=5, order=mail.train_order(2))])[0]  # it owes an answer: not sent
    contacts.arrive(0)

    assert (settled.reason, refused.bytes_down) == ("straggler", 0)
    after = {name: contacts.ledger.client_bytes_up(name).tolist()[0] for name in before}
    assert {name: after[name] - before[name] for name in before} == {name: 10 * (name == category) for name in before}
