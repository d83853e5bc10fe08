"""Whoever was late is asked again, but nobody waits for it until it was in time once."""

from fielding.flower.wire.orders import Refusal
from tests.flower.simulated_wire import describe, exchange_with, reasons, train


def test_a_node_that_is_always_late_costs_one_deadline() -> None:
    exchange, wire, clock = exchange_with(3)
    wire.delays = {1: 1.0, 2: 1.0, 3: 15.0}

    outcomes = []
    for round_index in range(40):
        outcomes.append(exchange.send([train(1, 0, round_index), describe(2, round_index), describe(3, round_index)]))
        outcomes.append(exchange.send([describe(2, round_index), describe(3, round_index)]))  # a test: no group, too

    assert [duration_s for _, duration_s in outcomes] == [10.0] + [1.0] * 79
    assert clock.now == 89.0
    assert sum(address == 3 for push in wire.pushes for address, _ in push) == 6, "it is asked whenever it is free"
    assert {settled[-1].reason for settled, _ in outcomes} == {"straggler"}


def test_a_node_that_was_late_is_waited_for_again_once_it_was_in_time() -> None:
    exchange, wire, _ = exchange_with(2)
    wire.delays = {1: 1.0, 2: 12.0}
    exchange.send([describe(1), describe(2)])
    exchange.gather(2, within_s=60.0)
    wire.delays = {1: 1.0, 2: 4.0}

    not_awaited, first_s = exchange.send([describe(1, 1), describe(2, 1)])
    exchange.gather(2, within_s=60.0)
    awaited, second_s = exchange.send([describe(1, 2), describe(2, 2)])

    assert (reasons(not_awaited), first_s) == ([None, "straggler"], 1.0)
    assert (reasons(awaited), second_s) == ([None, None], 4.0)


def test_a_group_does_not_wait_for_those_who_were_late() -> None:
    exchange, wire, _ = exchange_with(3)
    wire.delays = {1: 1.0, 2: 2.0, 3: 12.0}
    exchange.send([train(1), train(2), train(3)], {0: 3})
    exchange.gather(3, within_s=60.0)

    settled, duration_s = exchange.send([train(1), train(2), train(3)], {0: 3})

    assert (reasons(settled), duration_s) == ([None, None, "straggler"], 2.0)


def test_whoever_was_not_needed_is_not_late() -> None:
    exchange, wire, _ = exchange_with(2)
    wire.delays = {1: 1.0, 2: 3.0}
    exchange.send([train(1), train(2)], {0: 1})
    exchange.gather(2, within_s=60.0)

    assert exchange.send([describe(1, 1), describe(2, 1)])[1] == 3.0


def test_what_flower_says_in_place_of_a_node_does_not_make_it_fast() -> None:
    exchange, wire, _ = exchange_with(2)
    wire.delays = {2: 12.0}
    exchange.send([describe(1), describe(2)])
    exchange.gather(2, within_s=60.0)
    wire.delays, wire.answers = {}, {2: Refusal(reason="straggler", text="error 3: message unavailable")}
    exchange.send([describe(1, 1), describe(2, 1)])
    wire.delays, wire.answers = {2: 60.0}, {}

    assert exchange.send([describe(1, 2), describe(2, 2)])[1] == 0.0


def test_if_all_nodes_were_late_they_are_waited_for() -> None:
    exchange, wire, _ = exchange_with(2)
    wire.delays = {1: 12.0, 2: 12.0}
    exchange.send([describe(1), describe(2)])
    exchange.gather(2, within_s=60.0)
    wire.delays = {1: 9.0, 2: 8.0}

    settled, duration_s = exchange.send([describe(1, 1), describe(2, 1)])

    assert reasons(settled) == [None, None]
    assert 9.0 <= duration_s < 10.0
