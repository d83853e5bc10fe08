import numpy as np
import pytest

from fielding.traces.pool import Pool
from fielding.traces.scenarios.dealing import (
    client_mixes,
    concept_mixes,
    drifters,
    first_states,
    other_states,
    slot_units,
    units,
    wander,
    wholes,
)
from tests.traces.scenarios.pools import request_for, vector_pool


def test_drawn_numbers_spread_evenly_and_stay_below_one() -> None:
    drawn = units(1, "test", np.arange(100_000, dtype=np.uint64))

    assert 0.0 <= drawn.min() < 1e-3
    assert 1.0 - 1e-3 < drawn.max() < 1.0
    assert np.abs(np.bincount(wholes(10, drawn)) / 100_000 - 0.1).max() < 0.005


def test_every_sample_has_a_draw_of_its_own_unless_intervals_repeat() -> None:
    request = request_for(5, 4, samples=3)

    drawn = slot_units(request, 1, "label")
    repeated = slot_units(request, 1, "label", is_repeated=True)

    assert drawn.shape == (5, 4, 3)
    assert np.unique(drawn).size == 60
    assert np.unique(repeated).size == 15
    assert (repeated == repeated[:, :1]).all()


def test_draws_of_different_purposes_and_seeds_differ() -> None:
    request = request_for()

    assert (slot_units(request, 1, "label") != slot_units(request, 1, "sample")).all()
    assert (slot_units(request, 1, "label") != slot_units(request, 2, "label")).all()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_share_of_clients_drifts(share: float) -> None:
    request = request_for(10_000)

    assert abs(drifters(request, 1, share=share, event=3).mean() - share) < 0.02


def test_other_clients_drift_at_another_event() -> None:
    request = request_for(1000)
    both = drifters(request, 1, share=0.5, event=3) & drifters(request, 1, share=0.5, event=4)

    assert 0.2 < both.mean() < 0.3


def test_all_states_are_equally_likely_at_first() -> None:
    assert np.abs(np.bincount(first_states(request_for(10_000), 4, seed=1)) / 10_000 - 0.25).max() < 0.02


def test_another_state_is_never_the_same_and_any_other() -> None:
    states = np.arange(9000) % 3

    others = other_states(states, 3, units(1, "test", np.arange(9000, dtype=np.uint64)))

    assert not (others == states).any()
    assert np.abs(np.bincount((others - states) % 3)[1:] / 9000 - 0.5).max() < 0.02
    assert other_states(np.zeros(2, dtype=np.int64), 1, np.array([0.0, 0.9])).tolist() == [0, 0]


def test_nobody_moves_before_the_training_starts() -> None:
    states = wander(request_for(200, 8, n_first=3), 4, share=1.0, seed=1)

    assert (states[:3] == states[0]).all()
    assert (states[3:] != states[2:-1]).all()


def test_events_may_be_rarer_than_intervals() -> None:
    states = wander(request_for(200, 8, n_first=2), 4, share=1.0, seed=1, every=3)

    moved = (states[1:] != states[:-1]).any(axis=1)

    assert (np.flatnonzero(moved) + 1).tolist() == [2, 5]


def test_mixes_give_nothing_to_labels_without_samples() -> None:
    pool = Pool(x=np.eye(4), y=np.array([0, 2, 2, 2], dtype=np.int32), classes=("a", "b", "c", "d"))

    for mixes in (
        concept_mixes(pool, 50, alpha=0.01, seed=1),
        client_mixes(pool, request_for(50), alpha=0.5, seed=1),
        client_mixes(pool, request_for(50), alpha=0, seed=1),
    ):
        np.testing.assert_allclose(mixes.sum(axis=1), 1.0)
        assert (mixes[:, [1, 3]] == 0.0).all()


def test_mix_of_the_pool_is_how_often_its_labels_are() -> None:
    pool = Pool(x=np.eye(4), y=np.array([0, 2, 2, 2], dtype=np.int32), classes=("a", "b", "c"))

    assert client_mixes(pool, request_for(50), alpha=0, seed=1).tolist() == [[0.25, 0.0, 0.75]]


def test_lower_alpha_makes_mixes_of_fewer_labels() -> None:
    pool = vector_pool()

    largest = [concept_mixes(pool, 200, alpha=alpha, seed=1).max(axis=1).mean() for alpha in (0.05, 0.5, 5.0)]

    assert largest[0] > largest[1] > largest[2]


def test_more_concepts_leave_the_mixes_of_the_first_alone() -> None:
    pool = vector_pool()

    assert (concept_mixes(pool, 5, alpha=0.5, seed=1)[:3] == concept_mixes(pool, 3, alpha=0.5, seed=1)).all()
