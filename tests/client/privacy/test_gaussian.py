"""The discrete Gaussian: how it is drawn, and what releases with it tell in all."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from fielding.client.privacy.gaussian import MOST_SIGMA, DiscreteGaussian, best_order, epsilon_of_rho, rho_of
from fielding.client.privacy.geometric import repeatable_words, secret_words
from fielding.errors import OptionError
from tests.client.privacy.reference import Case, known_epsilons

DP_ACCOUNTING = {  # sigma, releases, delta: RdpAccountant of dp-accounting 0.6.0 at the order of best_order
    (0.7, 1, 1e-5): 7.162095177978125,
    (1.0, 1, 1e-5): 4.728386984943313,
    (1.0, 20, 1e-6): 32.2216609490976,
    (2.0, 5, 1e-6): 5.9268180155404515,
    (4.0, 20, 1e-5): 5.377672104169559,
    (16.0, 20, 1e-5): 1.1431463099033385,
    (16.0, 1, 1e-6): 0.2609561411826489,
}


@pytest.mark.parametrize("sigma", [1, 2, 5])
def test_values_come_as_often_as_their_probabilities_say(sigma: int) -> None:
    from scipy.stats import chisquare

    noise, n_draws = DiscreteGaussian(sigma=sigma), 60_000
    drawn = noise.draw(n_draws, repeatable_words(np.random.default_rng(sigma)))
    values = np.arange(-2 * sigma - 1, 2 * sigma + 2)
    expected = np.array([noise.probability(int(one)) for one in values])
    seen = np.array([(drawn == one).sum() for one in values])

    rest = n_draws - seen.sum()
    assert chisquare([*seen, rest], n_draws * np.array([*expected, 1.0 - expected.sum()])).pvalue > 0.001
    assert np.abs(drawn).max() > 3 * sigma  # tails are there


def test_large_noise_is_drawn_exactly_too_and_devices_have_their_own() -> None:
    words = repeatable_words(np.random.default_rng(1))
    drawn = DiscreteGaussian(sigma=MOST_SIGMA).draw(4000, words) / MOST_SIGMA

    assert abs(drawn.mean()) < 5 / sqrt(4000)
    assert abs(drawn.std() - 1.0) < 0.05
    assert abs((np.abs(drawn) > 2.0).mean() - 0.0455) < 0.015
    assert DiscreteGaussian(sigma=10).draw(5, secret_words).shape == (5,)


@pytest.mark.parametrize("sigma", [0, 1.5, MOST_SIGMA + 1])
def test_sigma_is_a_whole_number_that_words_can_hold(sigma: object) -> None:
    with pytest.raises(OptionError, match="sigma of the noise is"):
        DiscreteGaussian(sigma=sigma)  # type: ignore[arg-type]


@pytest.mark.parametrize(("sigma", "n", "delta"), DP_ACCOUNTING)
def test_epsilon_is_that_of_dp_accounting(sigma: float, n: int, delta: float) -> None:
    assert epsilon_of_rho(n / (2 * sigma**2), delta) == pytest.approx(DP_ACCOUNTING[sigma, n, delta], abs=1e-6)


def test_epsilon_is_that_of_the_installed_dp_accounting() -> None:
    at_best: list[Case] = [
        (1.0, sigma, n, (best_order(n / (2 * sigma**2), delta),), delta) for sigma, n, delta in DP_ACCOUNTING
    ]
    usual: list[Case] = [(1.0, sigma, n, None, delta) for sigma, n, delta in DP_ACCOUNTING]
    known = known_epsilons([*at_best, *usual])

    for best, few in zip(at_best, usual, strict=True):
        own = epsilon_of_rho(best[2] / (2 * best[1] ** 2), best[4])
        assert own == pytest.approx(known[best][0], abs=1e-6)
        assert known[best][1] <= own <= known[few][0] + 1e-9, "the exact one is of continuous noise; its orders are few"


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-5), (1.0, 1e-6), (8.0, 1e-5), (1000.0, 1e-9)])
def test_a_budget_is_as_large_as_epsilon_allows_and_no_larger(epsilon: float, delta: float) -> None:
    budget = rho_of(epsilon, delta)

    assert isinstance(budget, Fraction)
    assert epsilon_of_rho(float(budget), delta) <= epsilon
    assert epsilon_of_rho(1.001 * float(budget) + 1e-11, delta) > epsilon


def test_nothing_released_tells_nothing() -> None:
    assert epsilon_of_rho(0.0, 1e-5) == 0.0
