"""Robust aggregation: what clients claim about themselves counts nothing."""

import numpy as np
import pytest

from fielding.federation.aggregation import Uploads, aggregator_named

N_NUMBERS = 5
ROBUST = ("median", "trimmed-mean", "multi-krum")


def combined(name: str, models: np.ndarray, weights: list[float] | None) -> np.ndarray:
    aggregator = aggregator_named(name)
    memory = {one: np.full(N_NUMBERS, first, dtype=np.float32) for one, first in aggregator.memory.items()}
    uploads = Uploads(
        models=models.astype(np.float32),
        weights=None if weights is None else np.array(weights),
        n_parameters=N_NUMBERS,
        learning_rate=0.1,
    )
    return aggregator.combine(np.zeros(N_NUMBERS, dtype=np.float32), uploads, memory)[0]


@pytest.mark.parametrize("name", ROBUST)
@pytest.mark.parametrize("weights", [[1e9, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
def test_who_claims_more_samples_counts_no_more(name: str, weights: list[float]) -> None:
    models = np.random.default_rng(3).standard_normal((6, N_NUMBERS))

    assert combined(name, models, weights).tolist() == combined(name, models, None).tolist()


def test_elsewhere_samples_count() -> None:
    models = np.random.default_rng(3).standard_normal((6, N_NUMBERS))

    assert np.allclose(combined("mean", models, [1e9, 1.0, 1.0, 1.0, 1.0, 1.0]), models[0], atol=1e-5)


@pytest.mark.parametrize("name", ["median", "trimmed-mean", "multi-krum"])
def test_a_liar_that_claims_all_samples_leads_nobody_astray(name: str) -> None:
    models = 1.0 + 0.01 * np.random.default_rng(3).standard_normal((6, N_NUMBERS))
    models[2] = 1e6

    assert np.allclose(combined(name, models, [1.0, 1.0, 1e9, 1.0, 1.0, 1.0]), 1.0, atol=0.05)


def test_buffers_do_not_make_an_honest_upload_a_liar() -> None:
    models = np.array([[1.0, 0.0], [1.1, 90.0], [0.9, -90.0], [1.0, 50.0], [5.0, 0.0]], dtype=np.float32)
    uploads = Uploads(models=models, weights=None, n_parameters=1, learning_rate=0.1)

    combined_model, _ = aggregator_named("multi-krum", {"liars": 0.2}).combine(models[0], uploads, {})

    assert combined_model.tolist() == pytest.approx([1.0, 12.5]), "without the last; buffers are those of who is kept"
