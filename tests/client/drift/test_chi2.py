from itertools import product
from math import comb, inf, prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fielding._typing import Counts
from fielding.client.drift import Chi2, Evidence
from fielding.client.drift.pearson import excess_l1, expected_l1, p_values, pearson
from fielding.errors import OptionError
from fielding.rng import stream


def evidence_of(
    reported: Counts, fresh: Counts, *, arrived: int = 1, current: Counts | None = None, is_mixed: bool = False
) -> Evidence:
    n_clients = len(reported)
    return Evidence(
        reported=reported,
        current=fresh if current is None else current,
        fresh=fresh,
        before=reported,
        age=np.ones(n_clients, dtype=np.int64),
        arrived=np.full(n_clients, arrived),
        is_mixed=np.full(n_clients, is_mixed),
    )


def test_statistic_is_that_of_the_textbook() -> None:
    from scipy.stats import chi2_contingency

    first, second = np.array([[12, 3, 5, 0]]), np.array([[20, 30, 9, 0]])

    textbook = chi2_contingency(np.vstack([first, second])[:, :3], correction=False).statistic
    assert pearson(first, second).statistic[0] == pytest.approx(textbook, rel=1e-12)


@given(st.lists(st.integers(0, 4), min_size=2, max_size=4), st.integers(1, 15))
@settings(deadline=None, max_examples=60)
def test_moments_are_exact_over_all_ways_to_deal_the_samples(pooled: list[int], n: int) -> None:
    total = sum(pooled)
    assume(total >= 4 and n < total)
    deals = [deal for deal in product(*(range(count + 1) for count in pooled)) if sum(deal) == n]
    first = np.array(deals)
    weights = [prod(map(comb, pooled, deal)) / comb(total, n) for deal in deals]

    pair = pearson(first, np.array(pooled) - first)

    mean = np.average(pair.statistic, weights=weights)
    assert pair.mean == pytest.approx(np.full(len(deals), mean), rel=1e-9, abs=1e-12)
    variance = np.average((pair.statistic - mean) ** 2, weights=weights)
    assert pair.variance == pytest.approx(np.full(len(deals), variance), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("n_labels", "n", "m"), [(10, 10, 100), (62, 20, 100), (100, 100, 100)])
def test_moments_agree_with_permutations(n_labels: int, n: int, m: int) -> None:
    rng = stream(3, "permutations", n_labels)
    pooled = rng.multinomial(n + m, rng.dirichlet(np.full(n_labels, 0.3)))
    first = rng.multivariate_hypergeometric(pooled, n, size=20_000)

    pair = pearson(first, pooled - first)

    assert pair.statistic.mean() == pytest.approx(pair.mean[0], rel=0.02)
    assert pair.statistic.var() == pytest.approx(pair.variance[0], rel=0.06)


@pytest.mark.parametrize(
    ("n_labels", "concentration", "n", "m"),
    [(10, 0.3, 20, 100), (10, 0.1, 10, 100), (62, 0.3, 50, 100), (62, 0.1, 20, 20), (100, 5.0, 100, 100)],
)
def test_false_alarms_are_as_rare_as_promised(n_labels: int, concentration: float, n: int, m: int) -> None:
    rng = stream(1, "calibration", n_labels, n, m)
    mixes = rng.dirichlet(np.full(n_labels, concentration), size=20_000)

    p = p_values(rng.multinomial(n, mixes), rng.multinomial(m, mixes))

    # 20,000 draws at 0.01 have a standard error of 0.0007.
    assert 0.004 < (p < 0.01).mean() < 0.016


def test_whole_rule_finds_a_drifted_client_and_leaves_the_others_alone() -> None:
    rng = stream(1, "power")
    mixes = rng.dirichlet(np.full(62, 0.3), size=1000)
    reported, same, other = rng.multinomial(100, mixes), rng.multinomial(50, mixes), rng.multinomial(50, mixes[::-1])

    assert Chi2().drifted(evidence_of(reported, same)).mean() < 0.01
    assert Chi2().drifted(evidence_of(reported, other)).mean() > 0.95


def test_noise_floor_is_what_chance_alone_makes() -> None:
    rng = stream(1, "noise-floor")
    mixes = np.full((4000, 10), 0.1)
    first, second = rng.multinomial(50, mixes), rng.multinomial(50, mixes)

    distances = np.abs(first / 50 - second / 50).sum(axis=1)
    assert distances.mean() == pytest.approx(0.47, abs=0.01)
    assert expected_l1(first, second).mean() == pytest.approx(distances.mean(), rel=0.03)


def test_excess_is_never_negative() -> None:
    same = np.array([[10, 10]])

    assert excess_l1(same, same).tolist() == [0.0]
    # 2 apart; noise explains sqrt(2 / pi) * 2 * sqrt(0.25 * 0.2) = 0.357.
    assert excess_l1(np.array([[10, 0]]), np.array([[0, 10]])).round(3).tolist() == [1.643]


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.5])
def test_rule_is_a_p_value_below_alpha_and_an_effect_above_the_floor(alpha: float) -> None:
    rng = stream(1, "rule")
    mixes = rng.dirichlet(np.ones(8), size=2000)
    reported, fresh = rng.multinomial(100, mixes), rng.multinomial(30, 0.7 * mixes + 0.3 * mixes[::-1])

    expected = (p_values(fresh, reported) < alpha) & (excess_l1(fresh, reported) >= 0.3)

    assert 0 < expected.sum() < 2000
    assert (Chi2(alpha=alpha, delta_min=0.3).drifted(evidence_of(reported, fresh)) == expected).all()


def test_nothing_is_tested_before_ten_new_samples() -> None:
    reported = np.array([[100, 0]])

    assert Chi2().drifted(evidence_of(reported, np.array([[0, 9]]))).tolist() == [False]
    assert Chi2().drifted(evidence_of(reported, np.array([[0, 10]]))).tolist() == [True]
    assert Chi2(min_fresh=11).drifted(evidence_of(reported, np.array([[0, 10]]))).tolist() == [False]


def test_there_is_one_test_per_arrival() -> None:
    reported, fresh = np.array([[100, 0]]), np.array([[0, 50]])

    assert Chi2().drifted(evidence_of(reported, fresh, arrived=0)).tolist() == [False]
    assert Chi2().drifted(evidence_of(reported, fresh, arrived=1)).tolist() == [True]


def test_fresh_samples_are_judged_not_the_whole_window() -> None:
    reported = np.array([[100, 0]])
    mixed_window = np.array([[100, 20]])

    evidence = evidence_of(reported, np.array([[0, 20]]), current=mixed_window)
    assert Chi2().drifted(evidence).tolist() == [True]
    evidence = evidence_of(reported, np.array([[20, 0]]), current=mixed_window)
    assert Chi2().drifted(evidence).tolist() == [False]


def test_sure_but_small_effect_is_not_worth_a_report() -> None:
    # 0.06 apart: certain with a million samples, below a floor of 0.1.
    reported, fresh = np.array([[500_000, 500_000]]), np.array([[530_000, 470_000]])

    assert p_values(fresh, reported)[0] < 1e-100
    assert Chi2(delta_min=0.1).drifted(evidence_of(reported, fresh)).tolist() == [False]
    assert Chi2(delta_min=0.05).drifted(evidence_of(reported, fresh)).tolist() == [True]


def test_a_window_that_was_mixed_is_reported_once_more_when_all_of_it_is_new() -> None:
    reported, fresh = np.array([[10, 10]]), np.array([[9, 11]])

    assert Chi2().drifted(evidence_of(reported, fresh, is_mixed=True)).tolist() == [True]
    assert Chi2().drifted(evidence_of(reported, fresh, is_mixed=False)).tolist() == [False]
    # As long as something from before is left, and with too few samples, it has to wait.
    assert Chi2().drifted(evidence_of(reported, fresh, current=fresh + 1, is_mixed=True)).tolist() == [False]
    assert Chi2().drifted(evidence_of(reported, np.array([[2, 7]]), is_mixed=True)).tolist() == [False]
    assert Chi2().drifted(evidence_of(reported, reported, is_mixed=True)).tolist() == [False]  # nothing new to tell


def test_large_but_unsure_effect_is_not_worth_a_report() -> None:
    # 0.4 apart with ten samples: p is about 0.2.
    reported, fresh = np.array([[50, 50]]), np.array([[7, 3]])

    assert 0.1 < p_values(fresh, reported)[0] < 0.5
    assert Chi2().drifted(evidence_of(reported, fresh)).tolist() == [False]


@pytest.mark.parametrize(
    ("first", "second"),
    [([0, 0], [5, 5]), ([5, 5], [0, 0]), ([0, 0], [0, 0]), ([1, 0], [0, 2]), ([9, 0], [9, 0])],
)
def test_where_nothing_can_be_told_p_is_one(first: list[int], second: list[int]) -> None:
    assert p_values(np.array([first]), np.array([second])).tolist() == [1.0]


def test_p_value_of_a_constant_statistic_is_no_alarm() -> None:
    # One sample against three, two labels of two each: every way to deal them gives the same statistic.
    assert p_values(np.array([[1, 0]]), np.array([[1, 2]]))[0] > 0.1


def test_p_values_do_not_depend_on_the_other_rows() -> None:
    rng = stream(1, "rows")
    first, second = rng.multinomial(30, np.full(5, 0.2), size=50), rng.multinomial(40, np.full(5, 0.2), size=50)

    alone = [p_values(first[[row]], second[[row]])[0] for row in range(50)]
    assert p_values(first, second).tolist() == alone


def test_growth_reports_a_window_that_outgrew_the_last_report() -> None:
    reported = np.array([[1, 0], [1, 0], [4, 0], [1, 0]])
    fresh = np.array([[2, 1], [1, 1], [2, 1], [3, 0]])
    evidence = evidence_of(reported, fresh, current=reported + fresh)

    assert Chi2(growth=4).drifted(evidence).tolist() == [True, False, False, False]
    assert Chi2(growth=inf).drifted(evidence).tolist() == [False, False, False, False]
    waiting = evidence_of(reported, fresh, arrived=0, current=reported + fresh)
    assert Chi2(growth=4).drifted(waiting).tolist() == [False, False, False, False]


@pytest.mark.parametrize(
    ("option", "bad"),
    [("alpha", -0.1), ("alpha", 1.5), ("delta_min", 3), ("min_fresh", 0), ("min_fresh", 2.5), ("growth", 0.5)],
)
def test_option_out_of_its_range_is_refused(option: str, bad: float) -> None:
    with pytest.raises(OptionError, match=f"{option} is {bad}"):
        Chi2(**{option: bad})  # type: ignore[arg-type]
