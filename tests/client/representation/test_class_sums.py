import numpy as np

from fielding.client.representation.embedding import ClassSums, class_sums
from fielding.client.representation.representation import Seen


def test_sums_by_class_are_read_as_they_were_written() -> None:
    scores = np.zeros((4, 3), dtype=np.float32)
    known = Seen(labels=np.array([2, 0, 2, 1]), features=scores, scores=scores, sizes=np.array([3, 1]))
    inputs = np.array([[1.0, 1.0], [2.0, 0.0], [3.0, 3.0], [0.0, 5.0]])

    sums = ClassSums.of(class_sums(known, inputs), 2)

    assert sums.counts.tolist() == [[1, 0, 2], [0, 1, 0]]
    assert sums.sums[0].tolist() == [[2, 0], [0, 0], [4, 4]]
    assert sums.squares.tolist() == [2 + 4 + 18, 25]
    assert sums.n_samples.tolist() == [[3], [1]]
    assert sums.mean_square == (24 + 25) / 4
    assert sums.class_means()[0].tolist() == [[2, 0], [2, 4 / 3], [2, 2]]
    assert sums.class_means()[1].tolist() == [[0, 5], [0, 5], [0, 5]]
