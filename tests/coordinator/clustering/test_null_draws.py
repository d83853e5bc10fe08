import numpy as np
import pytest

from fielding._typing import Matrix
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.clustering.clusterer import beats_null, without_structure
from fielding.coordinator.points import Points
from fielding.distance import METRICS
from fielding.errors import OptionError

CAREFUL = Clusterer(k_max=4, n_init=2, null_draws=19)


def n_found(points: Matrix, metric: str, seed: int, clusterer: Clusterer = CAREFUL) -> int:
    rng = np.random.default_rng([seed, 1])
    return clusterer.cluster(Points(points), metric=METRICS[metric], rng=rng).n_clusters


def planted(rng: np.random.Generator, n_samples: int = 60) -> Matrix:
    """Thirty clients of three concepts that hardly share a label."""
    concepts = 0.1 / 6.0 + 0.9 * np.repeat(np.eye(3), 2, axis=1) / 2.0
    return np.stack([rng.multinomial(n_samples, concepts[client % 3]) / n_samples for client in range(30)])


@pytest.mark.parametrize("metric", ["l1", "hellinger"])
def test_clients_of_one_distribution_are_one_cluster_nearly_always(metric: str) -> None:
    found = [n_found(np.random.default_rng(seed).dirichlet([0.6] * 6, size=40), metric, seed) for seed in range(8)]

    assert found.count(1) >= 7


def test_vectors_without_structure_are_one_cluster_nearly_always() -> None:
    found = [n_found(np.random.default_rng(seed).normal(size=(40, 4)), "l2", seed) for seed in range(8)]

    assert found.count(1) >= 7
    assert n_found(np.random.default_rng(0).normal(size=(40, 4)), "l2", 0, Clusterer(k_max=4)) > 1


@pytest.mark.parametrize("metric", ["l1", "hellinger"])
def test_planted_clusters_are_found(metric: str) -> None:
    assert [n_found(planted(np.random.default_rng(seed)), metric, seed) for seed in range(4)] == [3] * 4


def test_the_draws_change_neither_the_silhouettes_nor_the_labels_of_clusters_that_pass() -> None:
    points = Points(planted(np.random.default_rng(1)))
    plain, careful = (
        one.cluster(points, metric=METRICS["l1"], rng=np.random.default_rng(7))
        for one in (Clusterer(k_max=4, n_init=2), CAREFUL)
    )

    assert careful.silhouettes == plain.silhouettes
    assert careful.labels.tolist() == plain.labels.tolist()


def test_one_cluster_is_a_candidate_by_a_least_silhouette_too() -> None:
    points = planted(np.random.default_rng(1))

    assert n_found(points, "l1", 1, Clusterer(k_max=4, min_silhouette=0.99)) == 1
    assert n_found(points, "l1", 1, Clusterer(k_max=4, min_silhouette=0.2)) == 3


def test_dealt_shares_are_shares_and_one_hot_rows_survive() -> None:
    dealt = without_structure(np.eye(3)[np.arange(30) % 3], np.random.default_rng(1))

    sums = dealt.sum(axis=1)
    assert ((np.abs(sums - 1.0) < 1e-9) | (sums == 0.0)).all()
    assert (dealt >= 0.0).all()


def test_equal_rows_of_shares_are_dealt_to_equal_rows() -> None:
    dealt = without_structure(np.full((5, 2), 0.5), np.random.default_rng(1))

    assert dealt.sum(axis=1) == pytest.approx(np.ones(5))


def test_an_equal_silhouette_does_not_beat_the_null() -> None:
    points, rng = np.arange(6.0).reshape(3, 2), np.random.default_rng(1)

    assert not beats_null([0.3, 0.5], points, lambda _rows: [0.5, 0.1], rng=rng, n_draws=1)
    assert beats_null([0.3, 0.5], points, lambda _rows: [0.4, 0.1], rng=rng, n_draws=3)
    assert beats_null([-1.0], points, lambda _rows: [1.0], rng=rng, n_draws=0)


def test_a_number_of_draws_is_whole() -> None:
    with pytest.raises(OptionError, match="null_draws is -1"):
        Clusterer(null_draws=-1)
