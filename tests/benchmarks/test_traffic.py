from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pytest

from benchmarks.traffic import cost_of, cost_rows, exchanges_of, ratio_of, ratio_rows
from fielding.flower.deploy.flower_program import RunState
from fielding.flower.deploy.processes import ProcessError
from tests.benchmarks.exchange_logs import END, LOG, cost, push, replies


def test_a_log_tells_exchanges_bytes_and_the_seconds_of_rounds_without_a_test() -> None:
    found = exchanges_of(LOG)

    assert (found.n_before, found.n_training, found.n_tests) == (1, 4, 2)
    assert (found.n_trained, found.n_described) == (7, 3)
    assert (found.own_down, found.own_up) == (20 + 800 + 320, 7 * 90 + 3 * 5 + 4 * 7)
    assert (found.untested_down, found.untested_up) == (20 + 800, 7 * 90 + 3 * 5)
    assert found.round_s == (2.0, 3.5)  # the first round is left out, and the last has no next


def test_the_first_round_is_not_timed_even_if_no_test_follows_it() -> None:
    rows = [row for at_s in (1.0, 9.0, 11.0) for row in (push(at_s, 1, train=1), *replies("train", 1, 1))]

    assert exchanges_of([*rows, END]).round_s == (2.0,)


REFUSED = [{**row, "is_good": False} if row is LOG[1] else row for row in LOG]


@pytest.mark.parametrize(
    ("rows", "words"),
    [(LOG[:-1], "14 of 14"), (LOG[:-2] + LOG[-1:], "13 of 14"), (REFUSED, "12 of 14"), ([], "0 of 0")],
    ids=["no end", "a reply less", "two errors", "nothing"],
)
def test_a_run_with_missing_answers_says_nothing(rows: Sequence[Mapping[str, Any]], words: str) -> None:
    with pytest.raises(ProcessError, match=f"{words} messages were answered, so the run says nothing; try again"):
        exchanges_of(rows)


def test_bytes_are_counted_per_round_and_seconds_are_medians_over_all_turns() -> None:
    one = exchanges_of(LOG)
    state = RunState(status="finished:completed", bytes_to_nodes=4000, bytes_from_nodes=2000)
    other = RunState(status="finished:completed", bytes_to_nodes=4008, bytes_from_nodes=2000)

    found = cost_of("Fielding", 4810, [(one, state), (one, other)])

    assert (found.flower_down, found.flower_up) == (1001.0, 500.0)
    assert (found.own_down, found.own_up) == (1140 / 4, 673 / 4)
    assert found.round_s == 2.75
    assert found.spread == 1.75


def test_a_run_too_short_to_be_timed_has_no_seconds() -> None:
    short = exchanges_of([push(1.0, 1, train=1), *replies("train", 1, 1), END])
    state = RunState(status="finished:completed", bytes_to_nodes=4, bytes_from_nodes=2)

    found = cost_of("FedAvg", 10, [(short, state)])

    assert (found.round_s, found.spread) == (None, None)
    assert ratio_of(found, found).round_s is None


def test_ratios_hold_one_against_the_other() -> None:
    ratio = ratio_of(cost("Fielding", n_before=1, flower_down=609.0, own_up=304.0, round_s=4.0), cost("FedAvg"))

    assert (ratio.contender, ratio.against) == ("Fielding", "FedAvg")
    assert (ratio.more_before, ratio.more_exchanges) == (1, 0.0)
    assert ratio.flower_bytes == pytest.approx(1.009)
    assert ratio.own_bytes == pytest.approx(1.005)
    assert ratio.untested_bytes == 1.0
    assert ratio.round_s == pytest.approx(0.8)
    assert ratio.holds


@pytest.mark.parametrize("changes", [{"flower_down": 610.0}, {"n_tests": 4}], ids=["1 % more bytes", "one more test"])
def test_the_bar_is_no_more_exchanges_and_less_than_one_percent_more_bytes(changes: dict[str, Any]) -> None:
    assert not ratio_of(cost("Fielding", **changes), cost("FedAvg")).holds


def test_tables_have_a_cell_for_every_head() -> None:
    ours, peer = cost("Fielding", flower_down=1234.5, round_s=None, spread=None), cost("FedAvg")
    costs = cost_rows([asdict(ours), asdict(peer)])
    ratios = ratio_rows([asdict(ratio_of(ours, peer))])

    assert {len(row) for row in costs} == {len(costs[0])}
    assert {len(row) for row in ratios} == {len(ratios[0])}
    assert costs[1] == ["Fielding", "4,810", "0", "6", "3", "24", "0", "1,234", "400", "500", "300", "400", "-", "-"]
    assert ratios[1] == ["Fielding / FedAvg", "4,810", "0", "0.00", "1.6345", "1.0000", "1.0000", "-", "no"]
