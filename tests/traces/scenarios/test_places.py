import numpy as np
import pytest

from fielding.errors import InputError, OptionError
from fielding.traces.scenarios.looks import Affine, Rotation
from fielding.traces.scenarios.places import Places
from fielding.traces.schedule import AS_IS
from tests.traces.scenarios.pools import concepts_of, histograms, image_pool, request_for, vector_pool


def test_defaults_are_those_that_the_demo_promises() -> None:
    assert Places() == Places(places=4, alpha=0.5, share=0.3, at_first=0, looks=True)


def test_images_are_turned_by_90_degrees_times_the_place() -> None:
    schedule = Places().deal(image_pool(), request_for(), seed=1)

    assert schedule.looks == (AS_IS, *(Rotation(quarter_turns=turns) for turns in (1, 2, 3)))
    assert (schedule.look == concepts_of(schedule)[schedule.interval, schedule.client]).all()


def test_the_fifth_place_looks_like_the_first_but_has_a_mix_of_its_own() -> None:
    schedule = Places(places=5, share=0.0).deal(image_pool(), request_for(100, 1, n_first=1, samples=500), seed=1)
    concept = concepts_of(schedule)[0]
    shares = histograms(schedule, 6)[0]

    assert (schedule.look == concept[schedule.client] % 4).all()
    assert np.abs(shares[concept == 4].mean(axis=0) - shares[concept == 0].mean(axis=0)).max() > 0.1


def test_vectors_look_different_in_every_place_but_the_first() -> None:
    schedule = Places(places=6).deal(vector_pool(), request_for(), seed=1)

    assert schedule.looks[0] is AS_IS
    assert [type(look) for look in schedule.looks[1:]] == [Affine] * 5
    x = vector_pool().features(np.arange(9))
    changed = [look.apply(x) for look in schedule.looks]
    assert all((changed[one] != changed[other]).all() for one in range(6) for other in range(one))


def test_places_may_differ_in_labels_alone() -> None:
    schedule = Places(looks=False).deal(image_pool(height=8, width=5), request_for(), seed=1)

    assert schedule.looks == (AS_IS,)
    assert not schedule.look.any()


def test_oblong_images_are_refused_before_anything_is_dealt() -> None:
    with pytest.raises(InputError, match="8 x 5 pixels cannot be turned"):
        Places().deal(image_pool(height=8, width=5), request_for(), seed=1)


def test_one_place_is_a_scenario_without_drift() -> None:
    schedule = Places(places=1, share=1.0).deal(image_pool(height=8, width=5), request_for(), seed=1)

    assert not concepts_of(schedule).any()


def test_places_that_open_halfway_fill_until_all_are_equally_full() -> None:
    request = request_for(2000, 8, n_first=2)
    concepts = concepts_of(Places(at_first=2, share=0.0).deal(image_pool(), request, seed=1))

    assert request.halfway == 5
    assert (concepts[:5] < 2).all()
    assert (concepts[:5] == concepts[0]).all()
    assert (concepts[5:] == concepts[5]).all()
    assert np.bincount(concepts[5]) == pytest.approx([500] * 4, abs=75)  # within 4 standard deviations
    stayed = concepts[5] == concepts[4]
    assert (stayed == (concepts[5] < 2)).all()


def test_all_places_at_first_are_the_same_as_none_to_open() -> None:
    dealt = [Places(at_first=count).deal(image_pool(), request_for(), seed=1) for count in (0, 4)]

    assert (concepts_of(dealt[0]) == concepts_of(dealt[1])).all()


def test_knobs_out_of_range_are_errors() -> None:
    with pytest.raises(OptionError, match="places is 0"):
        Places(places=0)
    with pytest.raises(OptionError, match="share is 30"):
        Places(share=30)
    with pytest.raises(OptionError, match="at_first is 5"):
        Places(at_first=5)
