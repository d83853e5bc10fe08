import numpy as np
import pytest

from fielding.client.privacy.geometric import RandomWords, repeatable_words
from fielding.client.privacy.ledger import PrivacyLedger
from fielding.client.privacy.training import FOREVER, MODELS, PrivateTraining
from fielding.federation.aggregation import Mean
from fielding.federation.clients import Updates
from fielding.federation.cluster_models import ClusterModels
from fielding.federation.dp_fedavg import MOST_NOISE, DpFedAvg

RULE = PrivateTraining(epsilon=8.0, delta=1e-5, clip=2.0, noise=1e-12, rate=0.5, n_times=3, window=FOREVER)
N = 6


def words(round_index: int, purpose: int) -> RandomWords:
    return repeatable_words(np.random.default_rng([round_index, purpose]))


def sums(rule: PrivateTraining = RULE, n_parameters: int = N - 1) -> DpFedAvg:
    return DpFedAvg(rule=rule, ledger=PrivacyLedger(None, rule.rule(MODELS)), words=words, n_parameters=n_parameters)


def updates_of(models: np.ndarray, start: np.ndarray, round_index: int = 0) -> Updates:
    n = len(start)
    return Updates(
        clients=np.arange(n),
        groups=start,
        start=start,
        models=models.astype(np.float32),
        n_samples=np.full(n, 7),
        loss=np.ones(n),
        square_loss=np.ones(n),
        n_parameters=N - 1,
        learning_rate=0.1,
        round_index=round_index,
    )


def test_updates_are_cut_down_and_divided_by_the_participants_that_were_expected() -> None:
    sent = np.zeros((2, N))
    sent[0, 0], sent[1, 1], sent[:, 5] = 10.0, 1.0, 9.0

    found = sums().noised(np.zeros((2, N), dtype=np.float32), updates_of(sent, np.zeros(2, int)), np.array([4.0, 0.0]))

    assert found.start.tolist() == [0]
    np.testing.assert_allclose(found.models, [[0.5, 0.25, 0.0, 0.0, 0.0, 0.0]], atol=1e-6)


def test_a_client_changes_a_model_by_a_clip_at_most_and_what_is_no_parameter_by_nothing() -> None:
    rng, start = np.random.default_rng(1), np.zeros((1, N), dtype=np.float32)
    sent = rng.normal(scale=5.0, size=(8, N))

    both = [
        sums().noised(start, updates_of(one, np.zeros(len(one), int)), np.array([4.0])).models[0]
        for one in (sent, sent[1:])
    ]

    assert np.linalg.norm(both[0] - both[1]) == pytest.approx(RULE.clip / 4.0, rel=1e-5)


def test_noise_is_added_once_for_each_cluster_also_without_answers() -> None:
    rule = PrivateTraining(epsilon=8.0, delta=1e-5, clip=2.0, noise=3.0, rate=0.5, n_times=3, window=3)
    start, nothing = np.zeros((2, 5000), dtype=np.float32), updates_of(np.zeros((0, 5000)), np.zeros(0, int))

    found = sums(rule, 5000).noised(start, nothing, np.array([4.0, 8.0])).models

    np.testing.assert_allclose(found.std(axis=1), [1.5, 0.75], rtol=0.05)
    assert abs(float(np.mean(found[0] * found[1]))) < 0.05 * 1.5 * 0.75


def test_clusters_that_noise_would_drown_do_not_train() -> None:
    rule = PrivateTraining(epsilon=8.0, delta=1e-5, clip=2.0, noise=1.0, rate=0.5, n_times=3, window=3)
    private = sums(rule, 10_000)

    assert private.least_members == 100 / (0.5 * MOST_NOISE)
    assert private.expected(np.array([39.0, 40.0, 0.0])).tolist() == [0.0, 20.0, 0.0]


def test_models_that_tell_more_than_the_budget_are_not_made(caplog: pytest.LogCaptureFixture) -> None:
    private = sums()
    models = ClusterModels(np.zeros(N, dtype=np.float32), Mean(), private=private)
    models.expected = np.array([4.0])
    for at in range(3):
        models.learn(updates_of(np.ones((1, N)), np.zeros(1, int), at))
    before = models.models.copy()

    assert not private.draw_clients(50, 3).any()
    models.learn(updates_of(np.ones((1, N)), np.zeros(1, int), 3))
    assert "round 3: what models may tell of a client is spent" in caplog.text
    np.testing.assert_array_equal(models.models, before)
    assert before[0, 0] > 0.5
