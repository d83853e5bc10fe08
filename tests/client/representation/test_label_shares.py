import numpy as np

from fielding.client.representation import Seen
from fielding.client.representation.label import LabelShares, RootLabelShares, SmoothedLabelShares, shares_of


def seen_of(labels: list[int], sizes: list[int], n_classes: int) -> Seen:
    empty = np.zeros((len(labels), 0), dtype=np.float32)
    scores = np.zeros((len(labels), n_classes), dtype=np.float32)
    return Seen(labels=np.array(labels), features=empty, scores=scores, sizes=np.array(sizes))


def test_labels_are_counted_and_unknown_ones_skipped() -> None:
    assert LabelShares().tally(seen_of([0, 2, -1, 2, -1], [4, 1], 3)).tolist() == [[1, 0, 2], [0, 0, 0]]


def test_shares_are_those_that_reports_always_had() -> None:
    counts = np.array([[1.0, 2.0, 0.0], [7.0, 3.0, 9.0]])
    expected = shares_of(counts.astype(np.int64)).astype(np.float32)

    assert np.array_equal(LabelShares().vectors(counts, np.zeros(3)), expected)
    assert np.array_equal(RootLabelShares().vectors(counts, np.zeros(3)), expected)


def test_smoothing_spreads_its_samples_over_all_labels() -> None:
    smoothed = SmoothedLabelShares(pseudo=3.0).vectors(np.array([[3.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), np.zeros(3))

    assert np.allclose(smoothed, [[4 / 6, 1 / 6, 1 / 6], [0.0, 0.0, 0.0]])


def test_smoothing_by_default_is_one_sample_in_all() -> None:
    assert np.allclose(SmoothedLabelShares().vectors(np.array([[1.0, 0.0]]), np.zeros(2)), [[0.75, 0.25]])


def test_smoothing_of_nothing_gives_plain_shares() -> None:
    counts = np.array([[1.0, 3.0], [0.0, 0.0]])

    assert SmoothedLabelShares(pseudo=0.0).vectors(counts, np.zeros(2)).tolist() == [[0.25, 0.75], [0, 0]]
