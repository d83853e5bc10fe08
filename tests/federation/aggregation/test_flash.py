import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from fielding.errors import OptionError
from fielding.federation.aggregation import Aggregator, Uploads, aggregator_named
from fielding.federation.aggregation.adaptive import Adaptive
from fielding.federation.aggregation.flash import Flash

N_NUMBERS = 5


def uploads_of(models: np.ndarray, n_parameters: int = N_NUMBERS) -> Uploads:
    return Uploads(models=models.astype(np.float32), weights=None, n_parameters=n_parameters, learning_rate=0.1)


def memory_of(aggregator: Aggregator, n_numbers: int = N_NUMBERS) -> dict[str, np.ndarray]:
    return {name: np.full(n_numbers, first, dtype=np.float32) for name, first in aggregator.memory.items()}


def errors_on_a_drifting_quadratic(aggregator: Aggregator, jump: float, n_rounds: int = 400) -> np.ndarray:
    """Return the largest distance to the optimum after each round; it jumps halfway."""
    rng = np.random.default_rng(0)
    model, memory = np.zeros(N_NUMBERS, dtype=np.float32), memory_of(aggregator)
    errors = np.empty(n_rounds)
    for round_index in range(n_rounds):
        optimum = 1.0 if round_index < n_rounds // 2 else 1.0 + jump
        noise = 0.01 * rng.standard_normal((4, N_NUMBERS))
        model, memory = aggregator.combine(model, uploads_of(model + 0.5 * (optimum - model) + noise), memory)
        errors[round_index] = np.abs(model - optimum).max()
    return errors


def rounds_to_recover(aggregator: Aggregator, jump: float) -> int:
    after = errors_on_a_drifting_quadratic(aggregator, jump)[200:]
    return int(np.argmax(after < 0.1 * jump)) if (after < 0.1 * jump).any() else after.size


def test_flash_is_its_formula_over_rounds() -> None:
    flash = Flash(eta=0.03, beta1=0.8, beta2=0.95, tau=0.01, speedup=4.0)
    rng = np.random.default_rng(3)
    model = np.zeros(N_NUMBERS, dtype=np.float32)
    memory = memory_of(flash)
    weights, first, second, drift = [0.0] * N_NUMBERS, [0.0] * N_NUMBERS, [1e-4] * N_NUMBERS, [0.0] * N_NUMBERS
    held = 0

    for round_index in range(30):
        scale = 2.0 if round_index == 15 else 0.1
        models = model + scale * rng.standard_normal((3, N_NUMBERS))
        uploads = uploads_of(models)
        for k in range(N_NUMBERS):
            change = float(uploads.models[:, k].mean(dtype=np.float64)) - weights[k]
            square, before = change * change, second[k]
            first[k] = 0.8 * first[k] + 0.2 * change
            second[k] = 0.95 * before + 0.05 * square
            beta3 = before / (abs(square - second[k]) + before)
            drift[k] = beta3 * drift[k] + (1 - beta3) * (square - second[k])
            divisor = second[k] ** 0.5 - drift[k] + 0.01
            held += divisor < (second[k] ** 0.5 + 0.01) / 4
            weights[k] += 0.03 * first[k] / max(divisor, (second[k] ** 0.5 + 0.01) / 4)
        model, memory = flash.combine(model, uploads, memory)
        assert np.allclose(model, weights, rtol=1e-3, atol=1e-4)
        assert np.allclose(memory["d"], drift, rtol=1e-3, atol=1e-5)
    assert 0 < held < 30 * N_NUMBERS


def test_the_divisor_of_the_paper_alone_would_turn_a_step_around() -> None:
    flash = Flash()
    model = np.zeros(1, dtype=np.float32)

    new, memory = flash.combine(model, uploads_of(np.array([[1.0]]), 1), memory_of(flash, 1))

    assert np.sqrt(memory["v"][0]) - memory["d"][0] + flash.tau < 0.0
    assert new[0] == pytest.approx(10.0 * 0.01 * 0.1 / (np.sqrt(0.01 + 0.99e-6) + 1e-3), rel=1e-4)


@pytest.mark.parametrize(("eta", "jump"), [(0.03, 0.5), (0.03, 1.0), (0.03, 2.0), (0.01, 1.0)])
def test_after_a_drift_flash_recovers_in_less_than_six_tenths_of_the_rounds_of_adam(eta: float, jump: float) -> None:
    flash, adam = Flash(eta=eta), Adaptive(rule="adam", eta=eta)

    assert rounds_to_recover(flash, jump) < 0.6 * rounds_to_recover(adam, jump)


def test_with_small_changes_flash_is_adam() -> None:
    model, models = np.zeros(N_NUMBERS, dtype=np.float32), 1e-4 * np.random.default_rng(0).random((3, N_NUMBERS))
    flash, adam = Flash(), Adaptive(rule="adam")

    mine, _ = flash.combine(model, uploads_of(models), memory_of(flash))
    other, _ = adam.combine(model, uploads_of(models), memory_of(adam))

    assert np.allclose(mine, other, rtol=1e-3)


def test_no_step_is_longer_than_the_speedup_allows() -> None:
    for speedup in (1.0, 3.0):
        flash, adam = Flash(speedup=speedup), Adaptive(rule="adam")
        model, models = np.zeros(N_NUMBERS, dtype=np.float32), np.full((1, N_NUMBERS), 5.0)
        mine, _ = flash.combine(model, uploads_of(models), memory_of(flash))
        other, _ = adam.combine(model, uploads_of(models), memory_of(adam))
        assert np.allclose(mine, speedup * other, rtol=1e-5)


finite = nps.arrays(np.float32, (4, 2, 3), elements=st.floats(allow_nan=False, allow_infinity=False, width=32))


@given(finite, st.sampled_from([0.0, 0.5, 0.99]), st.sampled_from([1e-30, 1e-3, 10.0]))
def test_no_finite_upload_makes_the_model_or_its_memory_non_finite(rounds: np.ndarray, beta: float, tau: float) -> None:
    flash = Flash(beta1=beta, beta2=beta, tau=tau)
    model, memory = np.zeros(3, dtype=np.float32), memory_of(flash, 3)

    for models in rounds:
        model, memory = flash.combine(model, uploads_of(models, 2), memory)
        assert np.isfinite(model).all()
        assert all(np.isfinite(rows).all() for rows in memory.values())


@pytest.mark.parametrize(
    "options",
    [{"eta": 0.0}, {"tau": -1.0}, {"beta2": 1.0}, {"speedup": 0.5}, {"speedup": float("inf")}, {"gamma": 1.0}],
)
def test_wrong_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(OptionError):
        aggregator_named("flash", dict(options))
