import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Vector
from fielding.client.rehearsal import FORGETTING, LEAST_REFERENCE, SLACK, Confidence


def after(*looks: Vector) -> tuple[Confidence, list[bool]]:
    state, alarms = Confidence(), []
    for look in looks:
        state, is_alarm = state.after(look)
        alarms.append(is_alarm)
    return state, alarms


def served(rng: np.random.Generator, n_samples: int, accuracy: float) -> Vector:
    """Return confidences as trained models have them: mostly close to 1, far lower where they are wrong."""
    is_right = rng.random(n_samples) < accuracy
    return np.where(is_right, rng.beta(20, 1, n_samples), rng.beta(1, 5, n_samples))


def test_shortfall_is_measured_in_standard_errors_less_the_slack() -> None:
    state, alarms = after(np.full(20, 0.9), np.full(20, 0.8))

    # Spread 0.1 at least: a fall of 0.1 is 0.1 / (0.1 * sqrt(1/20 + 1/20)) standard errors.
    assert state.excess == pytest.approx(np.sqrt(10.0) - SLACK)
    assert alarms == [False, False]


def test_the_reference_counts_old_samples_less_and_has_the_spread_of_all() -> None:
    first, second = np.array([0.2, 0.4] * 10), np.array([0.6, 1.0] * 10)

    state, _ = after(first, second)

    weights = np.repeat([FORGETTING, 1.0], 20)
    values = np.concatenate([first, second])
    mean = np.average(values, weights=weights)
    assert state.weight == pytest.approx(weights.sum())
    assert state.mean == pytest.approx(mean)
    assert state.squares == pytest.approx((weights * (values - mean) ** 2).sum())


def test_a_clear_fall_is_an_alarm_and_what_fell_is_normal_from_then_on() -> None:
    state, alarms = after(np.full(20, 0.9), np.full(20, 0.5), np.full(20, 0.5))

    assert alarms == [False, True, False]
    assert state.mean == pytest.approx(0.5)
    assert state.excess == 0.0


def test_several_small_falls_in_a_row_add_up() -> None:
    looks = [np.full(20, 0.9 - 0.08 * at) for at in range(8)]

    _, alarms = after(*looks)

    assert alarms[:4] == [False, False, True, False]


@given(st.lists(st.floats(0.0, 0.2), min_size=1, max_size=12), st.integers(10, 40))
def test_a_model_that_only_gets_better_never_alarms(gains: list[float], n_samples: int) -> None:
    means = np.minimum(1.0, 0.1 + np.cumsum(gains))

    state, alarms = after(*[np.full(n_samples, mean) for mean in means.tolist()])

    assert not any(alarms)
    assert state.excess == 0.0


def test_nothing_is_held_against_a_reference_of_too_few_samples() -> None:
    few = int(LEAST_REFERENCE) - 1

    assert after(np.full(few, 0.9), np.full(50, 0.0))[1] == [False, False]
    assert after(np.full(few + 1, 0.9), np.full(50, 0.0))[1] == [False, True]


def test_false_alarms_are_rare_and_a_lost_third_of_accuracy_is_found() -> None:
    rng = np.random.default_rng(1)
    n_clients, n_looks = 300, 20

    calm = sum(sum(after(*[served(rng, 16, 0.96) for _ in range(n_looks)])[1]) for _ in range(n_clients))
    found = 0
    for _ in range(n_clients):
        looks = [served(rng, 16, accuracy) for accuracy in (0.96,) * 5 + (0.63,) * 3]
        found += any(after(*looks)[1][5:])

    assert calm <= 0.005 * n_clients * n_looks
    assert found >= 0.9 * n_clients
