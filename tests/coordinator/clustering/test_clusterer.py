import json
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.cluster import KMeans as PeerKMeans
from sklearn.metrics import adjusted_rand_score, silhouette_score

from fielding import blas_threads as threads
from fielding._typing import Matrix
from fielding.coordinator.clustering import PARTITIONERS, Clusterer, Clustering, clusterer
from fielding.coordinator.clustering.structure import beats_null, without_structure
from fielding.coordinator.points import Points
from fielding.distance import METRICS, Metric
from fielding.errors import OptionError
from tests.coordinator.clustering.data import NAMES, Array, Labels, histograms, planted


class Scripted:
    """Proposes fixed labels, whatever the points."""

    def __init__(self, labels: dict[int, list[int]]) -> None:
        self.labels = labels
        self.start: Array | None = None

    def partitions(
        self,
        points: Array,  # noqa: ARG002
        ks: Sequence[int],
        *,
        metric: Metric,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        start: Array | None,
    ) -> dict[int, Labels]:
        self.start = start
        return {k: np.array(self.labels[k], dtype=np.int32) for k in ks}


def cluster(points: Array, name: str = "l1", *, current: Array | None = None, **options: object) -> Clustering:
    made = Clusterer(**options)  # type: ignore[arg-type]
    return made.cluster(Points(points), metric=METRICS[name], rng=np.random.default_rng(1), current=current)


LINE = np.array([[0.0], [1.0], [10.0], [11.0]])
GOOD, BAD = [0, 0, 1, 1], [0, 1, 0, 2]


@pytest.mark.parametrize(
    ("name", "peer_metric"), [("l1", "manhattan"), ("l2", "euclidean"), ("hellinger", "euclidean")]
)
@pytest.mark.parametrize("n_groups", [3, 6])
def test_k_is_the_one_that_scikit_learn_chooses_on_planted_groups(name: str, peer_metric: str, n_groups: int) -> None:
    points = planted(500, 30, n_groups=n_groups, seed=n_groups)

    found = cluster(points, name, k_max=8)

    space = np.sqrt(points) if name == "hellinger" else points
    peers = {k: PeerKMeans(k, n_init=10, random_state=1).fit_predict(space) for k in range(2, 9)}
    scores = {k: silhouette_score(space, labels, metric=peer_metric) for k, labels in peers.items()}
    chosen = max(scores, key=lambda k: scores[k])
    assert found.n_clusters == chosen
    assert adjusted_rand_score(found.labels, peers[chosen]) > 0.99
    assert found.silhouettes[chosen] == pytest.approx(scores[chosen], abs=1e-3)


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10)
@given(points=histograms(most_rows=20, least_rows=0))
def test_labels_cover_all_clusters_and_k_keeps_to_its_bounds(partitioner: str, name: str, points: Array) -> None:
    before = points.copy()
    n_distinct = len(np.unique(points, axis=0))

    found = cluster(points, name, partitioner=partitioner, n_init=2)

    assert found.labels.dtype == np.int32
    assert np.unique(found.labels).tolist() == list(range(found.n_clusters))
    assert found.labels.shape == (len(points),)
    assert list(found.silhouettes) == (list(range(2, min(10, n_distinct - 1) + 1)) if n_distinct >= 3 else [])
    assert np.array_equal(points, before)


@pytest.mark.parametrize(
    "points", [np.empty((0, 2)), np.eye(1), np.eye(2), np.ones((9, 3)), np.repeat(np.eye(2), 5, axis=0)]
)
def test_fewer_than_three_distinct_points_are_one_cluster(points: Array) -> None:
    found = cluster(points)

    assert found.labels.tolist() == [0] * len(points)
    assert found.silhouettes == {}
    assert found.n_clusters == min(1, len(points))


def test_three_distinct_points_may_be_two_clusters() -> None:
    found = cluster(np.array([[0.0], [0.1], [1.0]]))

    assert found.labels[0] == found.labels[1] != found.labels[2]
    assert list(found.silhouettes) == [2]


def test_points_that_only_differ_in_length_are_one_place_under_cosine() -> None:
    found = cluster(np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]), "cosine")

    assert found.n_clusters == 1
    assert found.silhouettes == {2: 0.0, 3: 0.0}


def test_one_as_the_largest_number_means_one_cluster() -> None:
    assert cluster(LINE, k_max=1).n_clusters == 1


def test_no_more_points_than_the_smallest_number_allows_means_one_cluster() -> None:
    assert cluster(LINE, k_min=5).n_clusters == 1


def test_a_partitioner_of_ones_own_is_judged_by_silhouette() -> None:
    found = cluster(LINE, partitioner=Scripted({2: GOOD, 3: BAD}))

    assert found.labels.tolist() == GOOD
    assert found.silhouettes[2] == pytest.approx((9.5 / 10.5 + 8.5 / 9.5) / 2)
    assert found.silhouettes[3] < 0.0


def test_equal_partitions_tie_and_the_smaller_number_wins_without_its_empty_clusters() -> None:
    found = cluster(LINE, partitioner=Scripted({2: [5, 5, 2, 2], 3: [0, 0, 1, 1]}))

    assert found.silhouettes[2] == found.silhouettes[3]
    assert found.labels.tolist() == [1, 1, 0, 0]
    assert found.n_clusters == 2


def test_a_least_silhouette_keeps_one_cluster_and_still_tells_the_scores() -> None:
    found = cluster(LINE, min_silhouette=0.95)

    assert found.n_clusters == 1
    assert sorted(found.silhouettes) == [2, 3]


def test_hysteresis_keeps_the_current_number() -> None:
    script = Scripted({2: GOOD, 3: [0, 1, 2, 2]})
    gain = 0.9 - cluster(LINE, partitioner=script).silhouettes[3]

    kept = cluster(LINE, partitioner=script, hysteresis=gain + 0.01, current=np.zeros((3, 1)))
    left = cluster(LINE, partitioner=script, hysteresis=gain - 0.01, current=np.zeros((3, 1)))

    assert kept.n_clusters == 3
    assert left.n_clusters == 2


def test_the_current_centers_are_a_start_only_when_asked_for() -> None:
    script, current = Scripted({2: GOOD, 3: BAD}), np.array([[0.0], [10.0]])

    cluster(LINE, partitioner=script, current=current)
    assert script.start is None

    cluster(LINE, partitioner=script, current=current, warm_start=True)
    assert script.start is current


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@pytest.mark.parametrize("name", NAMES)
def test_many_points_get_the_groups_of_a_sample(name: str, partitioner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points = planted(900, 12, n_groups=4, samples=300.0)
    whole = cluster(points, name, partitioner=partitioner)

    monkeypatch.setattr(clusterer, "MOST_EXACT", 300)
    monkeypatch.setattr(clusterer, "MOST_EXACT_OF", {})
    sampled = cluster(points, name, partitioner=partitioner)

    assert sampled.labels.shape == (900,)
    if partitioner == "kmeans":
        assert sampled.n_clusters == whole.n_clusters == 4
        assert adjusted_rand_score(sampled.labels, whole.labels) == 1.0


def test_a_partitioner_without_a_way_to_extend_gives_points_to_the_nearest_mean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clusterer, "MOST_EXACT", 4)
    line = np.array([[0.0], [0.0], [1.0], [1.0], [10.0], [11.0]] * 50)

    class Halves:
        def partitions(self, points: Array, ks: Sequence[int], **_rest: object) -> dict[int, Labels]:
            return {k: (points[:, 0] > 5.0).astype(np.int32) for k in ks}

    found = Clusterer(partitioner=Halves()).cluster(Points(line), metric=METRICS["l1"], rng=np.random.default_rng(5))

    assert found.n_clusters in (1, 2)
    assert found.labels.tolist() == ((line[:, 0] > 5.0) * (found.n_clusters - 1)).tolist()


def test_some_rows_of_a_matrix_are_clustered_alone() -> None:
    matrix = np.vstack([LINE, [[500.0]], LINE + 0.25])
    rows = np.array([0, 1, 2, 3, 5, 6, 7, 8])

    found = Clusterer(k_max=2).cluster(Points(matrix, rows), metric=METRICS["l1"], rng=np.random.default_rng(1))

    assert len({*found.labels[[0, 1, 4, 5]]}) == len({*found.labels[[2, 3, 6, 7]]}) == 1


def test_float32_points_get_the_labels_of_the_same_points_in_float64() -> None:
    points = planted(200, 10).astype(np.float32)

    narrow = Clusterer().cluster(Points(points), metric=METRICS["l1"], rng=np.random.default_rng(1))

    assert np.array_equal(narrow.labels, cluster(points.astype(np.float64)).labels)


def test_constant_columns_and_zeros_change_nothing() -> None:
    points = planted(120, 6, n_groups=3, samples=300.0)
    padded = np.column_stack([np.zeros(120), points, np.full(120, 7.0)])

    assert adjusted_rand_score(cluster(padded).labels, cluster(points).labels) == 1.0


@pytest.mark.parametrize("name", NAMES)
def test_neither_the_number_of_threads_nor_a_repetition_changes_anything(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = planted(200, 12)

    found = []
    for n_threads in (1, 3, 3):
        monkeypatch.setattr(threads, "n_threads", lambda n=n_threads: n)
        found.append(cluster(points, name))

    assert found[0].silhouettes == found[1].silhouettes == found[2].silhouettes
    assert np.array_equal(found[0].labels, found[1].labels)
    assert np.array_equal(found[1].labels, found[2].labels)


def test_the_options_can_be_written_as_json() -> None:
    options = asdict(Clusterer(k_max=7, hysteresis=0.01))

    assert Clusterer(**json.loads(json.dumps(options))) == Clusterer(k_max=7, hysteresis=0.01)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"partitioner": "k-means"}, "did you mean 'kmeans'"),
        ({"partitioner": 3}, "partitioner is 3"),
        ({"k_min": 1}, "k_min is 1; use a whole number of at least 2"),
        ({"k_max": 0}, "k_max is 0; use a whole number of at least 1"),
        ({"k_max": 4.0}, "k_max is 4.0"),
        ({"k_max": True}, "k_max is True"),
        ({"k_min": 5, "k_max": 4}, "k_max is 4 but k_min is 5"),
        ({"n_init": 0}, "n_init is 0"),
        ({"min_silhouette": 1.5}, "min_silhouette is 1.5; use a number from -1 to 1"),
        ({"min_silhouette": "high"}, "min_silhouette is 'high'"),
        ({"hysteresis": -0.1}, "hysteresis is -0.1"),
        ({"hysteresis": float("nan")}, "hysteresis is nan"),
        ({"warm_start": 1}, "warm_start is 1"),
    ],
)
def test_a_bad_option_is_named_with_what_to_use(options: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        Clusterer(**options)  # type: ignore[arg-type]


# ---- null draws -----------------------------------------------------------------------------------------------


CAREFUL = Clusterer(k_max=4, n_init=2, null_draws=19)


def n_found(points: Matrix, metric: str, seed: int, clusterer: Clusterer = CAREFUL) -> int:
    rng = np.random.default_rng([seed, 1])
    return clusterer.cluster(Points(points), metric=METRICS[metric], rng=rng).n_clusters


def planted_shares(rng: np.random.Generator, n_samples: int = 60) -> Matrix:
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
    assert [n_found(planted_shares(np.random.default_rng(seed)), metric, seed) for seed in range(4)] == [3] * 4


def test_the_draws_change_neither_the_silhouettes_nor_the_labels_of_clusters_that_pass() -> None:
    points = Points(planted_shares(np.random.default_rng(1)))
    plain, careful = (
        one.cluster(points, metric=METRICS["l1"], rng=np.random.default_rng(7))
        for one in (Clusterer(k_max=4, n_init=2), CAREFUL)
    )

    assert careful.silhouettes == plain.silhouettes
    assert careful.labels.tolist() == plain.labels.tolist()


def test_one_cluster_is_a_candidate_by_a_least_silhouette_too() -> None:
    points = planted_shares(np.random.default_rng(1))

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
