"""Oort's formulas against slow transcriptions of METHODS.md 9.2."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.federation.selection import Known
from fielding.federation.selection.oort import (
    Oort,
    exploitation_chances,
    exploration_chances,
    preferred_seconds,
    staleness_bonus,
    statistical_scores,
    utilities,
)

scores_lists = st.lists(st.just(0.0) | st.floats(1e-6, 10.0), min_size=1, max_size=30).map(np.array)


def transcribed_scores(
    utility: list[float], last: list[int], seconds: list[float], *, now: int, percentile: float, clip: float
) -> list[float]:
    """Write the score of METHODS.md 9.2 down client by client."""
    n_clients = len(utility)
    ranked = sorted(utility)
    highest = ranked[min(int(n_clients * clip), n_clients - 1)]
    least, greatest = 0.999 * min(utility), max(utility)
    times = sorted(seconds)
    preferred = math.inf if percentile >= 100 else times[min(int(n_clients * percentile / 100), n_clients - 1)]
    scores = []
    for client in range(n_clients):
        score = (min(utility[client], highest) - least) / max(greatest - least, 1e-4)
        score += math.sqrt(0.1 * math.log(now) / last[client])
        if seconds[client] > preferred:
            score *= (preferred / seconds[client]) ** 2
        scores.append(score)
    return scores


@given(st.integers(1, 40), st.integers(0, 10_000), st.sampled_from([5.0, 10.0, 35.0, 95.0, 100.0]))
def test_scores_are_their_formula(n_clients: int, seed: int, percentile: float) -> None:
    rng, now = np.random.default_rng(seed), 50
    utility, seconds = rng.uniform(0.0, 90.0, n_clients), rng.lognormal(2.0, 1.0, n_clients)
    last = rng.integers(1, now, n_clients)
    known = Known(
        round_index=now - 1,
        clients={"utility": utility, "seconds": seconds, "last_round": last.astype(np.float64)},
        cluster={"percentile": percentile},
        members=np.arange(n_clients),
    )

    scores = Oort(clip=0.9).scores(np.arange(n_clients), known)

    expected = transcribed_scores(
        utility.tolist(), last.tolist(), seconds.tolist(), now=now, percentile=percentile, clip=0.9
    )
    assert scores.tolist() == pytest.approx(expected, rel=1e-12)


@given(scores_lists, st.integers(1, 40), st.floats(0.0, 1.0), st.floats(1.0, 10.0))
def test_chances_of_exploitation_sum_to_one_and_the_best_have_some(
    scores: np.ndarray, n_slots: int, cutoff: float, pool: float
) -> None:
    chances = exploitation_chances(scores, n_slots, cutoff=cutoff, pool=pool)

    assert chances.sum() == pytest.approx(1.0)
    assert (chances >= 0.0).all()
    best = np.sort(scores)[::-1][: min(n_slots, scores.size)]
    assert (chances > 0.0).sum() >= (best > 0.0).sum()


@given(scores_lists, st.integers(0, 40))
def test_chances_of_exploration_sum_to_one_over_a_pool_of_the_largest(rewards: np.ndarray, n_pool: int) -> None:
    chances = exploration_chances(rewards, np.arange(rewards.size, dtype=np.uint64), n_pool)

    assert chances.sum() == pytest.approx(1.0)
    assert (chances > 0.0).sum() <= max(1, n_pool)
    inside, outside = rewards[chances > 0.0], rewards[chances == 0.0]
    if rewards.any() and outside[outside > 0.0].size:
        assert inside.min() >= outside.max()


def test_the_cut_lets_in_who_reaches_a_share_of_the_score_at_the_rank() -> None:
    scores = np.array([1.0, 0.8, 0.6, 0.5, 0.1])

    strict = exploitation_chances(scores, 2, cutoff=0.8, pool=1.0)
    wide = exploitation_chances(scores, 2, cutoff=0.8, pool=2.5)

    # Two places: the score at rank two (from zero) is 0.6, the cut 0.48.
    assert (strict > 0.0).tolist() == [True, True, True, True, False]
    assert strict[0] == pytest.approx(1.0 / 2.9)
    assert (wide > 0.0).all()


def test_if_all_are_exploited_the_cut_is_at_the_last_one() -> None:
    chances = exploitation_chances(np.array([1.0, 0.5]), 2, cutoff=1.0, pool=1.0)

    assert chances.tolist() == pytest.approx([2 / 3, 1 / 3])


def test_clipping_makes_outliers_like_the_quantile() -> None:
    utility = np.array([1.0, 2.0, 3.0, 1000.0])

    clipped, whole = statistical_scores(utility, 0.5), statistical_scores(utility, 1.0)

    assert clipped[3] == clipped[2] < whole[3]
    assert whole[3] == pytest.approx(1.0)


def test_equal_utilities_give_equal_scores_above_zero() -> None:
    scores = statistical_scores(np.full(3, 7.0), 0.98)

    assert scores.tolist() == pytest.approx([1.0] * 3)


def test_who_took_part_long_ago_gets_more() -> None:
    bonus = staleness_bonus(np.array([0.0, 1.0, 10.0, 99.0]), 100, 0.1)

    assert bonus[0] == bonus[1] == pytest.approx(math.sqrt(0.1 * math.log(100)))
    assert bonus[1] > bonus[2] > bonus[3] > 0.0
    assert staleness_bonus(np.array([1.0]), 1, 0.1).tolist() == [0.0]


def test_the_preferred_duration_is_a_percentile_of_those_that_are_known() -> None:
    seconds = np.array([4.0, np.nan, 1.0, 3.0, 2.0])

    assert preferred_seconds(seconds, 50.0) == 3.0
    assert preferred_seconds(seconds, 99.0) == 4.0
    assert preferred_seconds(seconds, 100.0) == math.inf
    assert preferred_seconds(np.array([np.nan]), 10.0) == math.inf


def test_a_loss_that_is_no_number_is_worth_what_the_others_are() -> None:
    worth = utilities(np.array([10, 10, 10, 10]), np.array([4.0, np.nan, np.inf, 16.0]), 5)

    assert worth.tolist() == [10.0, 15.0, 15.0, 20.0]
    assert utilities(np.array([10]), np.array([np.nan]), 5).tolist() == [0.0]
