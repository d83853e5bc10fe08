import numpy as np
import pytest

from fielding.federation.aggregation import Aggregator, aggregator_named
from fielding.federation.clients import Updates
from fielding.federation.cluster_models import ClusterModels

INITIAL = np.array([1.0, 2.0, 3.0], dtype=np.float32)


def updates_of(rows: list[int], models: list[list[float]], n_samples: list[int] | None = None) -> Updates:
    n_answers = len(rows)
    return Updates(
        clients=np.arange(n_answers),
        groups=np.array(rows),
        start=np.array(rows),
        models=np.array(models, dtype=np.float32),
        n_samples=np.array(n_samples or [1] * n_answers),
        loss=np.zeros(n_answers),
        square_loss=np.zeros(n_answers),
        n_parameters=3,
        learning_rate=0.1,
    )


def two_clusters(aggregator: Aggregator, *, weighted: bool = False) -> ClusterModels:
    models = ClusterModels(INITIAL, aggregator, weighted=weighted)
    models.mix(np.ones((2, 1)))
    return models


def test_a_cluster_that_nobody_trained_keeps_its_model_and_its_memory() -> None:
    models = two_clusters(aggregator_named("fedyogi"))
    before = {name: rows.copy() for name, rows in models.arrays().items()}

    models.learn(updates_of([1], [[5.0, 5.0, 5.0]]))

    for name, rows in models.arrays().items():
        assert (rows[0] == before[name][0]).all()
        assert (rows[1] != before[name][1]).any()


def test_the_memory_of_the_server_is_mixed_like_the_models() -> None:
    models = two_clusters(aggregator_named("fedadam"))
    models.learn(updates_of([0, 1], [[5.0, 5.0, 5.0], [0.0, 0.0, 0.0]]))
    before = {name: rows.copy() for name, rows in models.arrays().items()}

    models.mix(np.array([[0.25, 0.75]]))

    for name, rows in models.arrays().items():
        assert rows.shape == (1, 3)
        assert np.allclose(rows[0], 0.25 * before[name][0] + 0.75 * before[name][1], atol=1e-6)


def test_clusters_learn_apart_and_participants_count_by_their_samples_if_asked() -> None:
    sent = updates_of([1, 1, 0], [[0.0, 0.0, 0.0], [4.0, 4.0, 4.0], [9.0, 9.0, 9.0]], [3, 1, 5])
    plain, weighted = two_clusters(aggregator_named("mean")), two_clusters(aggregator_named("mean"), weighted=True)

    for models in (plain, weighted):
        models.learn(sent)

    assert plain.models.tolist() == [[9.0, 9.0, 9.0], [2.0, 2.0, 2.0]]
    assert weighted.models.tolist() == [[9.0, 9.0, 9.0], [1.0, 1.0, 1.0]]


@pytest.mark.parametrize("name", ["mean", "fedyogi", "norm-clipping"])
def test_what_was_written_down_goes_on_alike(name: str) -> None:
    models, again = two_clusters(aggregator_named(name)), ClusterModels(INITIAL, aggregator_named(name))
    models.learn(updates_of([0], [[5.0, 1.0, 2.0]]))
    again.restore({one: rows.copy() for one, rows in models.arrays().items()})

    for one in (models, again):
        one.learn(updates_of([0], [[4.0, 4.0, 9.0]]))

    assert (models.models == again.models).all()
