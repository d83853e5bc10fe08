import numpy as np
import pytest

from fielding.client.representation import Seen
from fielding.client.representation.loss import Loss, sample_losses

LOG2 = float(np.log(2.0))


def test_loss_of_a_sample_is_its_cross_entropy() -> None:
    scores = np.array([[0.0, 0.0], [0.0, 1e4], [0.0, -1e4]], dtype=np.float32)
    seen = Seen(labels=np.array([1, 1, 1]), features=scores, scores=scores, sizes=np.array([3]))

    assert sample_losses(seen) == pytest.approx([LOG2, 0.0, 1e4])


def test_losses_are_added_up_by_class() -> None:
    scores = np.zeros((4, 2), dtype=np.float32)
    seen = Seen(labels=np.array([1, 1, 0, -1]), features=scores, scores=scores, sizes=np.array([2, 2]))

    assert np.allclose(Loss().tally(seen), [[0, 0, 2, 2 * LOG2, 2 * LOG2**2], [1, LOG2, 0, 0, LOG2**2]])


def test_classes_are_drawn_toward_everybody_and_absent_ones_are_theirs() -> None:
    everywhere = np.array([2.0, 2.0, 1.0, 5.0, 0.0])  # losses 1 and 5
    by_class = np.array([2.0 / np.sqrt(2.0), 5.0 / np.sqrt(2.0)])

    vector = Loss(shrink=2.0).vectors(np.array([[2.0, 6.0, 0.0, 0.0, 0.0]]), everywhere)[0]

    assert vector == pytest.approx([*by_class, 3.0, 1.0])


@pytest.mark.parametrize("shrink", [0.0, 2.0])
def test_class_that_nobody_had_is_as_hard_as_all(shrink: float) -> None:
    vector = Loss(shrink=shrink).vectors(np.array([[1.0, 4.0, 0.0, 0.0, 0.0]]), np.array([1.0, 4.0, 0.0, 0.0, 0.0]))[0]

    assert vector == pytest.approx([4.0 / np.sqrt(2.0), 4.0 / np.sqrt(2.0), 4.0, 1.0])


def test_what_rounding_left_of_a_class_that_went_is_nothing() -> None:
    everywhere = np.array([1.0, 4.0, 1.0, 3.0, 0.0])
    clean, left = Loss().vectors(np.array([[1.0, 4.0, 0.0, 0.0, 0.0], [1.0, 4.0, 0.0, 1e-3, 0.0]]), everywhere)

    assert left[1] == clean[1]


def test_scale_is_the_spread_of_losses() -> None:
    assert Loss().scale(np.array([1.0, 1.0, 1.0, 5.0, 26.0])) == pytest.approx(2.0)
    assert Loss().scale(np.zeros(5)) == 1.0
