"""An audit: an attacker who knows all samples but one decides which value that one has, in 20,000 trials or more.

From how often it is right and wrong follows an epsilon that the mechanism has at least, with 95 % confidence
(Clopper and Pearson); it must not exceed the one that is claimed.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import log

import numpy as np
import pytest

from fielding._typing import Counts, Vector
from fielding.client.privacy.accountant import noise_for
from fielding.client.privacy.counts import PRIVATE, SENSITIVITY, STEPS, count_samples, sum_samples, unit_of
from fielding.client.privacy.gaussian import DiscreteGaussian
from fielding.client.privacy.geometric import TwoSidedGeometric, repeatable_words
from fielding.client.privacy.ledger import PrivacyLedger
from fielding.client.privacy.rule import PrivacyRule, gaussian_rule
from fielding.client.privacy.training import FOREVER, MODELS, PrivateTraining, draw_samples
from fielding.client.representation.registry import representation_named
from fielding.client.representation.representation import Representation, Seen
from fielding.federation.dp_fedavg import DpFedAvg
from fielding.training.numpy_models import Dense
from fielding.training.numpy_trainer import NumpyTrainer
from fielding.training.trainer import LocalWork, PrivateSteps, Sgd
from tests.federation.test_dp_fedavg import updates_of

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


def canaries(name: str) -> tuple[Representation, Counts, Counts]:
    """Return two values of a sample, in whole steps, that are as far from each other as can be."""
    representation, sides = representation_named(name), []
    for side in (0, 1):
        features = np.full((1, 1), 5.0 - 10.0 * side if name == "embedding" else 5.0, dtype=np.float32)
        seen = Seen(
            labels=np.array([side]), features=features, scores=np.zeros((1, 2), dtype=np.float32), sizes=np.ones(1, int)
        )
        sides.append(sum_samples(representation, seen, 1.0)[0])
    return representation, *sides


def least_epsilon_of_sums(name: str, noise: DiscreteGaussian) -> float:
    """Return what the best attack on a sum shows: how far it lies from one canary towards the other."""
    from scipy.stats import beta, norm

    rng, (_, one, other) = np.random.default_rng(4), canaries(name)
    apart = (one - other) / np.linalg.norm(one - other)
    assert SENSITIVITY * STEPS - 2 * one.size <= (one - other) @ apart <= SENSITIVITY * STEPS
    drawn = noise.draw(2 * N_DRAWS * one.size, repeatable_words(rng)).reshape(2, N_DRAWS, one.size)
    threshold = other @ apart + noise.sigma * norm.isf(RARE)
    right, wrong = (
        int(((truth + each) @ apart > threshold).sum()) for truth, each in zip((one, other), drawn, strict=True)
    )
    surely_right = beta.ppf(SURE, right, N_DRAWS - right + 1) - float(GAUSSIAN.delta)
    return float(log(surely_right / beta.ppf(1 - SURE, wrong + 1, N_DRAWS - wrong)))


@pytest.mark.parametrize("name", ["embedding", "head-gradient"])
def test_no_attack_on_sums_shows_more_than_is_claimed_and_half_the_noise_is_found_out(name: str) -> None:
    noise = GAUSSIAN.gaussian_noise(unit_of(representation_named(name)))

    assert 0.3 * GAUSSIAN.epsilon < least_epsilon_of_sums(name, noise) <= GAUSSIAN.epsilon
    assert least_epsilon_of_sums(name, DiscreteGaussian(sigma=noise.sigma // 2)) > GAUSSIAN.epsilon


# ---- private training: many noised sums, of which each has the canary by chance --------------------------------------

EPSILON, DELTA, RATE, N_STEPS = 1.5, 1e-5, 0.5, 4
NOISE = noise_for(EPSILON, DELTA, rate=RATE, n_steps=N_STEPS)


def least_epsilon_of_training(statistic: Callable[[bool, float], Vector], noise: float) -> float:
    """Return what the best threshold on a statistic shows.

    ``statistic``: the noised sums of :data:`N_DRAWS` trainings, each over its steps, in clips; with the canary or not.
    """
    from scipy.stats import beta, norm

    threshold = noise * np.sqrt(N_STEPS) * norm.isf(RARE)
    right, wrong = (int((statistic(has, noise) > threshold).sum()) for has in (True, False))
    surely_right = beta.ppf(SURE, right, N_DRAWS - right + 1) - DELTA
    return float(log(surely_right / beta.ppf(1 - SURE, wrong + 1, N_DRAWS - wrong)))


def trained_by_dp_sgd(has_canary: bool, noise: float) -> Vector:
    """Train as many participants as there are trials, of whom each has the canary alone, or a blank in its place."""
    clip, rng, learning_rate = 0.1, np.random.default_rng(7 + has_canary), 1e-3
    trainer = NumpyTrainer(Dense(n_inputs=1, n_hidden=0, n_classes=2))
    models = np.zeros((1, trainer.layout.size), dtype=np.float32)
    is_drawn = draw_samples(N_DRAWS, RATE, n_steps=N_STEPS, words=repeatable_words(rng)).T[:, :, np.newaxis]
    work = LocalWork(
        models=models,
        start=np.zeros(N_DRAWS, dtype=np.int64),
        draws=np.zeros(is_drawn.shape, dtype=np.int64),
        gather=lambda rows: (np.full((*rows.shape, 1), 1000.0, dtype=np.float32), np.zeros(rows.shape, dtype=np.int32)),
        sgd=Sgd(learning_rate=learning_rate),
        private=PrivateSteps(
            is_drawn=is_drawn & has_canary,
            clip=clip,
            noise=noise,
            batch=np.ones(N_DRAWS),
            normals=[rng.standard_normal] * N_DRAWS,
        ),
    )
    changes = trainer.train(work).models.astype(np.float64) / (learning_rate * clip)
    towards = trainer.gradient(models[0], np.full((1, 1), 1000.0, np.float32), np.zeros(1, dtype=np.int32))
    return np.asarray(changes @ -(towards / np.linalg.norm(towards)))


def trained_by_dp_fedavg(has_canary: bool, noise: float) -> Vector:
    """Let a server make models of one number, in as many runs as there are trials; the canary is the only client."""
    rng, clip = np.random.default_rng(8 + has_canary), 2.0
    words = repeatable_words(rng)
    rule = PrivateTraining(
        epsilon=EPSILON, delta=DELTA, clip=clip, noise=noise, rate=RATE, n_times=N_STEPS, window=FOREVER
    )
    sums, expected = np.zeros(N_DRAWS), np.ones(1)
    nothing = updates_of(np.zeros((0, 1)), np.zeros(0, dtype=np.int64))
    canary = updates_of(np.full((1, 1), 50.0), np.zeros(1, dtype=np.int64))
    start = np.zeros((1, 1), dtype=np.float32)
    for trial in range(N_DRAWS):
        server = DpFedAvg(
            rule=rule, ledger=PrivacyLedger(None, rule.rule(MODELS)), words=lambda *_: words, n_parameters=1
        )
        for at in range(N_STEPS):
            sent = canary if has_canary and server.draw_clients(1, at)[0] else nothing
            sums[trial] += float(server.noised(start, replace(sent, round_index=at), expected).models[0, 0]) / clip
    return sums


@pytest.mark.parametrize("train", [trained_by_dp_sgd, pytest.param(trained_by_dp_fedavg, marks=pytest.mark.slow)])
def test_no_attack_on_training_shows_more_than_is_claimed_and_a_third_of_the_noise_is_found_out(
    train: Callable[[bool, float], Vector],
) -> None:
    assert 0.15 * EPSILON < least_epsilon_of_training(train, NOISE) <= EPSILON
    assert least_epsilon_of_training(train, NOISE / 3) > EPSILON
