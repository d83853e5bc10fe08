import numpy as np
import pytest

from fielding.errors import InputError, OptionError
from fielding.traces.pool import Pool
from fielding.traces.scenarios.covariate import Covariate
from fielding.traces.scenarios.looks import Blur, Brightness, Rotation
from fielding.traces.schedule import AS_IS, Look
from tests.traces.scenarios.pools import concepts_of, histograms, image_pool, request_for, vector_pool


def looks_of(scenario: Covariate) -> tuple[Look, ...]:
    return scenario.deal(image_pool(), request_for(), seed=1).looks


def test_labels_are_as_in_the_pool_whatever_the_look() -> None:
    schedule = Covariate().deal(image_pool(), request_for(3, 5, samples=6000), seed=1)

    assert np.abs(histograms(schedule, 6) - 1 / 6).max() < 0.03


def test_clients_may_have_label_mixes_of_their_own_which_they_keep() -> None:
    shares = histograms(Covariate(alpha=0.5).deal(image_pool(), request_for(3, 5, samples=6000), seed=1), 6)

    assert np.abs(shares - shares[0]).max() < 0.03
    assert np.abs(shares[0, 0] - shares[0, 1]).max() > 0.1


def test_images_are_turned_unless_another_look_is_asked_for() -> None:
    assert looks_of(Covariate()) == (AS_IS, *(Rotation(quarter_turns=turns) for turns in (1, 2, 3)))


def test_brightness_goes_both_ways() -> None:
    looks = looks_of(Covariate(look="brightness", concepts=5, intensity=0.5))

    assert looks == (AS_IS, *(Brightness(amount=amount) for amount in (0.125, -0.125, 0.25, -0.25)))


def test_brightness_keeps_to_the_range_of_the_pixels() -> None:
    pool = Pool(x=np.array([[[0.0, 16.0]]]), y=np.zeros(1, dtype=np.int32), classes=("a",))

    looks = Covariate(look="brightness", concepts=2).deal(pool, request_for(), seed=1).looks

    assert looks[1] == Brightness(amount=0.5, low=0.0, high=16.0)


def test_blur_grows_to_an_eighth_of_the_shorter_side() -> None:
    assert looks_of(Covariate(look="blur", concepts=3)) == (AS_IS, Blur(sigma=0.5), Blur(sigma=1.0))


def test_mixed_looks_take_turns() -> None:
    looks = looks_of(Covariate(look="mixed", concepts=5))

    assert looks == (
        AS_IS,
        Rotation(quarter_turns=1),
        Brightness(amount=0.5),
        Blur(sigma=0.5),
        Rotation(quarter_turns=2),
    )


@pytest.mark.parametrize("intensity", [0.0, 0.4, 1.0])
def test_a_share_of_the_samples_is_turned(intensity: float) -> None:
    schedule = Covariate(concepts=2, intensity=intensity).deal(image_pool(), request_for(40, 6, samples=100), seed=1)
    is_turned = schedule.look > 0
    in_second = concepts_of(schedule)[schedule.interval, schedule.client] == 1

    assert not is_turned[~in_second].any()
    if intensity:
        assert abs(is_turned[in_second].mean() - intensity) < 0.03
    else:
        assert not in_second.any()


def test_all_samples_show_a_look_that_has_a_size() -> None:
    schedule = Covariate(look="blur", intensity=0.1).deal(image_pool(), request_for(), seed=1)

    assert (schedule.look == concepts_of(schedule)[schedule.interval, schedule.client]).all()


def test_looks_that_would_repeat_are_refused() -> None:
    with pytest.raises(OptionError, match="concepts is 5; give a whole number from 1 to 4"):
        Covariate(look="rotation", concepts=5)
    with pytest.raises(OptionError, match="concepts is 11; give a whole number from 1 to 10"):
        Covariate(look="mixed", concepts=11)
    with pytest.raises(OptionError, match="concepts is 5; give a whole number from 1 to 4"):
        looks_of(Covariate(concepts=5))
    assert len(looks_of(Covariate(look="mixed", concepts=10))) == len(
        set(looks_of(Covariate(look="mixed", concepts=10)))
    )


def test_looks_that_do_not_suit_the_samples_are_refused() -> None:
    with pytest.raises(OptionError, match="look is 'blur', but the samples are vectors; give one of auto, affine"):
        Covariate(look="blur").deal(vector_pool(), request_for(), seed=1)
    with pytest.raises(OptionError, match="look is 'affine', but the samples are images; give one of auto, rotation"):
        Covariate(look="affine").deal(image_pool(), request_for(), seed=1)
    with pytest.raises(InputError, match="8 x 5 pixels cannot be turned"):
        Covariate().deal(image_pool(height=8, width=5), request_for(), seed=1)
    with pytest.raises(OptionError, match="look is 'sepia'"):
        Covariate(look="sepia")
