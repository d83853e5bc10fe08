import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fielding.errors import InputError
from fielding.federation import models as module
from fielding.federation.models import finite_rows, mean_model, mix_models

LARGE = float(np.finfo(np.float32).max)


def test_the_identity_gives_the_models_bit_for_bit() -> None:
    models = np.random.default_rng(1).standard_normal((3, 7)).astype(np.float32)

    assert (mix_models(models, np.eye(3)) == models).all()


def test_columns_are_mixed_in_chunks_as_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    models = np.random.default_rng(1).standard_normal((3, 10)).astype(np.float32)
    mixing = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])
    whole = mix_models(models, mixing)
    monkeypatch.setattr(module, "COLUMNS", 3)

    assert (mix_models(models, mixing) == whole).all()
    assert np.allclose(whole, mixing @ models)


def test_a_mixing_matrix_of_another_size_is_refused() -> None:
    with pytest.raises(InputError, match="2 columns but there are 1 models"):
        mix_models(np.zeros((1, 2), dtype=np.float32), np.eye(2))


@given(st.lists(st.floats(0.1, 9.0), min_size=1, max_size=6))
def test_the_mean_of_equal_models_is_the_model(weights: list[float]) -> None:
    model = np.array([1.0, -2.5, 1e-3], dtype=np.float32)

    assert np.allclose(mean_model(np.tile(model, (len(weights), 1)), np.array(weights)), model)


def test_weighted_means_are_summed_in_float64() -> None:
    rng = np.random.default_rng(0)
    models, weights = rng.standard_normal((20, 1000)).astype(np.float32), rng.integers(1, 500, 20).astype(np.float64)
    exact = (weights[:, np.newaxis] * models.astype(np.float64)).sum(axis=0) / weights.sum()

    assert (mean_model(models, weights) == exact.astype(np.float32)).all()
    large = np.full((2, 1), 3e38, dtype=np.float32)
    assert mean_model(large, np.array([2.0, 5.0])).tolist() == [np.float32(3e38)]


model_rows = arrays.arrays(
    np.float32,
    arrays.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=6),
    elements=st.one_of(st.floats(width=32, allow_nan=True), st.sampled_from([np.inf, -np.inf, LARGE, -LARGE])),
)


@given(model_rows)
def test_finite_rows_are_those_all_of_whose_numbers_are(models: np.ndarray) -> None:
    assert finite_rows(models).tolist() == np.isfinite(models).all(axis=1).tolist()


def test_many_large_numbers_are_finite() -> None:
    assert finite_rows(np.full((2, 10_000), LARGE, dtype=np.float32)).tolist() == [True, True]
