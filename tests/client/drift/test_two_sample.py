from itertools import combinations

import numpy as np
import pytest

from fielding.client.drift.two_sample import Ks, Mmd, ks_p_values
from fielding.errors import OptionError
from fielding.rng import stream
from tests.client.drift.batches import batch, simulated


@pytest.mark.parametrize(("n", "m"), [(3, 3), (5, 8), (40, 17), (1, 6)])
def test_ks_p_values_are_those_of_the_textbook(n: int, m: int) -> None:
    from scipy.stats import ks_2samp

    rng = stream(1, "ks", n, m)
    first, second = rng.standard_normal((n, 3)), rng.standard_normal((m, 3)) + 0.5

    expected = [ks_2samp(first[:, at], second[:, at], method="exact").pvalue for at in range(3)]
    assert ks_p_values(first, second) == pytest.approx(np.array(expected), abs=1e-12)


def test_ks_level_is_exact_over_all_deals() -> None:
    values = np.arange(7.0)[:, np.newaxis]
    chosen = [np.isin(np.arange(7), deal) for deal in combinations(range(7), 3)]
    answers = np.array([ks_p_values(values[deal], values[~deal])[0] for deal in chosen])

    for alpha in np.unique(answers):
        assert (answers <= alpha + 1e-12).mean() == pytest.approx(alpha)


def test_ks_does_not_overflow() -> None:
    rng = stream(1, "ks-large")

    assert 0.0 <= ks_p_values(rng.random((900, 1)), rng.random((900, 1)))[0] <= 1.0


def test_equal_values_are_never_far_apart() -> None:
    assert ks_p_values(np.ones((9, 1)), np.ones((4, 1))).tolist() == [1.0]


def test_mmd_sees_a_change_of_spread_that_leaves_the_mean() -> None:
    rng = stream(2, "spread")
    then = batch(labels=np.zeros(80, dtype=np.int64), features=rng.standard_normal((80, 3)))
    now = batch(labels=np.zeros(60, dtype=np.int64), features=3.0 * rng.standard_normal((60, 3)))

    assert Mmd().p_values(then, now)[0] < 1e-3


def test_matched_and_drawn_mmd_agree() -> None:
    pair = simulated("none", 30)

    assert Mmd().p_values(*pair) == pytest.approx(Mmd(deals=499).p_values(*pair), abs=0.12)


def test_drawn_p_values_never_fall_below_one_in_the_number_of_deals() -> None:
    assert Mmd(deals=19).p_values(*simulated("looks", 3)) == pytest.approx(0.05)


@pytest.mark.parametrize("sample_test", [Mmd(limit=10), Ks(limit=10)], ids=repr)
def test_only_the_latest_samples_count(sample_test: Mmd | Ks) -> None:
    reference, fresh = simulated("looks", 1)

    latest = reference.rows(slice(70, 80), sizes=np.array([10])), fresh.rows(slice(30, 40), sizes=np.array([10]))
    assert sample_test.p_values(reference, fresh) == pytest.approx(sample_test.p_values(*latest))


@pytest.mark.parametrize("options", [{"deals": -1}, {"deals": True}, {"deals": 1.5}, {"limit": 0}])
def test_mmd_refuses_options_that_make_no_sense(options: dict[str, int]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        Mmd(**options)


@pytest.mark.parametrize("options", [{"basis": "ica"}, {"axes": 0}, {"limit": 0}])
def test_ks_refuses_options_that_make_no_sense(options: dict[str, int]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        Ks(**options)  # type: ignore[arg-type]
