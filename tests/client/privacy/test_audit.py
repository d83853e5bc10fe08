"""An audit: an attacker who knows all samples but one decides which value that one has, in 20,000 trials.

From how often it is right and wrong follows an epsilon that the mechanism has at least, with 95 % confidence
(Clopper and Pearson); it must not exceed the one that is claimed.
"""

from dataclasses import replace
from fractions import Fraction
from math import log

import numpy as np
import pytest

from fielding._typing import Counts
from fielding.client.privacy.counts import PRIVATE, SENSITIVITY, STEPS, count_samples, sum_samples, unit_of
from fielding.client.privacy.gaussian import DiscreteGaussian
from fielding.client.privacy.geometric import TwoSidedGeometric, repeatable_words
from fielding.client.privacy.rule import PrivacyRule, gaussian_rule
from fielding.client.representation.embedding import Embedding
from fielding.client.representation.registry import representation_named
from fielding.client.representation.representation import Seen

N_TRIALS = 20_000
SURE = 0.025  # one-sided, for each of two rates


def window(canary: int) -> Seen:
    """Return a window of 20 samples of three classes, seen by a sure model; the first one is the canary."""
    labels = np.array([canary, *(at % 3 for at in range(19))], dtype=np.int64)
    scores = (40.0 * np.eye(3)[labels]).astype(np.float32)
    return Seen(labels=labels, features=scores, scores=scores, sizes=np.array([labels.size]))


def least_epsilon(one: Counts, other: Counts, noise: TwoSidedGeometric) -> float:
    """Return what the best attack shows that the mechanism tells at least."""
    from scipy.stats import beta

    rng = np.random.default_rng(9)

    def says_one(truth: Counts) -> int:
        noised = truth + noise.draw(N_TRIALS * truth.size, repeatable_words(rng)).reshape(N_TRIALS, truth.size)
        evidence = np.abs(noised - other).sum(axis=1) - np.abs(noised - one).sum(axis=1)
        return int((evidence >= np.abs(one - other).sum()).sum())  # as sure as it ever can be

    right, wrong = says_one(one), says_one(other)
    surely_right = beta.ppf(SURE, right, N_TRIALS - right + 1)
    at_most_wrong = beta.ppf(1 - SURE, wrong + 1, N_TRIALS - wrong)
    return log(surely_right / at_most_wrong)


@pytest.mark.parametrize("name", PRIVATE)
def test_no_attack_shows_more_than_the_epsilon_that_is_claimed(name: str) -> None:
    representation = representation_named(name)
    rule = PrivacyRule(epsilon=Fraction(3, 2), reports=1, window=10)
    one, other = (count_samples(representation, window(canary))[0] for canary in (0, 2))

    shown = least_epsilon(one, other, rule.noise(unit_of(representation)))

    assert shown <= rule.epsilon
    assert shown > 0.9 * rule.epsilon  # the attack is as good as it can be: half the noise would be found out


def test_the_audit_finds_noise_that_is_too_small() -> None:
    label, rule = representation_named("label"), PrivacyRule(epsilon=Fraction(3, 2), reports=1, window=10)
    one, other = (count_samples(label, window(canary))[0] for canary in (0, 2))
    careless = TwoSidedGeometric(scale=rule.noise(1).scale / 2)  # as if one sample changed the counts by 1

    assert least_epsilon(one, other, careless) > rule.epsilon


# ---- sums with Gaussian noise ----------------------------------------------------------------------------------------

GAUSSIAN = gaussian_rule(epsilon=Fraction(3, 2), delta=Fraction(1, 10**5), reports=1, window=10)
N_DRAWS = 30_000
RARE = 0.003  # how often the attacker is to be wrong: that shows the most


def least_epsilon_of_sums(noise: DiscreteGaussian) -> float:
    """Return what the best attack on one number shows, whose canary is as far out as it can be, on either side."""
    from scipy.stats import beta, norm

    rng = np.random.default_rng(4)
    one, other = (
        int(sum_samples(Embedding(), replace(window(0), features=np.full((20, 1), side, "f4")), 1.0)[0, 0])
        for side in (5.0, -5.0)
    )
    one = other + (one - other) // 20  # only one of the 20 samples differs
    assert one - other == SENSITIVITY * STEPS
    threshold = other + noise.sigma * norm.isf(RARE)
    right, wrong = (
        int((truth + noise.draw(N_DRAWS, repeatable_words(rng)) > threshold).sum()) for truth in (one, other)
    )
    surely_right = beta.ppf(SURE, right, N_DRAWS - right + 1) - float(GAUSSIAN.delta)
    return float(log(surely_right / beta.ppf(1 - SURE, wrong + 1, N_DRAWS - wrong)))


def test_no_attack_on_sums_shows_more_than_is_claimed_and_half_the_noise_is_found_out() -> None:
    noise = GAUSSIAN.gaussian_noise(unit_of(Embedding()))

    assert 0.3 * GAUSSIAN.epsilon < least_epsilon_of_sums(noise) <= GAUSSIAN.epsilon
    assert least_epsilon_of_sums(DiscreteGaussian(sigma=noise.sigma // 2)) > GAUSSIAN.epsilon
