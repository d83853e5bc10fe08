import numpy as np
import pytest

from fielding.client.arrivals import NO_ARRIVALS, Arrivals, checked_arrivals
from fielding.errors import InputError


def test_rows_of_counts_become_entries() -> None:
    arrivals = Arrivals.from_rows(np.array([[0, 3, 0], [0, 0, 0], [1, 0, 2]]))

    clients, labels, counts, _ = checked_arrivals(arrivals, (3, 3))
    assert (clients.tolist(), labels.tolist(), counts.tolist()) == ([0, 2, 2], [1, 0, 2], [3, 1, 2])


def test_entries_without_counts_are_one_sample_each() -> None:
    arrivals = Arrivals(clients=np.array([1, 1]), labels=np.array([0, 0]))

    assert checked_arrivals(arrivals, (2, 1))[2].tolist() == [1, 1]


def test_entries_that_bring_nothing_are_dropped() -> None:
    arrivals = Arrivals(clients=np.array([0, 1]), labels=np.array([0, 0]), counts=np.array([0, 2]))

    assert checked_arrivals(arrivals, (2, 1))[0].tolist() == [1]
    assert checked_arrivals(NO_ARRIVALS, (2, 1))[0].size == 0


@pytest.mark.parametrize(
    ("clients", "labels", "counts", "message"),
    [
        ([2], [0], [1], "clients of arrivals hold 2; give whole numbers from 0 to 1"),
        ([-1], [0], [1], "clients of arrivals hold -1"),
        ([0], [3], [1], "labels of arrivals hold 3; give whole numbers from 0 to 2"),
        ([0], [0], [-1], "counts of arrivals hold -1"),
        ([0.0], [0], [1], "clients of arrivals are"),
        ([0], [[0]], [1], "labels of arrivals are"),
        ([0], [0], ["1"], "counts of arrivals are"),
        ([0, 1], [0], [1], "arrivals name 2 clients, 1 labels and 1 counts"),
        ([0], [0], [], "arrivals name 1 clients, 1 labels and 0 counts"),
    ],
)
def test_entry_that_cannot_be_counted_is_refused(
    clients: list[object], labels: list[object], counts: list[object], message: str
) -> None:
    arrivals = Arrivals(clients=np.array(clients), labels=np.array(labels), counts=np.array(counts))

    with pytest.raises(InputError, match=message):
        checked_arrivals(arrivals, (2, 3))
