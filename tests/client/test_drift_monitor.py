"""Parts of windows by when samples came, and the samples behind the last reports."""

import numpy as np

from fielding.client.drift.drift_test import Batch
from fielding.client.drift_monitor import CurrentWindows, LastReports, join_batches, split_by_client
from fielding.client.representation.representation import Seen


def windows(clients: list[int], sizes: list[int], intervals: list[int]) -> CurrentWindows:
    """Return windows whose samples carry their number as their feature; even ones are of class a."""
    numbers = np.arange(len(intervals))
    seen = Seen(
        labels=numbers % 2,
        features=numbers[:, np.newaxis].astype(np.float32),
        scores=np.eye(2, dtype=np.float32)[numbers % 2],
        sizes=np.array(sizes),
    )
    return CurrentWindows(
        clients=np.array(clients),
        intervals=np.array(intervals),
        seen=seen,
        errors=numbers / 10,
        vectors=np.array([[size, 1.0] for size in sizes], dtype=np.float32),
    )


def numbers_of(batch: Batch) -> list[int]:
    return [int(number) for number in batch.features[:, 0]]


THREE = windows([2, 5, 7], [3, 0, 2], [0, 1, 2, 1, 1])


def test_samples_of_some_clients_stand_together_with_all_that_is_known_of_them() -> None:
    batch = THREE.batch(np.array([0, 2]))

    assert numbers_of(batch) == [0, 1, 2, 3, 4]
    assert batch.sizes.tolist() == [3, 2]
    assert batch.labels.tolist() == batch.predicted.tolist() == [0, 1, 0, 1, 0]
    assert batch.errors.tolist() == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert (numbers_of(THREE.batch(np.array([2]))), THREE.batch(np.array([1])).sizes.tolist()) == ([3, 4], [0])


def test_each_client_has_bounds_of_its_own() -> None:
    first, stop = np.array([1, 0, 2]), np.array([2, 9, 9])

    assert THREE.n_since(first).tolist() == [2, 0, 0]
    assert numbers_of(THREE.batch(np.array([0, 1, 2]), first=first)) == [1, 2]
    assert THREE.batch(np.array([0, 1, 2]), first=first).sizes.tolist() == [2, 0, 0]
    assert numbers_of(THREE.batch(np.array([0, 2]), stop=stop)) == [0, 1, 3, 4]
    assert numbers_of(THREE.batch(np.array([0]), first=first, stop=stop)) == [1]


def test_the_last_report_counts() -> None:
    last = LastReports(8)
    last.keep(THREE, np.array([0, 1, 2]), round_index=4, until=3)
    later = windows([5, 7], [1, 1], [3, 3])
    last.keep(later, np.array([1]), round_index=6, until=4)

    assert last.is_active.tolist() == [False, False, True, False, False, False, False, True]
    assert (last.rounds[[2, 5, 7]].tolist(), last.until[[2, 5, 7]].tolist()) == ([4, 4, 6], [3, 3, 4])
    assert last.vectors[[2, 5, 7], 0].tolist() == [3.0, 0.0, 1.0]
    assert last.sizes(np.array([2, 7])).tolist() == [3, 1]
    assert numbers_of(last.batch(np.array([2, 7]))) == [0, 1, 2, 1]
    assert last.batch(np.array([7, 2])).sizes.tolist() == [1, 3]


def test_batches_split_by_client_join_again() -> None:
    whole = THREE.batch(np.array([0, 1, 2]))

    parts = split_by_client(whole)

    assert [numbers_of(part) for part in parts] == [[0, 1, 2], [], [3, 4]]
    again = join_batches(parts)
    assert again.sizes.tolist() == whole.sizes.tolist()
    for name in ("labels", "predicted", "features", "errors"):
        assert getattr(again, name).tolist() == getattr(whole, name).tolist()
    assert again.n_classes == 2


def test_last_reports_come_back_as_they_were() -> None:
    before, after = LastReports(8), LastReports(8)
    before.keep(THREE, np.array([0, 1]), round_index=4, until=2)

    after.restore(before.arrays())

    assert after.arrays().keys() == before.arrays().keys()
    for name, array in before.arrays().items():
        np.testing.assert_array_equal(after.arrays()[name], array)
    empty = LastReports(3)
    empty.restore(LastReports(3).arrays())
    assert not empty.is_active.any()
