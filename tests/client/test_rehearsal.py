"""When a client that rehearses looks, and what it remembers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.client.rehearsal import LEAST_LOOK, PER_LABEL, Confidence, choose_remembered, look_ends, update_confidence


@pytest.mark.parametrize(
    ("counts", "ends"),
    [([], []), ([9], []), ([10], [10]), ([9, 1, 9], [10]), ([12, 3, 8], [12, 23]), ([4, 0, 4, 4], [12])],
)
def test_intervals_are_looked_at_together_until_there_are_enough(counts: list[int], ends: list[int]) -> None:
    intervals = np.repeat(np.arange(len(counts)), counts)

    assert look_ends(intervals) == ends
    assert LEAST_LOOK == 10


def test_alarms_are_told_by_where_their_looks_began() -> None:
    calm, lost = np.full(20, 0.1), np.full(20, 3.0)

    confidence, alarms = update_confidence(Confidence(), np.concatenate([calm, calm, lost, lost]), [20, 40, 60, 80])

    assert alarms == [40], "what fell is normal from then on"
    assert confidence.mean == pytest.approx(np.exp(-3.0))
    assert update_confidence(confidence, np.empty(0), []) == (confidence, [])


def test_a_look_begins_with_the_first_sample() -> None:
    used, _ = update_confidence(Confidence(), np.full(40, 0.1), [20, 40])

    assert update_confidence(Confidence(), np.full(10, 0.1), [10])[0].weight == 10
    assert update_confidence(used, np.full(20, 3.0), [20])[1] == [0]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=100), st.integers(0, 2**32))
def test_what_is_remembered_in_two_steps_is_what_would_be_at_once(labels: list[int], seed: int) -> None:
    y = np.array(labels, dtype=np.int32)
    draws = np.random.default_rng(seed).permutation(y.size).astype(np.uint64)
    first = np.flatnonzero(choose_remembered(y[: y.size // 2], draws[: y.size // 2]))
    together = np.concatenate([first, np.arange(y.size // 2, y.size)])

    in_steps = together[choose_remembered(y[together], draws[together])]

    at_once = np.flatnonzero(choose_remembered(y, draws))
    assert in_steps.tolist() == at_once.tolist()
    assert np.bincount(y[at_once], minlength=3).tolist() == np.minimum(np.bincount(y, minlength=3), PER_LABEL).tolist()
