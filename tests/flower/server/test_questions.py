"""Questions that are not waited for: a round ends without their answers, which count when they come."""

from fielding.flower.server.exchange import Exchange, Task
from tests.flower import mail
from tests.flower.simulated_wire import NEVER, SimulatedWire, exchange_with, reasons, train


def question(address: int, round_index: int = 0) -> Task:
    return Task(address=address, order=mail.describe_order(round_index), is_awaited=False)


def pending(delay: float) -> tuple[Exchange, SimulatedWire]:
    """Return an exchange after a round in which node 1 trained and 2 was asked, which answers after a while."""
    exchange, wire, clock = exchange_with(3)
    wire.delays = {1: 2.0, 2: delay}
    settled, duration_s = exchange.send([train(1), question(2)])
    assert (reasons(settled), duration_s) == ([None, "straggler"], 2.0)
    assert clock.now == 2.0
    return exchange, wire


def test_an_answer_that_came_in_the_meantime_counts_in_its_round() -> None:
    exchange, wire, _ = exchange_with(2)
    wire.delays = {1: 2.0, 2: 1.0}
    settled, _ = exchange.send([train(1), question(2)])

    assert reasons(settled) == [None, None]
    assert exchange.answering() == {}


def test_one_that_comes_later_is_late_and_its_node_is_not_slow() -> None:
    exchange, _ = pending(delay=5.0)
    assert exchange.take_late() == ()
    exchange.gather(3, within_s=1.0)
    settled, duration_s = exchange.send([train(1, round_index=1), train(3, round_index=1)])
    assert (reasons(settled), duration_s) == ([None, None], 2.0)
    exchange.send([train(1, round_index=2)])

    assert [late.address for late in exchange.take_late()] == [2]
    assert exchange.answering() == {}


def test_nor_is_one_that_misses_the_deadline_and_it_is_waited_for_when_it_trains() -> None:
    exchange, wire = pending(delay=30.0)
    wire.delays = {1: 12.0, 2: 9.0}
    settled, duration_s = exchange.send([train(2, group=None, round_index=1)])

    assert reasons(settled) == [None]
    assert duration_s >= 9.0


def test_a_node_that_is_still_to_answer_can_be_asked_to_train() -> None:
    exchange, wire = pending(delay=NEVER)
    assert exchange.owing() == frozenset()
    assert exchange.answering() == {2: True}
    wire.delays = {}

    assert reasons(exchange.send([train(2, round_index=1)])[0]) == [None]


def test_a_question_that_is_never_answered_is_forgotten_in_the_end() -> None:
    exchange, wire = pending(delay=NEVER)
    wire.delays = {1: 11.0, 2: NEVER}
    exchange.send([train(1, round_index=1)])
    assert exchange.answering() == {2: False}, "it no longer counts as one that may be in time"
    exchange.gather(4, within_s=100.0)  # there are three
    assert exchange.answering() == {}


def test_questions_alone_take_no_time() -> None:
    exchange, wire, clock = exchange_with(2)
    wire.delays = {1: 3.0, 2: 3.0}
    exchange.send([question(1), question(2)])
    assert clock.now == 0.0


def test_polls_become_rarer_while_nothing_comes() -> None:
    exchange, wire, clock = exchange_with(1, deadline_s=60.0)
    wire.delays = {1: 50.0}
    _, duration_s = exchange.send([train(1)])
    assert 50.0 <= duration_s <= 51.0
    assert clock.n_sleeps < 70  # 100 at the rate of the start


def test_many_questions_follow_the_orders_to_train() -> None:
    exchange, wire, clock = exchange_with(6)
    wire.delays = {1: 2.0, 4: 9.0}

    settled, _ = exchange.send([train(1), train(2), question(3), question(4), question(5)], {0: 2})

    assert [[address for address, _ in push] for push in wire.pushes] == [[1, 2], [3, 4, 5]]
    assert reasons(settled) == [None, None, None, "straggler", None]
    assert clock.now == 2.0
    assert exchange.owing() == frozenset()


def test_many_questions_go_out_and_are_heard_even_if_training_is_done_at_once() -> None:
    exchange, wire, clock = exchange_with(3)

    settled, _ = exchange.send([train(1), question(2), question(3)], {0: 1})

    assert [len(push) for push in wire.pushes] == [1, 2]
    assert (reasons(settled), clock.now) == ([None] * 3, 0.0)
