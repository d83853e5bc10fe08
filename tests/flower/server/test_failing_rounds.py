"""A run in which training fails everywhere ends; one in which some fail, or nobody is there, goes on."""

from pathlib import Path

import pytest

from fielding.errors import InputError
from fielding.federation.clients import Reason
from fielding.flower.server.clients import FailingRounds
from fielding.flower.server.exchange import Settled
from fielding.flower.wire.orders import Answer, Order
from fielding.records.run_folder import ROUNDS
from tests.simulation.run_cases import table

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower.wire.orders import Refusal
from tests.flower.device_wire import Deployed, deployed_config, lines

FAILED = [Settled(reason="failed", text="another app")] * 2


def test_the_third_round_in_a_row_ends_it_with_the_last_reason() -> None:
    failing = FailingRounds()
    failing.note([0, 1], FAILED, 2)
    failing.note([], [], 2)  # nobody was asked: it says nothing
    failing.note([0, 1], FAILED, 2)
    with pytest.raises(InputError, match=r"all nodes that were asked to train in 3 rounds failed; .*: another app;"):
        failing.note([0, 1], FAILED, 2)


@pytest.mark.parametrize("reason", [None, "straggler", "offline", "refused"])
def test_whoever_did_not_fail_breaks_the_row(reason: Reason | None) -> None:
    failing = FailingRounds()
    for _ in range(2):
        failing.note([0, 1], FAILED, 2)
    failing.note([0, 1, 2], [*FAILED, Settled(reason=reason)], 2)
    for _ in range(2):
        failing.note([0, 1], FAILED, 2)


def test_a_few_broken_nodes_that_are_asked_again_and_again_do_not_end_the_run_of_the_others() -> None:
    failing = FailingRounds()
    for _ in range(20):
        failing.note([4, 7], FAILED, 12)
    with pytest.raises(InputError, match="in 21 rounds failed"):
        failing.note([*range(8, 16), 4, 7], FAILED * 5, 12)  # ten by now: it cannot be chance


def broken(deployed: Deployed, verb: str) -> None:
    """Let all devices fail at something."""
    wire = deployed.wire
    answer = wire.answer

    def fails(address: int, order: Order) -> tuple[Answer, int]:
        if order.verb != verb:
            return answer(address, order)
        return Refusal(reason="failed", text="no such thing"), 0

    wire.answer = fails  # type: ignore[method-assign]


def test_a_run_whose_nodes_all_fail_ends_and_goes_on_when_they_are_mended(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table(rounds=4)), tmp_path)
    broken(deployed, "train")
    with pytest.raises(InputError, match="no such thing"):
        deployed.run()
    assert [line["round"] for line in lines(deployed.out, ROUNDS)] == [0, 1]
    deployed.restarted()
    assert deployed.run() is not None
    assert [line["n_participants"] for line in lines(deployed.out, ROUNDS)] == [0, 0, 8, 8]


def test_nodes_that_never_say_who_they_are_end_the_run_at_its_start(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table(rounds=4, method={"name": "feddrift"})), tmp_path)
    deployed.wire.dead |= set(deployed.wire.devices)
    with pytest.raises(InputError, match="12 nodes are there, but none has said who it is"):
        deployed.run()
