import numpy as np
import pytest

from fielding.errors import OptionError
from fielding.traces.scenarios.label_buckets import LabelBuckets
from tests.traces.scenarios.pools import concepts_of, image_pool, request_for


def labels_seen(scenario: LabelBuckets, n_clients: int, n_intervals: int, *, n_classes: int) -> list[list[set[int]]]:
    """Return the labels that each client sees in each interval."""
    pool = image_pool(200, n_classes)
    schedule = scenario.deal(pool, request_for(n_clients, n_intervals, samples=30), seed=1)
    assert (schedule.y == pool.y[schedule.sample]).all()
    return [
        [
            set(schedule.y[(schedule.client == client) & (schedule.interval == interval)].tolist())
            for interval in range(n_intervals)
        ]
        for client in range(n_clients)
    ]


def test_buckets_partition_the_labels_of_a_client() -> None:
    for seen in labels_seen(LabelBuckets(buckets=4, alpha=0), 5, 4, n_classes=20):
        sizes = [len(labels) for labels in seen]
        assert max(sizes) - min(sizes) <= 1
        assert sum(sizes) == len(set().union(*seen)) > 15


def test_clients_partition_differently() -> None:
    seen = labels_seen(LabelBuckets(buckets=4, alpha=0), 5, 4, n_classes=20)

    assert len({frozenset(labels[0]) for labels in seen}) == 5


def test_after_the_last_bucket_the_first_comes_again_with_the_same_samples() -> None:
    schedule = LabelBuckets(buckets=3).deal(image_pool(), request_for(4, 7), seed=1)
    for client in range(4):
        mine = [schedule.sample[(schedule.client == client) & (schedule.interval == at)] for at in range(7)]
        for at in range(4):
            assert mine[at].tolist() == mine[at + 3].tolist()
        assert mine[0].tolist() != mine[1].tolist()


def test_a_client_with_fewer_labels_has_fewer_buckets_and_none_is_empty() -> None:
    for seen in labels_seen(LabelBuckets(buckets=10, alpha=0.3), 20, 12, n_classes=6):
        n_labels = len(set().union(*seen))
        assert [len(labels) for labels in seen] == [1] * 12
        assert seen[0] == seen[n_labels] != seen[1] or n_labels == 1


def test_an_interval_brings_as_many_samples_as_asked_for_on_average() -> None:
    schedule = LabelBuckets(buckets=5, alpha=0).deal(image_pool(200, 20), request_for(10, 5, samples=30), seed=1)

    assert schedule.client.size == 10 * 5 * 30


def test_the_concept_is_the_set_of_labels() -> None:
    pool = image_pool(200, 6)
    schedule = LabelBuckets(buckets=3, alpha=0).deal(pool, request_for(30, 3, samples=30), seed=1)
    number_of: dict[frozenset[int], int] = {}
    for client in range(30):
        for interval in range(3):
            rows = (schedule.client == client) & (schedule.interval == interval)
            number = int(concepts_of(schedule)[interval, client])
            assert number_of.setdefault(frozenset(schedule.y[rows].tolist()), number) == number
    assert len(set(number_of.values())) == len(number_of) == 15
    assert np.unique(concepts_of(schedule)).size == 15


def test_knobs_out_of_range_are_errors() -> None:
    with pytest.raises(OptionError, match="buckets is 0"):
        LabelBuckets(buckets=0)
    with pytest.raises(OptionError, match="alpha is -1"):
        LabelBuckets(alpha=-1)
