import numpy as np
import pytest

from fielding.errors import InputError, OptionError
from fielding.traces.scenarios.concept_swap import ConceptSwap, shared_meanings
from fielding.traces.scenarios.dealing import redraw_mixes
from fielding.traces.scenarios.looks import Affine, Rotation
from fielding.traces.scenarios.mixed import Mixed
from fielding.traces.schedule import AS_IS
from tests.traces.scenarios.pools import concepts_of, histograms, image_pool, request_for, vector_pool

POOL = image_pool()


def test_the_concept_is_the_pair_of_look_and_meaning() -> None:
    schedule = Mixed(looks=3, concepts=2).deal(POOL, request_for(), seed=1)
    concept = concepts_of(schedule)[schedule.interval, schedule.client]
    meanings = shared_meanings(POOL, ConceptSwap(concepts=2), seed=1)

    assert set(concept.tolist()) == set(range(6))
    assert (schedule.look == concept // 2).all()
    assert (schedule.y == meanings[concept % 2, POOL.y[schedule.sample]]).all()


def test_looks_are_those_of_places() -> None:
    assert Mixed().deal(POOL, request_for(), seed=1).looks == (AS_IS, Rotation(quarter_turns=1))
    assert [type(look) for look in Mixed(looks=6).deal(vector_pool(), request_for(), seed=1).looks[1:]] == [Affine] * 5


def test_label_mix_look_and_meaning_change_independently() -> None:
    pool, request = image_pool(), request_for(4000, 3, samples=1)
    states = concepts_of(Mixed(share=0.4).deal(pool, request, seed=1))
    _, mix_of = redraw_mixes(pool, request, alpha=0.5, share=0.4, seed=1)
    changes = np.stack([half[2] != half[1] for half in (states // 2, states % 2, mix_of)])

    np.testing.assert_allclose(changes.mean(axis=1), 0.4, atol=0.03)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert abs((changes[one] & changes[other]).mean() - 0.16) < 0.03
    assert abs(changes.all(axis=0).mean() - 0.064) < 0.02


def test_clients_begin_in_every_pair_alike_often() -> None:
    states = concepts_of(Mixed().deal(POOL, request_for(4000, 2, samples=1), seed=1))

    np.testing.assert_allclose(np.bincount(states[0]) / 4000, 0.25, atol=0.03)


def test_label_mixes_change_at_events_and_stay_in_between() -> None:
    request = request_for(60, 4, n_first=2, samples=3000)
    shares = histograms(Mixed(share=0.5, looks=1, concepts=1).deal(POOL, request, seed=1), 6)
    moved = np.abs(np.diff(shares, axis=0)).sum(axis=2)
    _, mix_of = redraw_mixes(POOL, request, alpha=0.5, share=0.5, seed=1)
    is_new = np.diff(mix_of, axis=0) != 0

    assert not is_new[0].any()
    assert is_new[1:].any(axis=1).all()
    assert moved[~is_new].max() < 0.15 < moved[is_new].min()


def test_every_redrawn_mix_belongs_to_one_client() -> None:
    mixes, mix_of = redraw_mixes(POOL, request_for(30, 6), alpha=0.5, share=0.5, seed=1)

    np.testing.assert_allclose(mixes.sum(axis=1), 1.0)
    assert np.unique(mixes, axis=0).shape == mixes.shape
    owners = [set(np.flatnonzero((mix_of == mix).any(axis=0)).tolist()) for mix in range(mixes.shape[0])]
    assert all(len(owner) == 1 for owner in owners)


def test_without_alpha_all_keep_the_mix_of_the_pool() -> None:
    shares = histograms(Mixed(alpha=0, share=1.0).deal(POOL, request_for(5, 4, samples=3000), seed=1), 6)

    np.testing.assert_allclose(shares, 1 / 6, atol=0.04)


def test_one_look_and_one_meaning_leave_label_shift_alone() -> None:
    schedule = Mixed(looks=1, concepts=1).deal(image_pool(height=8, width=5), request_for(), seed=1)

    assert not concepts_of(schedule).any()
    assert (schedule.y == POOL.y[schedule.sample]).all()


def test_knobs_out_of_range_are_errors() -> None:
    with pytest.raises(OptionError, match="looks is 0; give a whole number"):
        Mixed(looks=0)
    with pytest.raises(OptionError, match="concepts is 0"):
        Mixed(concepts=0)
    with pytest.raises(OptionError, match="swaps is 0"):
        Mixed(swaps=0)
    with pytest.raises(OptionError, match="share is 15"):
        Mixed(share=15)


def test_images_have_four_looks_at_most_and_none_if_they_cannot_be_turned() -> None:
    with pytest.raises(OptionError, match="looks is 5; give a whole number from 1 to 4"):
        Mixed(looks=5).deal(POOL, request_for(), seed=1)
    with pytest.raises(InputError, match="8 x 5 pixels cannot be turned"):
        Mixed().deal(image_pool(height=8, width=5), request_for(), seed=1)
