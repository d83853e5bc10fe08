"""Flower's strategies combine the models of a cluster, and nothing else gets through them."""

from collections.abc import Callable

import numpy as np
import pytest

from fielding._typing import Models, Vector
from fielding.errors import OptionError
from fielding.federation.aggregation import Uploads
from fielding.flower.strategies import FlowerStrategy

strategies = pytest.importorskip("flwr.serverapp.strategy", reason="the flower extra is not installed")

MODEL = np.full(3, 7.0, dtype=np.float32)


def uploads(values: list[float], weights: list[float] | None = None, n_parameters: int = 2) -> Uploads:
    models: Models = np.repeat(np.array(values, dtype=np.float32)[:, np.newaxis], 3, axis=1)
    by_samples: Vector | None = None if weights is None else np.array(weights)
    return Uploads(models=models, weights=by_samples, n_parameters=n_parameters, learning_rate=0.1)


def combined(make: Callable[[], object], sent: Uploads) -> list[float]:
    model, memory = FlowerStrategy(make).combine(MODEL, sent, {})  # type: ignore[arg-type]
    assert memory == {}
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


@pytest.mark.parametrize("name", ["FedAdam", "FedYogi", "FedAdagrad", "FedAvgM"])
def test_a_strategy_with_a_memory_is_refused_with_what_to_use_instead(name: str) -> None:
    with pytest.raises(OptionError, match=rf"{name} needs more than the models of one round; set aggregation.name"):
        FlowerStrategy(getattr(strategies, name))


def test_what_makes_no_strategy_is_refused() -> None:
    with pytest.raises(OptionError, match="make gave a int; give a function that returns a strategy of Flower"):
        FlowerStrategy(lambda: 3)  # type: ignore[arg-type, return-value]
