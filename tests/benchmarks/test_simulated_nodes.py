"""Rounds in Flower's simulation beside FedAvg: what a log says of them, and a real one (slow)."""

import importlib.util

import pytest

from benchmarks.simulated_nodes import CONTENDERS, compare_rounds, rounds_of
from fielding.flower.deploy.processes import ProcessError
from tests.benchmarks.exchange_logs import END, push, replies


def log() -> list[dict[str, object]]:
    """Return five rounds, the fourth with a test; questions follow the training of the third."""
    rows = [push(0.0, 10, query=2)]
    for at_s in (1.0, 9.0, 12.0, 14.5, 20.0):
        rows += [push(at_s, 100, train=2), *[{**one, "at_s": at_s + 0.5} for one in replies("train", 2, 90)]]
        if at_s == 12.0:
            rows += [push(12.1, 10, query=3), *[{**one, "at_s": 12.3} for one in replies("query", 3, 5)]]
        if at_s == 14.5:
            rows += [push(18.0, 10, evaluate=1), *replies("evaluate", 1, 1)]
    return [*rows, END]


def test_a_round_has_all_that_goes_out_before_the_next_training() -> None:
    (found,) = rounds_of(log())

    assert (found.seconds, found.messages, found.bytes_down, found.bytes_up) == (2.5, 5, 230, 195)


def test_a_model_that_did_not_come_back_is_told() -> None:
    lost = [row for row in log() if row.get("kind") != "train"]

    with pytest.raises(ProcessError, match="0 of 10 models came back"):
        rounds_of(lost)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Flower's simulation is not installed")
def test_contenders_take_turns_in_flowers_simulation() -> None:
    costs = compare_rounds([6], n_rounds=6, repeat=1)

    assert [one.contender for one in costs] == [one.name for one in CONTENDERS]
    assert [one.messages for one in costs] == [5, 6, 5]
    assert costs[0].times_fedavg == costs[0].bytes_times == 1.0
