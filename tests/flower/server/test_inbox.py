"""Reports act once, however often they come, and survive a checkpoint."""

import numpy as np
import pytest

from fielding.errors import CheckpointError
from fielding.flower.server.contacts import UNKNOWN, Inbox
from fielding.flower.wire.orders import Report

IDS = ("ann", "bob", "eve")


def report(number: int, *shares: float, kind: str | None = None) -> Report:
    n_samples = 4 if shares else 0
    return Report(number=number, representation=np.array(shares, dtype=np.float32), n_samples=n_samples, kind=kind)


def inbox_of(n_clients: int = 3, n_features: int | None = None) -> Inbox:
    inbox = Inbox(n_features)
    inbox.grow(n_clients)
    return inbox


def test_reports_come_out_by_client_and_only_once() -> None:
    inbox = inbox_of()
    assert inbox.take(2, report(1, 0.0, 1.0))
    assert inbox.take(0, report(1, 1.0, 0.0))
    batch = inbox.take_all(IDS)
    assert batch.client_ids == ["ann", "eve"]
    assert np.asarray(batch.representations).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert inbox.take_all(IDS).client_ids == []


def test_a_report_that_has_come_is_not_taken_again_not_even_after_it_acted() -> None:
    inbox = inbox_of()
    assert inbox.take(1, report(3, 1.0))
    inbox.take_all(IDS)
    assert not inbox.take(1, report(3, 1.0))
    assert not inbox.take(1, report(2, 1.0))
    assert inbox.confirmed.tolist() == [0, 3, 0]


def test_of_two_reports_of_a_client_the_newer_acts() -> None:
    inbox = inbox_of()
    inbox.take(1, report(1, 1.0, 0.0))
    inbox.take(1, report(2, 0.0, 1.0))
    assert np.asarray(inbox.take_all(IDS).representations).tolist() == [[0.0, 1.0]]


def test_a_report_of_another_length_is_not_taken_and_may_come_again() -> None:
    inbox = inbox_of()
    inbox.take(0, report(1, 1.0, 0.0))
    inbox.take_all(IDS)
    assert not inbox.take(1, report(1, 1.0))
    assert inbox.confirmed.tolist() == [1, 0, 0]


def test_the_first_report_does_not_decide_how_long_all_are() -> None:
    inbox = inbox_of()
    inbox.take(0, report(9, 1.0, 1.0, 1.0))
    inbox.take(1, report(1, 1.0, 0.0))
    inbox.take(2, report(1, 0.0, 1.0))
    batch = inbox.take_all(IDS)
    assert batch.client_ids == ["bob", "eve"]
    assert inbox.n_features == 2
    assert inbox.confirmed.tolist() == [0, 1, 1]
    assert inbox.take(0, report(9, 1.0, 0.0))


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_lengths_that_are_as_frequent_the_shorter_counts(first: int) -> None:
    inbox = inbox_of()
    inbox.take(first, report(1, 1.0, 0.0))
    inbox.take(1 - first, report(1, 1.0))
    assert inbox.take_all(IDS).client_ids == [IDS[1 - first]]


def test_a_refused_length_leaves_confirmed_what_acted_before() -> None:
    inbox = inbox_of()
    inbox.take(0, report(3))
    assert inbox.take_all(IDS).client_ids == []
    inbox.take(0, report(5, 1.0, 1.0, 1.0))
    inbox.take(1, report(1, 1.0))
    inbox.take_all(IDS)
    assert inbox.confirmed.tolist() == [3, 1, 0]


def test_a_checkpoint_decides_how_long_reports_are() -> None:
    inbox = inbox_of()
    inbox.take(0, report(1, 1.0, 1.0, 1.0))
    inbox.take(1, report(1, 1.0, 0.0))
    inbox.take(2, report(1, 0.0, 1.0))
    again = Inbox()
    again.restore(inbox.arrays())
    assert again.n_features == 2
    assert again.take_all(IDS).client_ids == ["bob", "eve"]


def test_sums_are_no_report() -> None:
    inbox = inbox_of()
    sums = Report(number=1, representation=np.empty(0, dtype=np.float32), n_samples=3, tally=np.ones(2))
    assert not inbox.take(0, sums)
    assert inbox.n_features is None


def test_silence_is_a_row_of_zeros() -> None:
    inbox = inbox_of(n_features=2)
    assert inbox.take(0, report(1))
    batch = inbox.take_all(IDS)
    assert np.asarray(batch.representations).tolist() == [[0.0, 0.0]]
    assert batch.n_samples is not None
    assert batch.n_samples.tolist() == [0]


def test_a_checkpoint_keeps_reports_that_have_not_acted() -> None:
    inbox = inbox_of()
    inbox.n_samples[:] = [7, 0, UNKNOWN]
    inbox.take(0, report(2, 0.5, 0.5, kind="label"))
    inbox.take(1, report(4))
    again = Inbox()
    again.restore(inbox.arrays())
    again.grow(4)
    assert again.confirmed.tolist() == [2, 4, 0, 0]
    assert again.n_samples.tolist() == [7, 0, UNKNOWN, UNKNOWN]
    wanted, found = inbox.take_all(IDS), again.take_all(IDS)
    assert found.client_ids == wanted.client_ids == ["ann", "bob"]
    assert np.asarray(found.representations).tolist() == [[0.5, 0.5], [0.0, 0.0]]
    assert found.kinds is not None
    assert found.kinds.tolist() == [1, 0]


def test_a_checkpoint_of_a_simulation_is_refused() -> None:
    with pytest.raises(CheckpointError, match="the checkpoint lacks the reports of a deployment"):
        Inbox().restore({})


def test_reports_of_clients_that_are_none_are_refused() -> None:
    inbox = inbox_of()
    inbox.take(2, report(1, 1.0))
    arrays = {
        **inbox.arrays(),
        "inbox.confirmed": np.zeros(1, dtype="<i8"),
        "inbox.n_samples": np.zeros(1, dtype="<i8"),
    }
    with pytest.raises(CheckpointError, match="do not fit together"):
        Inbox().restore(arrays)
