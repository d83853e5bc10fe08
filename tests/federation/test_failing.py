"""Clients that fail are asked more and more rarely, and forgiven when they give a sound answer."""

import numpy as np
import pytest

from fielding.errors import CheckpointError
from fielding.federation.failing import LONGEST_REST, MOST_NAMED, FailingClients


def asked_rounds(failing: FailingClients, n_rounds: int) -> list[int]:
    """Return the rounds in which the only client is asked, if it always fails."""
    asked = []
    for round_index in range(n_rounds):
        if not failing.rests(round_index)[0]:
            asked.append(round_index)
            failing.note(0, "train", round_index, "no")
    return asked


def failing_clients(n_clients: int = 1) -> FailingClients:
    failing = FailingClients()
    failing.grow(n_clients)
    return failing


def test_pauses_double_up_to_a_cap() -> None:
    pauses = np.diff(asked_rounds(failing_clients(), 400)) - 1

    assert pauses[:7].tolist() == [1, 2, 4, 8, 16, 32, 64]
    assert set(pauses[7:].tolist()) == {LONGEST_REST}


def test_a_client_that_failed_twice_in_a_round_failed_once() -> None:
    failing = failing_clients()

    assert [failing.note(0, "train", 3, "no"), failing.note(0, "evaluate", 3, "no")] == [1, 1]
    assert failing.asked_from(0) == 5


def test_success_at_what_failed_forgives_and_other_success_does_not() -> None:
    failing = failing_clients()
    asked_rounds(failing, 20)
    failing.forgive(0, "describe")
    assert failing.rests(20)[0]

    failing.forgive(0, "train")

    assert not failing.rests(20)[0]
    assert failing.note(0, "train", 20, "again") == 1


def test_what_is_known_survives_a_checkpoint() -> None:
    failing = failing_clients(3)
    for round_index in (0, 2):
        failing.note(1, "evaluate", round_index, "no")
    other = failing_clients(0)
    other.restore(failing.arrays())
    other.grow(4)

    assert other.rests(4).tolist() == [False, True, False, False]
    assert other.record("abcd") == failing.record("abc")
    other.forgive(1, "train")
    assert other.note(1, "evaluate", 5, "no") == 3


def test_checkpoints_of_old_forgive_all_and_damaged_ones_are_refused() -> None:
    failing = failing_clients(2)
    failing.restore({})
    assert not failing.rests(0).any()

    arrays = failing.arrays()
    with pytest.raises(CheckpointError, match="do not fit together"):
        failing.restore({**arrays, "failing.until": np.zeros(5, dtype=np.int64)})


def test_a_round_names_the_worst_and_counts_all() -> None:
    failing = failing_clients(50)
    for client in range(50):
        failing.note(client, "train", 0, "no")
    failing.note(33, "train", 2, "still no")

    record = failing.record(list(range(50)))

    assert record["n_failing"] == 50
    assert isinstance(record["failing"], list)
    assert len(record["failing"]) == MOST_NAMED
    assert record["failing"][0] == {"client": 33, "failures": 2, "asked_from": 5, "said": "still no"}
