"""What holds for every aggregator, and what makes each of them what it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import OptionError
from fielding.federation.aggregation import AGGREGATORS, Uploads, aggregator_named
from fielding.federation.aggregation.adaptive import Adaptive

N_PARAMETERS, N_NUMBERS = 6, 8
NAMES = sorted(AGGREGATORS)


def uploads_of(models: np.ndarray, *, loss: np.ndarray | None = None, rate: float = 0.1) -> Uploads:
    losses = np.linspace(0.5, 2.0, models.shape[0]) if loss is None else loss
    return Uploads(
        models=models.astype(np.float32), weights=None, n_parameters=N_PARAMETERS, learning_rate=rate, start_loss=losses
    )


def memory_of(name: str) -> dict[str, np.ndarray]:
    return {one: np.full(N_NUMBERS, first, dtype=np.float32) for one, first in aggregator_named(name).memory.items()}


def some_models(n_models: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n_models, N_NUMBERS)).astype(np.float32)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_models", [1, 2, 3, 7])
def test_inputs_stay_as_they_were_and_results_are_finite_and_repeat(name: str, n_models: int) -> None:
    model, uploads, memory = some_models(1, 9)[0], uploads_of(some_models(n_models)), memory_of(name)
    before = [model.copy(), uploads.models.copy(), {one: rows.copy() for one, rows in memory.items()}]

    first, kept = aggregator_named(name).combine(model, uploads, memory)
    again, _ = aggregator_named(name).combine(model, uploads, memory)

    assert first.shape == (N_NUMBERS,)
    assert first.dtype == np.float32
    assert np.isfinite(first).all()
    assert (first == again).all()
    assert kept.keys() == memory.keys()
    assert (model == before[0]).all()
    assert (uploads.models == before[1]).all()
    assert all((memory[one] == before[2][one]).all() for one in memory)


@pytest.mark.parametrize("name", NAMES)
def test_if_nobody_changed_the_model_it_stays(name: str) -> None:
    model = some_models(1)[0]

    new, _ = aggregator_named(name).combine(model, uploads_of(np.tile(model, (4, 1))), memory_of(name))

    assert np.allclose(new, model, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("median", "trimmed-mean", "multi-krum")])
def test_buffers_only_take_the_mean(name: str) -> None:
    model, models = some_models(1, 9)[0], some_models(5)

    new, _ = aggregator_named(name).combine(model, uploads_of(models), memory_of(name))

    assert np.allclose(new[N_PARAMETERS:], models[:, N_PARAMETERS:].mean(axis=0), atol=1e-6)


@given(st.integers(1, 8), st.integers(0, 99))
def test_q_of_zero_is_the_mean(n_models: int, seed: int) -> None:
    model, models = some_models(1, seed + 1)[0], some_models(n_models, seed)

    new, _ = aggregator_named("q-fedavg", {"q": 0.0}).combine(model, uploads_of(models), {})

    assert np.allclose(new, models.mean(axis=0), atol=1e-5)


@given(st.integers(1, 6), st.integers(0, 99), st.floats(0.1, 3.0))
def test_q_fedavg_is_its_formula(n_models: int, seed: int, q: float) -> None:
    model, models = some_models(1, seed + 1)[0], some_models(n_models, seed)
    loss = np.random.default_rng(seed).uniform(0.1, 3.0, n_models)

    new, _ = aggregator_named("q-fedavg", {"q": q}).combine(model, uploads_of(models, loss=loss, rate=0.05), {})

    step, scale = np.zeros(N_PARAMETERS), 0.0
    for upload, one in zip(models.astype(np.float64), loss, strict=True):
        gradient = (model.astype(np.float64) - upload)[:N_PARAMETERS] / 0.05
        step += one**q * gradient
        scale += q * one ** (q - 1) * (gradient**2).sum() + one**q / 0.05
    assert np.allclose(new[:N_PARAMETERS], model[:N_PARAMETERS] - step / scale, atol=1e-4)


@given(st.integers(1, 6), st.integers(0, 99), st.floats(0.1, 3.0))
def test_the_mean_with_a_server_rate_goes_that_share_of_the_way(n_models: int, seed: int, eta: float) -> None:
    model, models = some_models(1, seed + 1)[0], some_models(n_models, seed)

    mean, _ = aggregator_named("mean").combine(model, uploads_of(models), {})
    new, _ = aggregator_named("mean", {"eta": eta}).combine(model, uploads_of(models), {})

    way = (mean - model)[:N_PARAMETERS].astype(np.float64)
    assert np.allclose(new[:N_PARAMETERS] - model[:N_PARAMETERS], eta * way, atol=1e-5)


def test_momentum_goes_on_with_the_last_step_and_without_it_is_the_mean() -> None:
    model, models = some_models(1, 9)[0], some_models(3)
    plain, _ = aggregator_named("mean", {"eta": 0.5}).combine(model, uploads_of(models), {})
    alike, _ = aggregator_named("fedavgm", {"eta": 0.5, "beta": 0.0}).combine(
        model, uploads_of(models), memory_of("fedavgm")
    )
    still = uploads_of(np.tile(model, (2, 1)))
    rolling, memory = aggregator_named("fedavgm", {"beta": 0.5}).combine(
        model, uploads_of(models), memory_of("fedavgm")
    )
    further, memory = aggregator_named("fedavgm", {"beta": 0.5}).combine(model, still, memory)

    part = slice(0, N_PARAMETERS)
    assert np.allclose(alike, plain, atol=1e-6)
    assert np.allclose(further[part] - model[part], 0.5 * (rolling[part] - model[part]), atol=1e-6)
    assert not memory["m"][N_PARAMETERS:].any(), "buffers have no momentum"


def test_wiener_is_its_formula_over_rounds() -> None:
    optimiser, model = aggregator_named("wiener", {"gain": 2.0, "beta1": 0.8, "beta2": 0.95}), some_models(1, 9)[0]
    memory = {one: np.full(N_NUMBERS, first, dtype=np.float32) for one, first in optimiser.memory.items()}
    w = model[:N_PARAMETERS].astype(np.float64)
    m, v = np.zeros((2, N_PARAMETERS))

    for seed in range(4):
        models = some_models(3, seed)
        change = models[:, :N_PARAMETERS].mean(axis=0, dtype=np.float64) - w
        m, v = 0.8 * m + 0.2 * change, 0.95 * v + 0.05 * change**2
        noise = np.maximum(v - m**2, 0.0) * 0.2 / 1.8
        w = w + 2.0 * m * np.maximum(m**2 - noise, 0.0) / m**2
        model, memory = optimiser.combine(model, uploads_of(models), memory)

    assert np.allclose(model[:N_PARAMETERS], w, atol=1e-5)


@given(st.floats(1e-4, 1e3))
def test_wiener_goes_with_the_scale_of_what_clients_do_and_holds_back_where_they_scatter(scale: float) -> None:
    optimiser, rng = aggregator_named("wiener"), np.random.default_rng(3)
    memory = {one: np.full(N_NUMBERS, first, dtype=np.float32) for one, first in optimiser.memory.items()}
    model = np.zeros(N_NUMBERS, dtype=np.float32)

    steps = []
    for _ in range(400):
        change = rng.normal(size=N_NUMBERS)
        change[0] = 1.0  # the only number that clients agree on
        new, memory = optimiser.combine(model, uploads_of((model + scale * change)[np.newaxis]), memory)
        steps.append(np.abs(new - model).astype(np.float64) / scale)

    assert steps[-1][0] == pytest.approx(4.0, rel=0.05), "all rounds agree: the whole gain"
    mean = np.mean(steps[-100:], axis=0)[1:N_PARAMETERS].mean()
    assert mean < 0.4, "noise alone: without shrinking it were 4 * sqrt(0.1 / 1.9 * 2 / pi) = 0.73"


@pytest.mark.parametrize("rule", ["adagrad", "adam", "yogi"])
def test_server_optimisers_are_their_formulas_over_rounds(rule: str) -> None:
    optimiser = Adaptive(rule=rule, eta=0.3, beta1=0.8, beta2=0.95, tau=0.01)  # type: ignore[arg-type]
    model = some_models(1, 9)[0]
    memory = {one: np.full(N_NUMBERS, first, dtype=np.float32) for one, first in optimiser.memory.items()}
    w = model[:N_PARAMETERS].astype(np.float64)
    m, v = np.zeros(N_PARAMETERS), np.full(N_PARAMETERS, 1e-4)

    for seed in range(4):
        models = some_models(3, seed)
        change = models[:, :N_PARAMETERS].mean(axis=0, dtype=np.float64) - w
        m = 0.8 * m + 0.2 * change
        if rule == "adagrad":
            v = v + change**2
        elif rule == "adam":
            v = 0.95 * v + 0.05 * change**2
        else:
            v = v - 0.05 * change**2 * np.sign(v - change**2)
        w = w + 0.3 * m / (np.sqrt(v) + 0.01)
        model, memory = optimiser.combine(model, uploads_of(models), memory)
        assert np.allclose(model[:N_PARAMETERS], w, rtol=1e-3, atol=1e-4)


def test_without_moments_and_with_a_large_tau_a_server_step_is_a_scaled_mean_step() -> None:
    optimiser = Adaptive(rule="adam", eta=100.0, beta1=0.0, beta2=0.0, tau=100.0)
    model, models = np.zeros(N_NUMBERS, dtype=np.float32), 0.01 * some_models(5)
    memory = {one: np.zeros(N_NUMBERS, dtype=np.float32) for one in optimiser.memory}

    new, _ = optimiser.combine(model, uploads_of(models), memory)

    assert np.allclose(new, models.mean(axis=0), atol=1e-5)


@pytest.mark.parametrize("name", ["median", "trimmed-mean", "multi-krum"])
def test_two_liars_of_ten_change_next_to_nothing(name: str) -> None:
    model = np.zeros(N_NUMBERS, dtype=np.float32)
    models = 1.0 + 0.01 * some_models(10)
    models[[2, 7]] = 1e6

    new, _ = aggregator_named(name).combine(model, uploads_of(models), {})
    plain, _ = aggregator_named("mean").combine(model, uploads_of(models), {})

    assert np.allclose(new, 1.0, atol=0.05)
    assert (plain > 1e4).all()


def test_the_median_is_that_of_numpy() -> None:
    for n_models in (1, 2, 5, 6):
        models = some_models(n_models)

        new, _ = aggregator_named("median").combine(models[0], uploads_of(models), {})

        assert np.allclose(new, np.median(models, axis=0), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("q-fedavg", {"q": -1.0}),
        ("trimmed-mean", {"share": 0.5}),
        ("multi-krum", {"liars": 0.7}),
        ("fedyogi", {"eta": 0.0}),
        ("mean", {"eta": 0.0}),
        ("fedavgm", {"beta": 1.0}),
        ("fedadam", {"beta1": 1.0}),
        ("mean", {"q": 1.0}),
        ("means", {}),
    ],
)
def test_wrong_names_and_options_are_refused(name: str, options: dict[str, float]) -> None:
    with pytest.raises(OptionError):
        aggregator_named(name, options)


def test_options_are_listed_with_their_defaults() -> None:
    assert AGGREGATORS.options("fedyogi") == {"eta": 0.01, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3}
