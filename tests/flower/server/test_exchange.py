"""One push, answers until there are enough or the time is over; whoever did not answer is left in peace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import OptionError
from fielding.flower.server.exchange import Exchange, Patience, Task
from fielding.flower.wire.orders import DescribeReply, Refusal, TrainReply
from tests.flower import mail
from tests.flower.simulated_wire import NEVER, Clock, SimulatedWire, describe, exchange_with, reasons, train


def test_everybody_answers_and_nobody_waits_longer() -> None:
    exchange, wire, _ = exchange_with(4)
    wire.delays = {1: 1.0, 2: 2.0, 3: 0.5}

    settled, duration_s = exchange.send([train(1), train(2), describe(3), describe(4)], {0: 2})

    assert reasons(settled) == [None] * 4
    assert [type(one.answer) for one in settled] == [TrainReply, TrainReply, DescribeReply, DescribeReply]
    assert [one.seconds for one in settled] == [1.0, 2.0, 0.5, 0.0]
    assert duration_s == 2.0
    assert exchange.owing() == frozenset()


def test_training_and_describing_go_out_in_one_push() -> None:
    exchange, wire, _ = exchange_with(4)
    wire.delays = {1: 3.0}

    exchange.send([train(1), train(2, 1), describe(3), describe(4)], {0: 1, 1: 1})

    assert [[address for address, _ in push] for push in wire.pushes] == [[1, 2, 3, 4]]


def test_bytes_and_answers_are_counted() -> None:
    exchange, wire, _ = exchange_with(3)
    wire.refusing = {3}

    settled, _ = exchange.send([train(1), train(2), train(3)])

    assert [(one.bytes_down, one.bytes_up) for one in settled] == [(100, 10), (100, 10), (0, 0)]


def test_a_straggler_is_given_up_at_the_deadline() -> None:
    exchange, wire, clock = exchange_with(3)
    wire.delays = {2: 60.0}

    settled, duration_s = exchange.send([train(1), train(2), describe(3)], {0: 2})

    assert reasons(settled) == [None, "straggler", None]
    assert clock.now == duration_s == settled[1].seconds == 10.0
    assert exchange.owing() == {2}


def test_the_wait_ends_at_the_deadline_and_not_at_the_next_poll() -> None:
    exchange, wire, clock = exchange_with(1, deadline_s=1.25)
    wire.delays = {1: NEVER}

    exchange.send([train(1)])

    assert clock.now == 1.25


def test_nobody_waits_for_a_group_that_has_enough() -> None:
    exchange, wire, _ = exchange_with(3)
    wire.delays = {1: 1.0, 2: 1.5, 3: 60.0}

    settled, duration_s = exchange.send([train(1), train(2), train(3)], {0: 2})

    assert reasons(settled) == [None, None, "straggler"]
    assert duration_s == 1.5
    assert exchange.owing() == {3}


def test_a_group_that_has_enough_does_not_end_the_wait_for_another() -> None:
    exchange, wire, _ = exchange_with(3)
    wire.delays = {2: 60.0, 3: 4.0}

    settled, duration_s = exchange.send([train(1, 0), train(2, 0), train(3, 1)], {0: 1, 1: 1})

    assert reasons(settled) == [None, "straggler", None]
    assert duration_s == 4.0


def test_an_answer_beyond_enough_counts_for_its_report_only() -> None:
    exchange, wire, _ = exchange_with(3)
    wire.delays = {2: 1.0, 3: 5.0}

    settled, _ = exchange.send([train(1), train(2), describe(3)], {0: 1})

    assert reasons(settled) == [None, "straggler", None]
    late = settled[1].answer
    assert isinstance(late, TrainReply)
    assert late.report is not None
    assert exchange.owing() == frozenset()


def test_of_answers_found_at_the_same_moment_earlier_tasks_count_first() -> None:
    exchange, _, _ = exchange_with(3)

    assert reasons(exchange.send([train(3), train(1), train(2)], {0: 2})[0]) == [None, None, "straggler"]


def test_descriptions_are_waited_for_after_training_is_done() -> None:
    exchange, wire, _ = exchange_with(2)
    wire.delays = {2: 3.0}

    assert exchange.send([train(1), describe(2)], {0: 1})[1] == 3.0


def test_a_bad_answer_does_not_count_as_one_of_those_wanted() -> None:
    exchange, wire, _ = exchange_with(2)
    wire.answers = {1: Refusal(reason="failed", text="error 2: boom")}
    wire.delays = {2: 4.0}

    settled, duration_s = exchange.send([train(1), train(2)], {0: 1})

    assert reasons(settled) == ["failed", None]
    assert settled[0].text == "error 2: boom"
    assert duration_s == 4.0


def test_nobody_waits_for_more_answers_than_can_come() -> None:
    exchange, wire, _ = exchange_with(2)
    wire.answers = {1: Refusal(reason="failed", text="")}

    assert exchange.send([train(1), train(2)], {0: 2})[1] == 0.0


def test_a_description_for_a_model_means_that_there_is_no_data() -> None:
    exchange, wire, _ = exchange_with(1)
    wire.answers = {1: DescribeReply(n_samples=0, report=mail.report())}

    settled, _ = exchange.send([train(1)], {0: 1})

    assert reasons(settled) == ["refused"]
    assert isinstance(settled[0].answer, DescribeReply)


def test_a_loss_that_was_asked_for_and_did_not_come_makes_an_answer_fail() -> None:
    exchange, _, _ = exchange_with(1)
    task = Task(address=1, order=mail.train_order(with_start_loss=True))

    settled, _ = exchange.send([task])

    assert reasons(settled) == ["failed"]
    answer = settled[0].answer
    assert isinstance(answer, Refusal)
    assert answer.report is not None


def test_a_node_that_died_is_offline() -> None:
    exchange, wire, _ = exchange_with(2)
    wire.delays, exchange_nodes = {2: NEVER}, exchange.look()
    wire.gone = {2}

    settled, _ = exchange.send([train(1), train(2)])

    assert len(exchange_nodes) == 2
    assert reasons(settled) == [None, "offline"]


def test_an_order_that_is_not_taken_is_not_waited_for() -> None:
    exchange, wire, _ = exchange_with(2)
    wire.refusing = {1}

    settled, duration_s = exchange.send([train(1), train(2)], {0: 2})

    assert reasons(settled) == ["offline", None]
    assert duration_s == 0.0
    assert exchange.owing() == frozenset()


def test_a_node_that_owes_an_answer_gets_nothing() -> None:
    exchange, wire, _ = exchange_with(2)
    wire.delays = {2: 60.0}
    exchange.send([train(1), train(2)])

    settled, duration_s = exchange.send([train(1, round_index=1), describe(2, round_index=1)])

    assert [address for address, _ in wire.pushes[1]] == [1]
    assert reasons(settled) == [None, "straggler"]
    assert duration_s == 0.0


def test_a_late_answer_is_kept_out_of_the_next_round_but_frees_its_node() -> None:
    exchange, wire, _ = exchange_with(2)
    wire.delays = {2: 12.0}
    exchange.send([train(1), train(2)])
    wire.delays = {1: 5.0}

    settled, _ = exchange.send([train(1, round_index=1)], {0: 1})
    late = exchange.take_late()

    assert len(settled) == 1
    assert [(one.address, one.verb, one.bytes_up) for one in late] == [(2, "train", 10)]
    assert isinstance(late[0].answer, TrainReply)
    assert (exchange.take_late(), exchange.owing()) == ((), frozenset())
    assert reasons(exchange.send([train(2, round_index=2)])[0]) == [None]


def test_a_late_error_frees_its_node_too() -> None:
    exchange, wire, _ = exchange_with(1)
    wire.delays, wire.answers = {1: 12.0}, {1: Refusal(reason="offline", text="error 5")}
    exchange.send([train(1)])

    free = exchange.gather(1, within_s=60.0)

    assert [node.address for node in free] == [1]
    assert [type(one.answer) for one in exchange.take_late()] == [Refusal]


def test_a_node_that_came_back_owes_nothing() -> None:
    exchange, wire, _ = exchange_with(2)
    wire.delays = {2: NEVER}
    exchange.send([train(1), train(2)])
    owed = exchange.owing()
    wire.activated = {2: "again"}

    nodes = exchange.look()

    assert owed == {2}
    assert exchange.owing() == frozenset()
    assert [node.address for node in nodes] == [1, 2]


def test_a_node_that_came_back_during_the_exchange_lost_its_work() -> None:
    exchange, wire, clock = exchange_with(1)
    wire.delays = {1: NEVER}
    exchange.look()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        wire.activated = {1: "again"}

    exchange = Exchange(wire, exchange.patience, clock=clock, sleep=sleep)

    assert reasons(exchange.send([train(1)])[0]) == ["offline"]
    assert exchange.owing() == frozenset()


def test_a_node_that_never_answers_is_tried_again_in_the_end() -> None:
    exchange, wire, clock = exchange_with(1)
    wire.delays = {1: NEVER}
    exchange.send([train(1)])

    clock.now += 99.0
    before = len(exchange.look()), exchange.owing()
    clock.now += 2.0
    exchange.look()

    assert before == (1, frozenset({1}))
    assert exchange.owing() == frozenset()


def test_a_joiner_is_seen_and_asked_in_the_next_round() -> None:
    exchange, wire, _ = exchange_with(1)
    exchange.send([train(1)])
    wire.addresses.append(9)

    assert [node.address for node in exchange.look()] == [1, 9]
    assert reasons(exchange.send([train(1, round_index=1), describe(9, round_index=1)])[0]) == [None, None]


def test_everything_fails_and_time_is_bounded() -> None:
    exchange, wire, clock = exchange_with(3)
    wire.delays, wire.refusing, wire.gone = {1: NEVER, 2: NEVER}, {3}, {2}

    settled, _ = exchange.send([train(1), train(2), describe(3)], {0: 2})
    again, _ = exchange.send([train(1), train(2)], {0: 1})
    free = exchange.gather(3, within_s=20.0)

    assert reasons(settled) == ["straggler", "offline", "offline"]
    assert reasons(again) == ["straggler", "straggler"]
    assert [node.address for node in free] == [3]
    assert clock.now == 10.0 + 0.0 + 20.0


def test_when_all_nodes_owe_the_first_that_answers_ends_the_wait() -> None:
    exchange, wire, clock = exchange_with(2)
    wire.delays = {1: 25.0, 2: NEVER}
    exchange.send([train(1), train(2)])

    free = exchange.gather(1, within_s=60.0)

    assert [node.address for node in free] == [1]
    assert clock.now == 25.0


def test_the_time_of_the_push_is_not_taken_from_clients() -> None:
    exchange, wire, _ = exchange_with(1)
    wire.push_s, wire.delays = 8.0, {1: 9.0}

    settled, duration_s = exchange.send([train(1)])

    assert reasons(settled) == [None]
    assert 17.0 <= duration_s < 18.0  # after a while without news the server asks less often


def test_nothing_to_send_is_no_exchange() -> None:
    exchange, wire, clock = exchange_with(1)

    assert exchange.send([])[0] == ()
    assert (wire.pushes, clock.now) == ([], 0.0)


def test_answers_that_nobody_asked_for_are_passed_over() -> None:
    class Chatty(SimulatedWire):
        def pull(self, asked):  # type: ignore[no-untyped-def]
            found = super().pull(asked)
            return found | dict(zip("x", found.values(), strict=False))

    clock = Clock()
    exchange = Exchange(Chatty(clock, [1]), Patience(deadline_s=1.0), clock=clock, sleep=clock.sleep)

    assert reasons(exchange.send([train(1)])[0]) == [None]
    assert exchange.take_late() == ()


@pytest.mark.parametrize("name", ["deadline_s", "poll_s", "forget_s"])
@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_every_wait_has_a_bound(name: str, seconds: float) -> None:
    with pytest.raises(OptionError, match=f"{name} is .*; give seconds above 0"):
        Patience(**{"deadline_s": 1.0, name: seconds})


def test_an_answer_is_owed_for_ten_deadlines_by_default() -> None:
    assert Patience(deadline_s=3.0).owed_s == 30.0
    assert Patience(deadline_s=3.0, forget_s=4.0).owed_s == 4.0


delays = st.lists(st.sampled_from([0.0, 0.3, 2.0, 9.9, 11.0, 35.0, NEVER]), min_size=5, max_size=5)


@given(rounds=st.lists(st.tuples(delays, st.sets(st.integers(1, 5)), st.integers(0, 4)), min_size=1, max_size=5))
def test_whatever_happens_a_round_takes_one_push_and_no_more_than_its_deadline(
    rounds: list[tuple[list[float], set[int], int]],
) -> None:
    exchange, wire, clock = exchange_with(5)
    for delay, gone, wanted in rounds:
        wire.delays, wire.gone = dict(enumerate(delay, start=1)), gone
        before, owing, pushes = clock.now, exchange.owing(), len(wire.pushes)
        tasks = [train(1, 0), train(2, 0), train(3, 1), describe(4), describe(5)]

        settled, _ = exchange.send(tasks, {0: wanted, 1: 1})

        assert clock.now - before <= 10.0
        assert len(wire.pushes) - pushes == (len(owing) < 5)
        assert all(one.answer is not None for one in settled if one.reason is None)
        counted = sum(one.reason is None for one in settled[:2])
        assert counted <= wanted
        assert {
            task.address for task in tasks if task.address in owing and task.address in _asked(wire, pushes)
        } == set()


def _asked(wire: SimulatedWire, pushes: int) -> set[int]:
    return {address for push in wire.pushes[pushes:] for address, _ in push}


def test_nodes_whose_answers_are_long_due_are_asked_again_where_there_are_no_others_and_heard_if_they_answer() -> None:
    exchange, wire, clock = exchange_with(2)
    wire.delays = {1: 25.0, 2: NEVER}
    exchange.send([train(1), train(2)])
    exchange.forgive()
    just_due = exchange.owing()
    clock.sleep(10.0)

    exchange.forgive()

    assert [sorted(just_due), sorted(exchange.owing())] == [[1, 2], []]
    clock.sleep(5.0)
    exchange.gather(2, within_s=1.0)
    assert [late.address for late in exchange.take_late()] == [1]
