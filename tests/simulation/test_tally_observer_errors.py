"""Samples are judged by the models that serve clients once, when they arrive."""

from collections.abc import Sequence

import numpy as np

from fielding._typing import Counts, Vector
from tests.simulation.seeing import Told, observer_of, windows_of


class Serving:
    """Says that the models err on some rows, and remembers what it was asked."""

    def __init__(self, wrong: Sequence[int]) -> None:
        self.wrong, self.asked = wrong, list[int]()

    def __call__(self, rows: Counts) -> Vector:
        self.asked += rows.tolist()
        return np.isin(rows, self.wrong).astype(np.float64)


def test_samples_are_judged_once_when_they_arrive_and_a_judge_sees_the_verdicts() -> None:
    windows = windows_of({0: [(1,), (1,), (1,), (1,)]}, n_visible=3)
    judge, serving = Told(needs_errors=True), Serving(wrong=[3])
    observer = observer_of(windows, judge=judge)
    observer.observe(0)
    observer.served_errors = serving
    observer.observe(1)

    assert serving.asked == [3], "only what arrives is judged; the first window came before models"
    then, now = judge.asked[0].reference(np.array([0])), judge.asked[0].newest(np.array([0]))
    assert np.isnan(then.errors).all()
    assert now.errors.tolist() == [1.0]
    assert judge.asked[0].earlier(np.array([0])).sizes.tolist() == [0]


def test_verdicts_survive_a_restart_and_nothing_is_judged_again() -> None:
    windows = windows_of({0: [(1,), (1,), (1,), (1,)]}, n_visible=2)
    first = observer_of(windows, judge=Told(needs_errors=True))
    first.served_errors = Serving(wrong=[2])
    for round_index in range(2):
        first.observe(round_index)

    judge, serving = Told(needs_errors=True), Serving(wrong=[])
    second = observer_of(windows, judge=judge)
    second.served_errors = serving
    second.restore(first.arrays())
    for round_index in range(3):
        second.observe(round_index)

    assert serving.asked == [3]
    assert judge.asked[0].newest(np.array([0])).errors.tolist() == [1.0]
    assert judge.asked[1].earlier(np.array([0])).errors.tolist() == [1.0]
    assert first.arrays().keys() == {"served_errors"}


def test_who_needs_no_errors_asks_and_keeps_none() -> None:
    windows = windows_of({0: [(1,), (1,)]})
    observer, serving = observer_of(windows, judge=Told()), Serving(wrong=[])
    observer.served_errors = serving
    for round_index in range(2):
        observer.observe(round_index)

    assert not serving.asked
    assert observer.arrays() == {}
