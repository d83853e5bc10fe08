import numpy as np
import pytest

from fielding.client.drift import Always, AnyChange, DriftTest, Periodic
from fielding.runtime.observe import LabelObserver
from tests.simulation.small import small_windows


@pytest.mark.parametrize("drift_test", [Always(), AnyChange(), Periodic(rounds=1)])
def test_a_held_report_is_told_in_the_next_round_and_wakes_nobody_else(drift_test: DriftTest) -> None:
    observer = LabelObserver(small_windows(), drift_test)
    first = observer.observe(0)
    assert first.clients.tolist() == [0, 1, 2, 3, 4, 5]

    observer.hold(np.array([2, 5]))
    again = observer.observe(1)

    assert again.clients.tolist() == [2, 5]
    assert again.representations.tolist() == first.representations[[2, 5]].tolist()
    assert again.n_samples.tolist() == first.n_samples[[2, 5]].tolist()


def test_a_report_held_until_new_samples_come_tells_of_them() -> None:
    observer, steady = (LabelObserver(small_windows(), AnyChange()) for _ in range(2))
    for round_index in (0, 1):
        observer.observe(round_index)
        steady.observe(round_index)
        observer.hold(np.array([4]))

    late, on_time = observer.observe(2), steady.observe(2)

    assert late.clients.tolist() == on_time.clients.tolist() == [0, 1, 2, 3, 4, 5]
    assert late.representations.tolist() == on_time.representations.tolist()


def test_nobody_who_was_not_held_repeats_itself() -> None:
    observer = LabelObserver(small_windows(), AnyChange())
    observer.observe(0)

    assert len(observer.observe(1)) == 0
