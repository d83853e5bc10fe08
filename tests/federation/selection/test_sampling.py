import numpy as np

from fielding.federation.selection.selector import smallest_draws, uniforms, weighted_sample
from fielding.rng import hashed


def test_uniforms_lie_strictly_between_zero_and_one() -> None:
    numbers = uniforms(np.array([0, 1, 2**64 - 1], dtype=np.uint64))

    assert (numbers > 0.0).all()
    assert (numbers < 1.0).all()


def test_the_first_of_a_weighted_sample_comes_by_weight() -> None:
    weights, n_rounds = np.array([1.0, 2.0, 5.0, 0.0]), 4000
    firsts = [
        int(weighted_sample(weights, hashed(1, "test", one, np.arange(4, dtype=np.uint64)), 1)[0])
        for one in range(n_rounds)
    ]

    # Six standard deviations of a share of 4000 draws are at most 0.048.
    shares = np.bincount(firsts, minlength=4) / n_rounds
    assert np.abs(shares - weights / 8.0).max() < 0.048
    assert shares[3] == 0.0


def test_pairs_come_as_if_drawn_one_after_the_other() -> None:
    weights, n_rounds = np.array([1.0, 2.0, 5.0]), 4000
    pairs = [
        tuple(weighted_sample(weights, hashed(2, "test", one, np.arange(3, dtype=np.uint64)), 2).tolist())
        for one in range(n_rounds)
    ]

    for first in range(3):
        for second in {0, 1, 2} - {first}:
            expected = weights[first] / 8.0 * weights[second] / (8.0 - weights[first])
            assert abs(pairs.count((first, second)) / n_rounds - expected) < 0.048


def test_what_weighs_nothing_comes_last_and_by_its_hash() -> None:
    draws = np.array([9, 3, 5, 1], dtype=np.uint64)

    assert weighted_sample(np.array([0.0, 0.0, 1.0, 0.0]), draws, 3).tolist() == [2, 3, 1]
    assert weighted_sample(np.zeros(4), draws, 2).tolist() == [3, 1]
    assert weighted_sample(np.array([5e-324, 0.0, 1.0, 0.0]), draws, 2).tolist() == [2, 3]


def test_no_more_comes_than_there_is_and_nothing_if_nothing_is_wanted() -> None:
    draws = np.array([9, 3], dtype=np.uint64)

    assert sorted(weighted_sample(np.ones(2), draws, 5).tolist()) == [0, 1]
    assert weighted_sample(np.ones(2), draws, -1).size == 0
    assert smallest_draws(draws, 1).tolist() == [1]
    assert smallest_draws(draws, -1).size == 0
