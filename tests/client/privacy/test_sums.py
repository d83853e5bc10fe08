"""Noised sums: how far one client moves them, what an attacker finds out, and what ids tell."""

from math import exp, log

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fielding._typing import Counts, Matrix
from fielding.client.privacy import sums
from fielding.client.privacy.gaussian import DiscreteGaussian, epsilon_of_rho
from fielding.client.privacy.geometric import repeatable_words
from fielding.client.privacy.sums import (
    GRID,
    SumRule,
    SumSchedule,
    choose_clusters,
    parts_of,
    randomise_ids,
    read_silhouettes,
    read_step,
    silhouette_parts,
    step_parts,
)
from fielding.errors import OptionError

N_TRIALS = 20_000
SURE = 0.025  # one-sided, for each of two rates


def some_counts(rng: np.random.Generator, n_clients: int, n_labels: int) -> Counts:
    """Return label counts of clients with few or many samples, of one label or many, or with none at all."""
    concentration = np.full(n_labels, rng.choice([0.01, 0.3, 5.0]))
    sizes = rng.choice([0, 1, 7, 1000, 10**9], n_clients)
    return np.array([rng.multinomial(size, rng.dirichlet(concentration)) for size in sizes], dtype=np.int64)


@given(seed=st.integers(0, 2**32 - 1), n_labels=st.integers(2, 70), n_centers=st.integers(2, 12))
def test_all_data_of_one_client_move_a_sum_by_the_grid_at_most(seed: int, n_labels: int, n_centers: int) -> None:
    rng = np.random.default_rng(seed)
    counts, others = some_counts(rng, 6, n_labels), some_counts(rng, 6, n_labels)
    centers = rng.dirichlet(np.full(n_labels, 0.3), n_centers)
    candidates = tuple(centers[:k] for k in range(2, n_centers + 1))

    for asked, about in (("step", (centers,)), ("silhouettes", candidates)):
        total = parts_of(asked, counts, about).sum(axis=0)  # type: ignore[arg-type]
        for client in range(6):
            changed = counts.copy()
            changed[client] = others[client]
            moved = parts_of(asked, changed, about).sum(axis=0) - total  # type: ignore[arg-type]
            assert sum(int(one) ** 2 for one in moved) <= GRID**2  # whole numbers: exact


def test_the_bound_is_reached_so_noise_is_not_wasted() -> None:
    one, other = (step_parts(np.array([counts]), np.eye(2))[0] for counts in ([5, 0], [0, 5]))

    assert float(np.square(one - other).sum()) > 0.999 * GRID**2


def test_a_step_without_noise_is_the_mean_and_the_number_of_clients() -> None:
    counts = np.array([[3, 1], [1, 0], [0, 4], [0, 0]])
    rule = SumRule(epsilon=1.0, delta=1e-5, releases=1)

    found = read_step(step_parts(counts, np.eye(2)).sum(axis=0), 2, rule)

    np.testing.assert_allclose(found.counts, [2.0, 1.0], atol=1e-3)
    np.testing.assert_allclose(found.shares, [[1.75, 0.25], [0.0, 1.0]], atol=1e-3)


def test_silhouettes_without_noise_are_their_mean() -> None:
    counts, middle = np.array([[4, 0], [3, 1], [0, 0]]), np.array([[0.5, 0.5], [0.0, 1.0]])
    total = silhouette_parts(counts, (np.eye(2), middle)).sum(axis=0)

    # On its own corner, and a quarter of the way; then the nearest is in the middle.
    np.testing.assert_allclose(read_silhouettes(total, 2.0), [(1 + 2 / 3) / 2, (0.5 + 2 / 3) / 2], atol=1e-3)


def least_epsilon(noise: DiscreteGaussian, delta: float) -> float:
    """Return what the best attack on a canary client shows that a step tells at least, with 95 % confidence."""
    from scipy.stats import beta

    rng = np.random.default_rng(5)
    others: Counts = some_counts(rng, 20, 2)
    centers: Matrix = np.eye(2)
    one, other = (step_parts(np.array([*others, own]), centers).sum(axis=0) for own in ([9, 0], [0, 9]))
    direction = (one - other).astype(np.float64) / GRID

    drawn = noise.draw(N_TRIALS * one.size, repeatable_words(rng)).reshape(N_TRIALS, one.size) @ direction
    limit = float(other @ direction) + 2.33 * noise.sigma * float(np.sqrt(direction @ direction))  # wrong in 1 of 100
    n_right, n_wrong = (int((drawn + float(truth @ direction) > limit).sum()) for truth in (one, other))
    surely_right = beta.ppf(SURE, n_right, N_TRIALS - n_right + 1)
    at_most_wrong = beta.ppf(1 - SURE, n_wrong + 1, N_TRIALS - n_wrong)
    return log((surely_right - delta) / at_most_wrong)


def test_no_attack_on_a_canary_client_shows_more_than_the_epsilon_that_is_claimed() -> None:
    rule = SumRule(epsilon=2.0, delta=1e-5, releases=1)

    assert 0.3 * rule.epsilon < least_epsilon(rule.noise(), rule.delta) <= rule.epsilon
    careless = DiscreteGaussian(sigma=rule.sigma // 2)
    assert least_epsilon(careless, rule.delta) > 0.5 * rule.epsilon


@pytest.mark.parametrize(("epsilon", "n_clusters"), [(0.5, 2), (2.0, 5), (4.0, 3)])
def test_the_true_id_is_no_more_likely_than_epsilon_allows(
    epsilon: float, n_clusters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums, "CHOICES", 2**12)  # few enough to go through all of them
    every = np.arange(2**12, dtype=np.uint64)
    asked = randomise_ids(np.full(2**12, 1), n_clusters, epsilon, lambda _n: every)

    said = np.bincount(asked, minlength=n_clusters)
    assert said.size == n_clusters
    others = np.delete(said, 1)
    assert said[1] / others.min() <= exp(epsilon)
    assert said[1] / others.max() > 0.9 * exp(epsilon)


def test_clients_without_samples_add_nothing_and_ask_for_nothing() -> None:
    nobody = np.zeros((1, 3), dtype=np.int64)

    assert not step_parts(nobody, np.eye(3)).any()
    assert not silhouette_parts(nobody, (np.eye(3),)).any()
    assert choose_clusters(nobody, np.eye(3)).tolist() == [-1]


@given(epsilon=st.floats(0.1, 50.0), releases=st.integers(1, 500), delta=st.sampled_from([1e-3, 1e-5, 1e-9]))
def test_planned_releases_spend_the_budget_and_no_more(epsilon: float, releases: int, delta: float) -> None:
    rule = SumRule(epsilon=epsilon, delta=delta, releases=releases)

    whole = releases * rule.epsilon_of_report
    assert whole <= rule.budget
    assert 0.99 * epsilon < epsilon_of_rho(float(whole), delta) <= epsilon


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="leaves next to nothing for each of 3 sums"):
        SumRule(epsilon=1e-9, delta=1e-5, releases=3)


def test_sums_are_asked_for_at_the_start_and_when_data_arrive() -> None:
    schedule = SumSchedule(rounds=30, gap=7, window=20, chooses_k=False)

    assert [at for at in range(30) if schedule.asked_in(at) is not None] == [0, 1, 2, 3, 4, 8, 15, 22, 29]
    assert schedule.n_releases == 9
    assert SumSchedule(rounds=30, gap=7, window=20, chooses_k=True).asked_in(5) == "silhouettes"
