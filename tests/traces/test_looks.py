import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

from fielding.errors import InputError, OptionError
from fielding.rng import stream
from fielding.traces.pool import Pool, Scaling
from fielding.traces.scenarios.looks import Affine, Blur, Brightness, Rotation, affine_look, check_turns, feature_range
from tests.traces.scenarios.pools import image_pool, vector_pool


def images(*shape: int) -> np.ndarray:
    return stream(3, "images").random(shape, dtype=np.float32)


def one_label_pool(x: np.ndarray, scaling: Scaling | None = None) -> Pool:
    return Pool(x=x, y=np.zeros(len(x), dtype=np.int32), classes=("a",), scaling=scaling)


def test_four_quarter_turns_are_none() -> None:
    x = images(3, 4, 4, 2)
    turned = x
    for _ in range(4):
        turned = Rotation(quarter_turns=1).apply(turned)

    assert (turned == x).all()
    assert (Rotation(quarter_turns=1).apply(x) != x).any()


def test_half_a_turn_puts_an_image_upside_down_whatever_its_shape() -> None:
    x = images(2, 3, 5)

    assert (Rotation(quarter_turns=2).apply(x) == x[:, ::-1, ::-1]).all()


@pytest.mark.parametrize("turns", [1, 3, -1])
def test_quarter_turns_of_oblong_images_are_an_error(turns: int) -> None:
    with pytest.raises(InputError, match="3 x 5 pixels cannot be turned by 90 degrees"):
        Rotation(quarter_turns=turns).apply(images(2, 3, 5))
    with pytest.raises(InputError, match="3 x 5"):
        check_turns((3, 5, 1), turns)


def test_vectors_can_be_neither_turned_nor_blurred() -> None:
    with pytest.raises(InputError, match=r"needs images"):
        Rotation(quarter_turns=2).apply(images(2, 3))
    with pytest.raises(InputError, match=r"needs images"):
        Blur(sigma=1.0).apply(images(2, 3))


def test_brightness_adds_a_share_of_the_range_and_cuts_off() -> None:
    x = np.array([[[0, 4], [12, 16]]], dtype=np.float32)

    assert Brightness(amount=0.5, high=16.0).apply(x).tolist() == [[[8, 12], [16, 16]]]
    assert Brightness(amount=-0.25, high=16.0).apply(x).tolist() == [[[0, 0], [8, 12]]]


@pytest.mark.parametrize("amount", [1.5, -1.01, float("nan")])
def test_brightness_beyond_all_white_is_an_error(amount: float) -> None:
    with pytest.raises(OptionError, match="give a number from -1 to 1"):
        Brightness(amount=amount)


def test_brightness_needs_a_range_that_is_the_right_way_round() -> None:
    with pytest.raises(OptionError, match="low must not be above high"):
        Brightness(amount=0.1, low=1.0, high=0.0)


def test_range_of_bytes_is_that_of_pixels_even_if_none_is_white() -> None:
    assert feature_range(one_label_pool(np.full((2, 2, 2), 9, dtype=np.uint8))) == (0.0, 1.0)


def test_range_of_numbers_is_what_they_take_up_after_scaling() -> None:
    x = np.array([[[2.0, 4.0]], [[10.0, 6.0]]])

    assert feature_range(one_label_pool(x, Scaling(shift=2.0, factor=0.5))) == (0.0, 4.0)
    assert feature_range(one_label_pool(x, Scaling(factor=-1.0))) == (-10.0, -2.0)
    own = Scaling(shift=np.zeros(x.shape[1:]), factor=np.full(x.shape[1:], -1.0))
    assert feature_range(one_label_pool(x, own)) == (-10.0, -2.0)


@pytest.mark.parametrize("shape", [(4, 9, 7), (2, 8, 8, 3), (1, 1, 5), (3, 2, 2)])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.5])
def test_blur_is_the_gaussian_filter_of_scipy(shape: tuple[int, ...], sigma: float) -> None:
    x = images(*shape)
    sigmas = (0.0, sigma, sigma) + (0.0,) * (len(shape) - 3)

    expected = gaussian_filter(x.astype(np.float64), sigmas, mode="reflect", truncate=3.0)

    np.testing.assert_allclose(Blur(sigma=sigma).apply(x), expected, atol=1e-6)


@given(sigma=st.floats(0.0, 5.0), gray=st.floats(0.0, 1.0, width=32))
def test_blur_keeps_an_even_gray(sigma: float, gray: float) -> None:
    x = np.full((1, 4, 6), gray, dtype=np.float32)

    np.testing.assert_allclose(Blur(sigma=sigma).apply(x), x, atol=1e-5)


@pytest.mark.parametrize("sigma", [-1.0, float("inf"), float("nan")])
def test_blur_of_no_width_is_an_error(sigma: float) -> None:
    with pytest.raises(OptionError, match="sigma is"):
        Blur(sigma=sigma)


def in_spreads(look: Affine, x: np.ndarray) -> np.ndarray:
    return (x.astype(np.float64) - look.center) / look.spread


@pytest.mark.parametrize("n_features", [1, 2, 5, 64])
def test_affine_look_keeps_distances_measured_in_spreads(n_features: int) -> None:
    pool = vector_pool(n_features=n_features)
    look = affine_look(pool, intensity=1.0, rng=stream(1, "look"))
    x = pool.features(np.arange(10))

    before, after = in_spreads(look, x), in_spreads(look, look.apply(x))

    for one in range(10):
        np.testing.assert_allclose(
            np.linalg.norm(after - after[one], axis=1),
            np.linalg.norm(before - before[one], axis=1),
            rtol=1e-4,
            atol=1e-4,
        )


def test_affine_look_without_intensity_leaves_every_bit_as_it_was() -> None:
    pool = vector_pool()
    x = pool.features(np.arange(60))

    assert (affine_look(pool, intensity=0.0, rng=stream(1, "look")).apply(x) == x).all()


def test_affine_look_changes_more_with_more_intensity() -> None:
    pool = vector_pool(n_features=20)
    x = pool.features(np.arange(60))

    changes = [
        float(np.abs(affine_look(pool, intensity=size, rng=stream(1, "look")).apply(x) - x).mean())
        for size in (0.1, 0.4, 1.0)
    ]

    assert changes == sorted(changes)
    assert changes[0] < 0.5 * changes[2]


def test_affine_look_leaves_features_that_never_vary_alone() -> None:
    x = vector_pool(n_features=4).x.copy()
    x[:, 1] = 5.0
    pool = one_label_pool(x)
    rows = pool.features(np.arange(60))

    changed = affine_look(pool, intensity=1.0, rng=stream(1, "look")).apply(rows)

    assert (changed[:, 1] == 5.0).all()
    assert np.isfinite(changed).all()


def test_affine_look_of_images_or_other_lengths_is_an_error() -> None:
    with pytest.raises(InputError, match="needs vectors"):
        affine_look(image_pool(), intensity=1.0, rng=stream(1, "look"))
    look = affine_look(vector_pool(n_features=4), intensity=1.0, rng=stream(1, "look"))
    with pytest.raises(InputError, match=r"samples have shape \(3,\); this look was made for \(4,\)"):
        look.apply(images(2, 3))
