"""The shared model looks at every sample once, and what it saw is found again while the sample is visible."""

import numpy as np
import pytest

from fielding._typing import Codes, Counts, Features
from fielding.runtime.observe import Sight
from fielding.runtime.workers import Workers
from fielding.traces.sliding import SlidingWindows
from tests.runtime.plans import softmax_trainer
from tests.runtime.seeing import MODEL, windows_of


def open_sight() -> Sight:
    sight = Sight(windows_of({0: [(1, 2), (3,)], 1: [(-1,), (-2,)]}), Workers(softmax_trainer()))
    sight.model = MODEL
    return sight


def rows(*values: int) -> Counts:
    return np.array(values, dtype=np.int64)


def test_what_comes_and_what_goes_is_told() -> None:
    sight = open_sight()

    assert [part.tolist() for part in sight.show(rows(0, 1, 3))] == [[], [0, 1, 3]]
    assert [part.tolist() for part in sight.show(rows(1, 2, 4))] == [[0, 3], [2, 4]]
    assert [part.tolist() for part in sight.show(rows())] == [[1, 2, 4], []]
    assert [part.tolist() for part in sight.show(rows(0))] == [[], [0]]


def test_samples_are_seen_with_their_labels_in_any_order_of_clients() -> None:
    sight = open_sight()
    sight.show(rows(0, 1, 3))
    sight.show(rows(0, 1, 2, 3, 4))

    seen = sight.of(rows(3, 4, 0, 1, 2), np.array([2, 3]))

    assert seen.features[:, 0].tolist() == [-1.0, -2.0, 1.0, 2.0, 3.0]
    assert seen.scores[:, 1].tolist() == [-1.0, -2.0, 1.0, 2.0, 3.0]
    assert seen.labels.tolist() == [0, 0, 1, 1, 1]
    assert seen.owners.tolist() == [0, 0, 1, 1, 1]
    assert seen.n_head == MODEL.size


def test_nobody_looks_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = SlidingWindows.gather

    def gather(windows: SlidingWindows, which: Counts) -> tuple[Features, Codes]:
        asked.extend(which.tolist())
        return real(windows, which)

    monkeypatch.setattr(SlidingWindows, "gather", gather)
    sight = open_sight()
    for visible in (rows(0, 1), rows(0, 1, 2), rows(1, 2, 4), rows(2, 3, 4)):
        sight.show(visible)
        sight.of(visible, np.array([visible.size]))

    assert asked == [0, 1, 2, 4, 3]


def test_gradients_are_sums_over_the_samples_of_a_client() -> None:
    sight = open_sight()
    sight.show(rows(0, 1, 3))
    both = sight.of(rows(0, 1, 3), np.array([2, 0, 1])).gradients()
    alone = sight.of(rows(0), np.array([1])).gradients() + sight.of(rows(1), np.array([1])).gradients()

    assert both.shape == (3, MODEL.size)
    assert np.allclose(both[0], alone[0])
    assert not both[1].any()
    # Sample 0: feature 1, label b, scores -1 and 1: softmax of a is 1 / (1 + e^2).
    share = 1.0 / (1.0 + np.exp(2.0))
    assert np.allclose(sight.of(rows(0), np.array([1])).gradients()[0], [share, -share, share, -share])


def test_labels_alone_need_no_model() -> None:
    sight = Sight(windows_of({0: [(1, -2)]}), None)

    assert sight.is_open
    assert not sight.needs_model
    assert [part.tolist() for part in sight.show(rows(0, 1))] == [[], [0, 1]]
    assert [part.tolist() for part in sight.show(rows(1))] == [[0], []]
    seen = sight.of(rows(1), np.array([1]))
    assert seen.labels.tolist() == [0]
    assert (seen.features.shape, seen.scores.shape) == ((1, 0), (1, 2))
    with pytest.raises(RuntimeError, match="need a shared model"):
        seen.gradients()


def test_a_sight_without_its_model_is_closed() -> None:
    sight = Sight(windows_of({0: [(1,)]}), Workers(softmax_trainer()))

    assert sight.needs_model
    assert not sight.is_open
