"""Decisions that know the noise of private reports (docs/privacy.md)."""

from fractions import Fraction

import numpy as np
import pytest

from fielding._typing import Matrix
from fielding.client.privacy.geometric import TwoSidedGeometric, repeatable_words
from fielding.client.report import ReportBatch
from fielding.coordinator import CenterShift, Clusterer, Coordinator, Policy
from fielding.coordinator.assignment import CLEAR, clear_moves
from fielding.coordinator.movement import Movement, Resampled
from fielding.coordinator.noise_floor import noise_floors
from fielding.coordinator.points import Points
from fielding.coordinator.policy import policy_from, policy_record
from fielding.distance import METRICS
from fielding.errors import OptionError

NOISE = TwoSidedGeometric(scale=Fraction(4))  # epsilon 1/2
CONCEPTS = np.array([[0.7, 0.2, 0.1, 0.0, 0.0], [0.0, 0.0, 0.1, 0.2, 0.7]])


def told(rng: np.random.Generator, concepts: Matrix, n_samples: int) -> Matrix:
    """Return noised shares of a window of each concept."""
    counts = np.stack([rng.multinomial(n_samples, concept) for concept in concepts])
    noise = NOISE.draw(counts.size, repeatable_words(rng)).reshape(counts.shape)
    return np.asarray((counts + noise) / n_samples)


def noised_policy(**options: object) -> Policy:
    given = {"trigger": CenterShift(noise_floor=True), "clusterer": Clusterer(k_max=6, n_init=3), **options}
    return Policy(kind="vector", metric="l2", noise_variance=NOISE.variance, seed=1, **given)  # type: ignore[arg-type]


def batch(rows: Matrix, n_samples: int) -> ReportBatch:
    return ReportBatch(client_ids=list(range(len(rows))), representations=rows, n_samples=np.full(len(rows), n_samples))


def test_margins_of_clients_halfway_between_two_centers_go_beyond_the_bound_as_often_as_it_says() -> None:
    rng, n_clients, n_samples = np.random.default_rng(3), 4000, 60
    halfway = np.tile(CONCEPTS.mean(axis=0), (n_clients, 1))
    here, there = np.zeros(n_clients, dtype=np.int32), np.ones(n_clients, dtype=np.int32)

    moved = clear_moves(
        Points(told(rng, halfway, n_samples)),
        CONCEPTS,
        here,
        there,
        n_samples=np.full(n_clients, n_samples, dtype=np.int32),
        noise_variance=NOISE.variance,
    )

    assert pytest.approx(1.645) == CLEAR
    assert moved.mean() == pytest.approx(0.05, abs=0.01)


def test_a_client_moves_when_it_drifted_and_not_when_noise_alone_says_so() -> None:
    rng = np.random.default_rng(1)
    coordinator = Coordinator(noised_policy(trigger=CenterShift(tau=np.inf)))
    truth = np.repeat(CONCEPTS, 30, axis=0)
    coordinator.update(batch(told(rng, truth, 200), 200))
    assert coordinator.clusters is not None
    assert len(coordinator.clusters.ids) == 2

    again = coordinator.update(batch(told(rng, truth, 200), 200))
    drifted = truth.copy()
    drifted[:10] = CONCEPTS[1]
    after = coordinator.update(batch(told(rng, drifted, 200), 200))

    assert list(again.moved) == []
    assert list(after.moved) == list(range(10))


def test_a_client_whose_number_of_samples_is_not_known_stays_and_a_new_one_joins_the_nearest() -> None:
    old = np.array([0, -1, 0], dtype=np.int32)
    new = np.array([1, 1, 0], dtype=np.int32)
    rows = Points(np.tile(CONCEPTS[1], (3, 1)))

    clear = clear_moves(
        rows, CONCEPTS, old, new, n_samples=np.array([0, 0, 0], dtype=np.int32), noise_variance=NOISE.variance
    )

    assert clear.tolist() == [False, True, True]


def test_near_centers_make_noise_matter_less() -> None:
    # Margins 0.08 and 0.056 against 1.645 * 2 * sqrt(0.01 / 40 + 8 * 0.02 / 40**2) = 0.0616.
    centers, told = np.array([[0.55, 0.45], [0.45, 0.55]]), Points(np.array([[0.3, 0.7], [0.36, 0.64]]))
    old, new = np.array([0, 0], dtype=np.int32), np.array([1, 1], dtype=np.int32)

    clear = clear_moves(told, centers, old, new, n_samples=np.array([40, 40], dtype=np.int32), noise_variance=8.0)

    assert clear.tolist() == [True, False]


def test_groups_are_found_by_roots_where_plain_shares_drown_in_noise() -> None:
    from sklearn.metrics import adjusted_rand_score

    scores = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth = np.repeat(np.arange(5), 30)
        rows = told(rng, rng.dirichlet(np.full(62, 0.3), 5)[truth], 100)
        by_roots = Coordinator(noised_policy(clusterer=Clusterer(n_init=3)))
        plain = Coordinator(Policy(kind="vector", metric="l2", clusterer=Clusterer(n_init=3), seed=1))
        for one in (by_roots, plain):
            one.update(batch(rows, 100))
        scores.append([adjusted_rand_score(truth, one.cluster_ids()) for one in (by_roots, plain)])

    of_roots, of_shares = np.mean(scores, axis=0)
    assert of_roots > 0.85
    assert of_roots > of_shares + 0.05


def test_a_shift_that_noise_explains_is_below_the_floor_and_a_real_one_above() -> None:
    rng, n_samples, n_members = np.random.default_rng(4), 80, 12
    truth = np.tile(CONCEPTS[0], (n_members, 1))
    counts = np.full(n_members, n_samples, dtype=np.int32)
    resampled = Resampled(stayed=np.ones(n_members, dtype=np.bool_), n_before=counts, n_after=counts)
    beyond = []
    for _ in range(400):
        before, after = told(rng, truth, n_samples), told(rng, truth, n_samples)
        centers = [rows.mean(axis=0, keepdims=True) for rows in (before, after)]
        movement = Movement(
            before=centers[0],
            after=centers[1],
            since_global=centers[0],
            stayed_live=np.array([True]),
            theta=1.0,
            points=Points(after),
            membership=np.zeros(n_members, dtype=np.int32),
            metric=METRICS["l2"],
            kind="vector",
            noise_variance=NOISE.variance,
        )
        floor = noise_floors(movement, centers[0], resampled)[0]
        beyond.append(np.linalg.norm(centers[1] - centers[0]) > floor)

    assert 0.0 < np.mean(beyond) < 0.03
    assert floor < np.linalg.norm(CONCEPTS[1] - CONCEPTS[0]) / 3


def test_noise_on_histograms_or_another_metric_is_refused() -> None:
    with pytest.raises(OptionError, match="use 'vector' and 'l2'"):
        Policy(noise_variance=1.0)
    with pytest.raises(OptionError, match="noise_variance"):
        Policy(kind="vector", metric="l2", noise_variance=-1.0)


def test_a_checkpoint_holds_the_noise_and_that_of_exact_reports_is_what_it_was() -> None:
    assert policy_from(policy_record(noised_policy())) == noised_policy()
    assert "noise_variance" not in policy_record(Policy())
    assert policy_from(policy_record(Policy())) == Policy()
