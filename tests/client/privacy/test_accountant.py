import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from fielding.client.privacy.accountant import ORDERS, divergences, epsilon_of_divergences, noise_for
from fielding.errors import OptionError
from tests.client.privacy.reference import Case, known_epsilons

WHOLE = [at for at, order in enumerate(ORDERS) if order == int(order)]


@pytest.fixture(scope="module")
def known() -> dict[Case, tuple[float, float]]:
    orders = tuple(ORDERS[at] for at in WHOLE)
    whole = itertools.product((0.01, 0.1, 0.5, 1.0), (0.7, 1.5, 6.0), (1, 100), (1e-5, 1e-3))
    others: list[Case] = [(rate, noise, 50, ORDERS, 1e-5) for rate, noise in ((0.01, 0.8), (0.1, 1.5))]
    return known_epsilons([*((rate, noise, n, orders, delta) for rate, noise, n, delta in whole), *others])


def test_of_whole_orders_it_is_the_accountant_of_dp_accounting(known: dict[Case, tuple[float, float]]) -> None:
    for (rate, noise, n_steps, orders, delta), (epsilon, _) in known.items():
        if orders != ORDERS:
            own = np.full(len(ORDERS), np.inf)
            own[WHOLE] = divergences(rate, noise, n_steps)[WHOLE]

            assert epsilon_of_divergences(own, delta) == pytest.approx(epsilon, abs=1e-6, rel=1e-6)


@pytest.mark.parametrize(("rate", "noise", "order"), [(0.1, 1.5, 4.9), (0.01, 0.7, 1.5), (0.5, 6.0, 3.3)])
def test_of_other_orders_it_is_the_integral(rate: float, noise: float, order: float) -> None:
    def integrand(z: float) -> float:
        mixed = (1 - rate) + rate * np.exp((2 * z - 1) / (2 * noise**2))
        return float(norm.pdf(z, 0, noise) * mixed**order)

    moment = quad(integrand, -12 * noise, order + 12 * noise, epsabs=1e-14, epsrel=1e-12, limit=500)[0]

    found = divergences(rate, noise)[ORDERS.index(order)]

    assert found == pytest.approx(np.log(moment) / (order - 1), rel=1e-7)


def test_it_is_never_above_dp_accounting_whose_other_orders_are_bounds(known: dict[Case, tuple[float, float]]) -> None:
    bounds = {case: epsilon for case, (epsilon, _) in known.items() if case[3] == ORDERS}

    assert len(bounds) == 2
    for (rate, noise, n_steps, _, delta), epsilon in bounds.items():
        assert 0.9 * epsilon < epsilon_of_divergences(divergences(rate, noise, n_steps), delta) <= epsilon + 1e-9


def test_noise_is_the_least_that_keeps_epsilon() -> None:
    for epsilon in (0.5, 8.0):
        noise = noise_for(epsilon, 1e-5, rate=0.1, n_steps=200)

        assert epsilon_of_divergences(divergences(0.1, noise, 200), 1e-5) <= epsilon
        assert epsilon_of_divergences(divergences(0.1, noise - 0.002, 200), 1e-5) > epsilon


def test_without_noise_enough_or_delta_there_is_none() -> None:
    with pytest.raises(OptionError, match="no noise makes 1000000000 steps tell so little"):
        noise_for(1e-4, 1e-9, rate=1.0, n_steps=10**9)
    with pytest.raises(OptionError, match="delta is 0; give a number between 0 and 1"):
        noise_for(1.0, 0, rate=1.0, n_steps=1)
