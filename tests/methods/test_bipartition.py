import numpy as np
import pytest

from fielding.methods.cfl import bipartition


def test_opposite_updates_are_told_apart_whatever_their_length() -> None:
    updates = np.array([[1.0, 0.0], [-9.0, 0.0], [3.0, 0.1], [-1.0, 0.1]], dtype=np.float32)

    is_second, gap = bipartition(updates)

    assert is_second.tolist() == [False, True, False, True]
    assert gap == pytest.approx(1.0, abs=0.01)


def test_the_gap_is_that_of_the_closest_pair_across() -> None:
    updates = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], dtype=np.float32)

    # A cosine of 0, whichever side the one in the middle is on.
    assert bipartition(updates)[1] == pytest.approx(np.sqrt(0.5))


def test_equal_updates_still_make_two_halves_without_a_gap() -> None:
    is_second, gap = bipartition(np.ones((5, 3), dtype=np.float32))

    assert 0 < is_second.sum() < 5
    assert gap < 1e-7
