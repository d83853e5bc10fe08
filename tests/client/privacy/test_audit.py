"""An audit: an attacker who knows all samples but one decides which value that one has, in 20,000 trials.

From how often it is right and wrong follows an epsilon that the mechanism has at least, with 95 % confidence
(Clopper and Pearson); it must not exceed the one that is claimed.
"""

from fractions import Fraction
from math import log

import numpy as np
import pytest

from fielding._typing import Counts
from fielding.client.privacy.counts import PRIVATE, count_samples, unit_of
from fielding.client.privacy.geometric import TwoSidedGeometric, repeatable_words
from fielding.client.privacy.rule import PrivacyRule
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
