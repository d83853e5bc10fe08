"""Flower's strategies combine the models of a cluster, and nothing else gets through them."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fielding._typing import Models, Vector
from fielding.errors import OptionError
from fielding.federation.aggregation import Mean, Uploads
from fielding.federation.clients import Updates
from fielding.federation.cluster_models import ClusterModels
from fielding.flower.server.strategies import MOMENTUM, FlowerStrategy

strategies = pytest.importorskip("flwr.serverapp.strategy", reason="the flower extra is not installed")

MODEL = np.full(3, 7.0, dtype=np.float32)


def uploads(values: list[float], weights: list[float] | None = None, n_parameters: int = 2) -> Uploads:
    models: Models = np.repeat(np.array(values, dtype=np.float32)[:, np.newaxis], 3, axis=1)
    by_samples: Vector | None = None if weights is None else np.array(weights)
    return Uploads(models=models, weights=by_samples, n_parameters=n_parameters, learning_rate=0.1)


def combined(make: Callable[[], object], sent: Uploads) -> list[float]:
    strategy = FlowerStrategy(make)  # type: ignore[arg-type]
    model, memory = strategy.combine(MODEL, sent, {})
    assert memory == strategy.memory == {}
    assert model.dtype == np.float32
    return [round(number, 4) for number in model.tolist()]


def test_fed_avg_weighs_participants_by_their_samples() -> None:
    assert combined(strategies.FedAvg, uploads([1.0, 2.0], [10, 30])) == [1.75, 1.75, 1.75]


def test_without_numbers_of_samples_all_count_the_same() -> None:
    assert combined(strategies.FedAvg, uploads([1.0, 2.0])) == [1.5, 1.5, 1.5]


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (lambda: strategies.FedTrimmedAvg(beta=0.2), 2.5),
        (strategies.FedMedian, 2.5),
        (lambda: strategies.Krum(num_malicious_nodes=1), 2.5),
    ],
)
def test_robust_strategies_leave_a_liar_out_and_buffers_take_means(make: Callable[[], object], value: float) -> None:
    assert combined(make, uploads([1.0, 2.0, 3.0, 100.0, 2.5])) == [value, value, 21.7]


@pytest.mark.parametrize("name", ["FedAvg", "FedTrimmedAvg", "FedMedian"])
def test_a_cluster_of_one_gets_the_model_of_its_participant(name: str) -> None:
    assert combined(getattr(strategies, name), uploads([4.0], [12])) == [4.0, 4.0, 4.0]


def test_uploads_can_be_combined_twice_since_strategies_get_copies() -> None:
    sent = uploads([1.0, 3.0, 8.0])
    assert combined(strategies.FedMedian, sent) == combined(strategies.FedMedian, sent) == [3.0, 3.0, 4.0]


def test_nan_never_becomes_a_model() -> None:
    assert combined(strategies.FedAvg, uploads([1.0, float("nan")])) == MODEL.tolist()


def test_a_strategy_that_fails_leaves_the_cluster_its_model() -> None:
    assert combined(strategies.FedAvg, uploads([1.0, 2.0], [0, 0])) == MODEL.tolist()


@pytest.mark.parametrize("name", ["FedAdam", "FedYogi", "FedAdagrad", "FedProx"])
def test_a_strategy_with_a_memory_is_refused_with_what_to_use_instead(name: str) -> None:
    with pytest.raises(OptionError, match=rf"{name} needs more than the models of one round; set aggregation.name"):
        FlowerStrategy(getattr(strategies, name))


def test_what_makes_no_strategy_is_refused() -> None:
    with pytest.raises(OptionError, match="make gave a int; give a function that returns a strategy of Flower"):
        FlowerStrategy(lambda: 3)  # type: ignore[arg-type, return-value]


@given(
    models=arrays(np.float32, (4, 3), elements=st.floats(-8, 8, width=32)),
    samples=st.lists(st.integers(1, 500), min_size=4, max_size=4),
)
def test_a_mean_weighted_by_samples_is_that_of_flower(models: Models, samples: list[int]) -> None:
    sent = Uploads(models=models, weights=np.array(samples, dtype=np.float64), n_parameters=3, learning_rate=0.1)

    theirs, _ = FlowerStrategy(strategies.FedAvg).combine(MODEL, sent, {})
    ours, _ = Mean().combine(MODEL, sent, {})

    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def sent_to(clusters: ClusterModels, numbers: list[float]) -> None:
    """Let every cluster learn from one participant, whose model has one number."""
    rows = np.arange(len(numbers))
    clusters.learn(
        Updates(
            clients=rows,
            groups=rows,
            start=rows,
            models=np.array(numbers, dtype=np.float32)[:, np.newaxis],
            n_samples=np.full(rows.size, 10),
            loss=np.ones(rows.size),
            square_loss=np.ones(rows.size),
            n_parameters=1,
            learning_rate=0.1,
        )
    )


def momentum_clusters() -> ClusterModels:
    """Return two clusters, both at 0, whose steps go on with half of the step before."""
    strategy = FlowerStrategy(lambda: strategies.FedAvgM(server_momentum=0.5))
    clusters = ClusterModels(np.zeros(1, dtype=np.float32), strategy, weighted=True)
    clusters.mix(np.ones((2, 1)))
    return clusters


def test_the_momentum_of_fed_avg_m_is_kept_for_every_cluster() -> None:
    clusters = momentum_clusters()

    sent_to(clusters, [1.0, 3.0])
    sent_to(clusters, [2.0, 3.0])  # steps of 1 and 0, and half of the steps before, which were 1 and 3

    assert clusters.models[:, 0].tolist() == [2.5, 4.5]


def test_a_re_clustering_shares_momentum_out_with_the_models() -> None:
    clusters = momentum_clusters()
    sent_to(clusters, [1.0, 3.0])

    clusters.mix(np.array([[0.5, 0.5], [0.0, 1.0]]))  # models 2 and 3, steps 2 and 3
    sent_to(clusters, [3.0, 3.0])

    assert clusters.models[:, 0].tolist() == [4.0, 4.5]


def test_momentum_is_in_checkpoints() -> None:
    stopped, resumed = momentum_clusters(), momentum_clusters()
    sent_to(stopped, [1.0, 3.0])

    resumed.restore(stopped.arrays())
    sent_to(resumed, [2.0, 3.0])

    assert resumed.models[:, 0].tolist() == [2.5, 4.5]


def test_a_round_that_gives_no_model_leaves_momentum_alone() -> None:
    strategy = FlowerStrategy(lambda: strategies.FedAvgM(server_momentum=0.5))

    model, memory = strategy.combine(MODEL, uploads([float("nan")]), {MOMENTUM: np.full(3, 4.0, dtype=np.float32)})

    assert model.tolist() == MODEL.tolist()
    assert memory[MOMENTUM].tolist() == [4.0, 4.0, 4.0]
