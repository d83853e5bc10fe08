"""Rounds with many clients: messages follow the budget, not the clients."""

import pytest

pytest.importorskip("flwr", reason="the flower extra is not installed")

from benchmarks.many_clients import PARTICIPANTS, compare_sizes


def test_messages_follow_the_budget_and_not_the_clients() -> None:
    rows = compare_sizes([40, 80], [20, "all"], n_rounds=2)

    assert [row.messages_a_round for row in rows] == [20 + PARTICIPANTS, 20 + PARTICIPANTS, 40, 80]
    assert all(row.seconds_a_round > 0.0 for row in rows)
    assert [row.times_the_smallest for row in rows][::2] == [1.0, 1.0]
