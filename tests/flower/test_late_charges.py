"""An answer that comes late is charged as the order was that it answers."""

from dataclasses import replace

import pytest

from fielding.flower.server.contacts import Contacts, Presence
from fielding.flower.server.exchange import Exchange, Patience, Task
from fielding.flower.wire.orders import Order
from tests.flower import mail
from tests.flower.simulated_wire import Clock, SimulatedWire

ORDERS: dict[str, tuple[Order, str]] = {
    "training": (mail.train_order(1), "model"),
    "training on trial": (replace(mail.train_order(1), is_probe=True), "probe"),
    "news": (mail.describe_order(1), "report"),
    "a test": (mail.evaluate_order(1), "probe"),
}


@pytest.mark.parametrize(("order", "category"), ORDERS.values(), ids=ORDERS)
def test_a_late_answer_is_charged_as_its_order(order: Order, category: str) -> None:
    clock = Clock()
    wire = SimulatedWire(clock, [5])
    exchange = Exchange(wire, Patience(deadline_s=1.0, poll_s=0.25), clock=clock, sleep=clock.sleep)
    contacts = Contacts(exchange, Presence(min_nodes=1), hears="drifted", n_features=2)
    wire.answers[5] = mail.describe_reply(0)
    contacts.arrive()
    contacts.introduce([5], mail.describe_order(), with_report=True)
    before = {name: contacts.ledger.client_bytes_up(name).tolist()[0] for name in ("model", "report", "probe")}
    del wire.answers[5]
    wire.delays[5] = 2.0
    task = Task(address=5, order=order)
    (settled,) = contacts.send([task]).settled
    contacts.take_in(task, settled)
    (refused,) = contacts.send([Task(address=5, order=mail.train_order(2))]).settled  # it owes an answer: not sent
    contacts.arrive()

    assert (settled.reason, refused.bytes_down) == ("straggler", 0)
    after = {name: contacts.ledger.client_bytes_up(name).tolist()[0] for name in before}
    assert {name: after[name] - before[name] for name in before} == {name: 10 * (name == category) for name in before}
