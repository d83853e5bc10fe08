import numpy as np
import pytest

from fielding.errors import OptionError
from fielding.traces.scenarios.dealing import concept_mixes
from fielding.traces.scenarios.dirichlet import Dirichlet, Recurring, gradual_progress, mixed_concepts
from tests.traces.scenarios.pools import concepts_of, histograms, image_pool, request_for

POOL = image_pool()
TWO_MIXES = concept_mixes(POOL, 2, alpha=0.5, seed=1)


def two_concepts(kind: str, *, intensity: float = 1.0, duration: int = 3) -> Dirichlet:
    """Return a scenario in which everyone changes to the one other concept at every event."""
    return Dirichlet(kind=kind, concepts=2, share=1.0, intensity=intensity, duration=duration)


def shares_of_the_new(scenario: Dirichlet, n_intervals: int) -> list[float]:
    """Return, for each interval, how much of the other concept is in what a client sees."""
    schedule = scenario.deal(POOL, request_for(1, n_intervals, n_first=1, samples=8000), seed=1)
    first = int(concepts_of(schedule)[0, 0])
    here, there = TWO_MIXES[first], TWO_MIXES[1 - first]
    seen = histograms(schedule, 6)[:, 0]
    return ((seen - here) @ (there - here) / ((there - here) @ (there - here))).round(1).tolist()


def test_sudden_change_is_complete_at_once() -> None:
    assert shares_of_the_new(two_concepts("sudden"), 4) == [0.0, 1.0, 0.0, 1.0]


def test_gradual_change_takes_its_time_and_then_the_next_begins() -> None:
    assert shares_of_the_new(two_concepts("gradual", duration=5), 9) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 0.8, 0.6, 0.4]


def test_recurring_change_comes_and_goes() -> None:
    assert shares_of_the_new(two_concepts("recurring"), 8) == [0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0]


def test_intensity_is_the_share_of_samples_from_the_new_concept() -> None:
    assert shares_of_the_new(two_concepts("sudden", intensity=0.3), 4) == [0.0, 0.3, 0.0, 0.3]
    assert shares_of_the_new(two_concepts("gradual", intensity=0.5, duration=5), 6) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]


def test_no_intensity_is_no_drift() -> None:
    schedule = two_concepts("sudden", intensity=0.0).deal(POOL, request_for(), seed=1)

    assert (concepts_of(schedule) == concepts_of(schedule)[0]).all()


def test_the_concept_of_a_change_under_way_is_the_nearer_one() -> None:
    schedule = two_concepts("gradual", duration=3).deal(POOL, request_for(5, 7, n_first=1), seed=1)
    states = concepts_of(schedule)

    assert ((states != states[0]).all(axis=1)).tolist() == [False, False, True, True, True, False, False]


def test_recurring_clients_return_to_the_concept_that_they_left_and_leave_for_the_same_one() -> None:
    schedule = Recurring(share=0.5, concepts=5).deal(POOL, request_for(200, 10, n_first=2), seed=1)
    states = concepts_of(schedule)

    assert (states[[4, 5, 8, 9]] == states[0]).all()
    assert (states[2] == states[3]).all()
    out_twice = (states[2] != states[0]) & (states[6] != states[0])
    assert 0.15 < out_twice.mean() < 0.35
    assert (states[2] == states[6])[out_twice].all()


def test_recurring_is_a_kind_of_dirichlet() -> None:
    ours = Recurring(period=3, intensity=0.5).deal(POOL, request_for(), seed=1)
    theirs = Dirichlet(kind="recurring", period=3, intensity=0.5).deal(POOL, request_for(), seed=1)

    assert (ours.sample == theirs.sample).all()
    assert (concepts_of(ours) == concepts_of(theirs)).all()


def test_progress_counts_from_the_first_event() -> None:
    assert gradual_progress(request_for(n_intervals=6, n_first=2), 2).tolist() == [1.0, 1.0, 0.5, 1.0, 0.5, 1.0]


@pytest.mark.parametrize("n_states", [1, 2, 5])
def test_every_pair_of_first_and_present_state_has_a_number_of_its_own(n_states: int) -> None:
    first, present = (grid.ravel() for grid in np.meshgrid(np.arange(n_states), np.arange(n_states)))
    states = np.array([first, present], dtype=np.int32)

    numbers = mixed_concepts(states, n_states, intensity=0.5)[1]

    assert sorted(numbers.tolist()) == list(range(n_states**2))
    assert (numbers[first == present] == first[first == present]).all()


def test_knobs_out_of_range_are_errors() -> None:
    with pytest.raises(OptionError, match="kind is 'slow'; give one of sudden, gradual, recurring"):
        Dirichlet(kind="slow")
    with pytest.raises(OptionError, match="period is 0"):
        Recurring(period=0)
    with pytest.raises(OptionError, match="intensity is 2"):
        Dirichlet(intensity=2)
