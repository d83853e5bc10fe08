from dataclasses import replace

import numpy as np

from fielding.client.representation import Seen
from fielding.client.representation.confusion import Confusion, Predictions, SoftConfusion


def seen_of(labels: list[int], predicted: list[int], sizes: list[int]) -> Seen:
    scores = np.eye(2, dtype=np.float32)[predicted]
    return Seen(labels=np.array(labels), features=scores, scores=scores, sizes=np.array(sizes))


def test_predictions_are_counted_without_labels() -> None:
    seen = seen_of([-1, -1, 0], [1, 1, 0], [2, 1])

    assert Predictions().tally(seen).tolist() == [[0, 2], [1, 0]]
    assert Predictions().vectors(Predictions().tally(seen), np.zeros(2)).tolist() == [[0, 1], [1, 0]]


def test_tied_scores_go_to_the_lower_label() -> None:
    scores = np.zeros((1, 3), dtype=np.float32)
    seen = Seen(labels=np.array([2]), features=scores, scores=scores, sizes=np.array([1]))

    assert Predictions().tally(seen).tolist() == [[1, 0, 0]]
    assert Confusion().tally(seen).reshape(3, 3).tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 0]]


def test_confusion_counts_what_labels_are_taken_for() -> None:
    tallies = Confusion().tally(seen_of([0, 0, 1, -1, 1], [0, 1, 1, 0, 0], [4, 1]))

    assert tallies.tolist() == [[1, 1, 0, 1], [0, 0, 1, 0]]


def test_rows_count_alike_however_many_samples_they_have() -> None:
    counts = np.array([[30.0, 10.0, 1.0, 1.0]])

    assert Confusion(shrink=0.0).vectors(counts, np.zeros(4)).tolist() == [[0.375, 0.125, 0.25, 0.25]]


def test_rows_are_drawn_toward_those_of_everybody() -> None:
    everywhere = np.array([4.0, 0.0, 2.0, 2.0])
    rows = Confusion(shrink=2.0).vectors(np.array([[0.0, 2.0, 0.0, 0.0]]), everywhere)

    assert rows.tolist() == [[0.25, 0.25, 0.25, 0.25]]


def test_absent_label_stands_as_for_everybody_and_an_unheard_of_one_anywhere() -> None:
    for shrink in (0.0, 2.0):
        rows = Confusion(shrink=shrink).vectors(np.array([[0.0, 0.0, 0.0, 5.0]]), np.array([3.0, 1.0, 0.0, 4.0]))

        assert rows.tolist() == [[0.375, 0.125, 0.0, 0.5]]
    assert Confusion(shrink=0.0).vectors(np.array([[2.0, 0.0, 0.0, 0.0]]), np.zeros(4)).tolist() == [
        [0.5, 0, 0.25, 0.25]
    ]


def test_soft_confusion_sums_probabilities_and_with_a_sure_model_is_confusion() -> None:
    none = np.zeros((1, 2), dtype=np.float32)
    doubtful = Seen(labels=np.array([0]), features=none, scores=none, sizes=np.array([1]))
    sure = seen_of([0, 0, 1], [0, 1, 1], [3])
    certain = replace(sure, scores=1000.0 * sure.scores)

    assert SoftConfusion().tally(doubtful).tolist() == [[0.5, 0.5, 0.0, 0.0]]
    assert SoftConfusion().tally(certain).tolist() == Confusion().tally(sure).tolist()
