from fractions import Fraction
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.client.privacy.geometric import (
    MOST_TERM,
    TwoSidedGeometric,
    Words,
    repeatable_words,
    secret_words,
    uniform_below,
)
from fielding.errors import OptionError

SCALES = [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(4000)]


@pytest.mark.parametrize("scale", SCALES)
def test_draws_come_as_often_as_their_probabilities_say(scale: Fraction) -> None:
    from scipy.stats import chi2

    noise, n_draws = TwoSidedGeometric(scale=scale), 40_000
    drawn = noise.draw(n_draws, repeatable_words(np.random.default_rng(5)))
    # Bins of about a tenth of the scale, so that each is expected at least 50 times.
    width = max(1, int(scale) // 4)
    bins = np.floor_divide(drawn, width)
    edges = range(-60, 60)  # beyond, nothing is expected
    expected = np.array([sum(noise.probability(k) for k in range(b * width, (b + 1) * width)) for b in edges]) * n_draws
    counted = np.array([(bins == b).sum() for b in edges])
    is_frequent = expected >= 50
    rest = expected[~is_frequent].sum(), counted[~is_frequent].sum()

    deviation = ((counted - expected) ** 2 / expected.clip(1e-300))[is_frequent].sum() + (rest[1] - rest[0]) ** 2 / max(
        rest[0], 1.0
    )
    assert chi2.sf(deviation, is_frequent.sum()) > 0.001
    assert np.abs(drawn.mean()) < 5 * np.sqrt(noise.variance / n_draws)
    assert drawn.var() == pytest.approx(noise.variance, rel=0.1)


@pytest.mark.parametrize("scale", SCALES[:3])
def test_probabilities_add_up_to_one_and_give_the_variance(scale: Fraction) -> None:
    noise = TwoSidedGeometric(scale=scale)
    span = range(-200, 201)

    assert sum(noise.probability(k) for k in span) == pytest.approx(1.0)
    assert sum(k * k * noise.probability(k) for k in span) == pytest.approx(noise.variance)
    assert noise.probability(3) / noise.probability(2) == pytest.approx(exp(-1 / scale))


def test_words_that_would_favour_small_numbers_are_drawn_again() -> None:
    bound = 3 * 2**62  # of 2**64 words, those from 3 * 2**62 on have no equal share
    given_words = iter([[2**64 - 1, 5], [bound], [bound - 1]])

    def words(n_words: int) -> Words:
        found = np.array(next(given_words), dtype=np.uint64)
        assert found.size == n_words
        return found

    assert uniform_below(np.array([bound, bound], dtype=np.uint64), words).tolist() == [bound - 1, 5]


def test_devices_draw_from_the_cryptographic_source_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    import secrets

    monkeypatch.setattr(secrets, "token_bytes", lambda n: b"\x01" * n)

    assert secret_words(2).tolist() == [0x0101010101010101] * 2


def test_the_same_generator_gives_the_same_noise() -> None:
    noise = TwoSidedGeometric(scale=Fraction(5))
    first, second = (noise.draw(50, repeatable_words(np.random.default_rng(2))) for _ in range(2))

    assert first.tolist() == second.tolist()
    assert noise.draw(50, secret_words).tolist() != noise.draw(50, secret_words).tolist()


@given(st.integers(1, MOST_TERM), st.integers(1, MOST_TERM))
def test_scales_of_any_size_can_be_drawn_from(numerator: int, denominator: int) -> None:
    noise = TwoSidedGeometric(scale=Fraction(numerator, denominator))

    drawn = noise.draw(3, repeatable_words(np.random.default_rng(0)))

    assert (np.abs(drawn) <= 60 * max(1.0, float(noise.scale))).all()


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), 0.5, Fraction(MOST_TERM + 1), Fraction(1, MOST_TERM + 1)])
def test_a_scale_that_cannot_be_drawn_from_is_refused(scale: Fraction) -> None:
    with pytest.raises(OptionError, match="scale of the noise"):
        TwoSidedGeometric(scale=scale)
