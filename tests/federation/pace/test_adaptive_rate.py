from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import OptionError
from fielding.federation.pace import LEAST_FACTOR, Memory, PaceStep, pace_named
from fielding.federation.pace.adaptive_rate import AdaptiveRate
from fielding.records.run_checkpoint import METHOD
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import run
from tests.simulation.run_cases import small_pool, table


def step_of(before: np.ndarray, after: np.ndarray, has_new_data: bool = False, round_index: int = 0) -> PaceStep:
    return PaceStep(
        before=before.astype(np.float32),
        after=after.astype(np.float32),
        loss=1.0,
        has_new_data=has_new_data,
        round_index=round_index,
    )


def factors_of(pace: AdaptiveRate, weights: list[np.ndarray], arrivals: list[int] | None = None) -> list[float]:
    """Return the factor after each round from one model to the next."""
    memory: Memory = pace.memory(weights[0].size)
    factors = []
    for round_index, (before, after) in enumerate(pairwise(weights)):
        has_new_data = bool(arrivals[round_index]) if arrivals else False
        memory = pace.observe(step_of(before, after, has_new_data, round_index), memory)
        factors.append(pace.factor(memory))
    return factors


def settling(n_rounds: int, *, jump_at: int | None = None) -> list[np.ndarray]:
    """Return weights that halve their distance to a point every other round, a point that may jump."""
    weights, point = [np.zeros(4)], np.ones(4)
    for round_index in range(n_rounds):
        if round_index == jump_at:
            point = 3.0 * point
        weights.append(weights[-1] + 0.3 * (point - weights[-1]))
    return weights


def test_buffers_say_nothing_of_how_weights_settle() -> None:
    pace, plain = AdaptiveRate(), AdaptiveRate()
    weights = settling(6)
    memory, expected = pace.memory(6), plain.memory(4)
    for before, after in pairwise(weights):
        noise = np.random.default_rng(int(1e6 * after.sum())).normal(scale=50.0, size=2)
        wide = step_of(np.append(before, [0.0, 0.0]), np.append(after, noise))
        memory = pace.observe(replace(wide, n_parameters=4), memory)
        expected = plain.observe(step_of(before, after), expected)

        assert pace.factor(memory) == plain.factor(expected)
        assert memory["mean"][:4].tolist() == expected["mean"].tolist()
    assert memory["mean"].shape == (6,), "it mixes like the models"


@given(
    st.integers(0, 99),
    st.tuples(*[st.sampled_from([0.0, 0.3, 0.5, 0.7, 0.9])] * 3),
    st.sampled_from(["events", "rounds"]),
    st.sampled_from(["model", "zero"]),
)
def test_the_factor_is_the_formula_of_the_paper(
    seed: int, betas: tuple[float, float, float], time_steps: str, start: str
) -> None:
    rng = np.random.default_rng(seed)
    weights = list(rng.standard_normal((12, 3)).cumsum(axis=0).astype(np.float32).astype(np.float64))
    arrivals = rng.integers(0, 2, 11).tolist()
    pace = AdaptiveRate(beta1=betas[0], beta2=betas[1], beta3=betas[2], time_steps=time_steps, start=start)  # type: ignore[arg-type]

    expected, mean, variance, ratio, events = [], [0.0] * 3, 0.0, 0.0, 0
    corrected_mean, variance_before = (list(weights[0]) if start == "model" else [0.0] * 3), 0.0
    for index, now in enumerate(weights[1:], start=1):
        mean = [betas[0] * old + (1 - betas[0]) * one for old, one in zip(mean, now, strict=True)]
        deviation = sum((one - old) ** 2 for one, old in zip(now, corrected_mean, strict=True)) / 3
        variance = betas[1] * variance + (1 - betas[1]) * deviation
        corrected_variance = variance / (1 - betas[1] ** index)
        change = 1.0 if index == 1 else corrected_variance / variance_before
        ratio = betas[2] * ratio + (1 - betas[2]) * change
        corrected_mean, variance_before = [one / (1 - betas[0] ** index) for one in mean], corrected_variance
        events += arrivals[index - 1]
        time = index if time_steps == "rounds" else 1 + events
        expected.append(min(1.0, ratio / (1 - betas[2] ** index) / time))

    assert factors_of(pace, weights, arrivals) == pytest.approx(expected, rel=1e-4)


def test_the_factor_falls_while_weights_settle_and_rises_after_a_jump() -> None:
    factors = factors_of(AdaptiveRate(), settling(30, jump_at=20))

    assert factors[0] == 1.0
    assert max(factors[5:20]) < 0.8
    assert factors[20] == 1.0


def test_weights_that_go_on_moving_alike_keep_the_rate() -> None:
    weights = [np.array([0.1 * index, -0.1 * index]) for index in range(20)]

    assert min(factors_of(AdaptiveRate(), weights)) > 0.99


def test_the_zero_start_of_the_authors_halves_the_first_rates_for_nothing() -> None:
    weights = [np.array([10.0 + 0.01 * index]) for index in range(8)]

    assert min(factors_of(AdaptiveRate(), weights)) > 0.9
    assert max(factors_of(AdaptiveRate(start="zero"), weights)[3:]) < 0.7


def marching(n_rounds: int) -> list[np.ndarray]:
    """Return weights that move alike in all rounds: the ratio of variances comes to 1, at once if beta1 is 0."""
    return [np.array([0.1 * index]) for index in range(n_rounds + 1)]


def test_time_counts_rounds_with_new_data() -> None:
    factors = factors_of(AdaptiveRate(beta1=0.0), marching(8), [0, 1, 0, 0, 1, 0, 0, 0])

    assert factors == pytest.approx([1.0, 1 / 2, 1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3, 1 / 3], rel=1e-4)


def test_time_counts_rounds_if_asked_to() -> None:
    factors = factors_of(AdaptiveRate(time_steps="rounds"), marching(40), [1] * 40)

    assert factors[-1] == pytest.approx(1 / 40, rel=0.01)


def test_new_data_set_time_back_if_asked_to() -> None:
    arrivals = [0, 0, 0, 1, 0, 0]

    rounds = factors_of(
        AdaptiveRate(time_steps="rounds", reset=True, beta3=0.0, beta2=0.0, beta1=0.0), marching(6), arrivals
    )
    events = factors_of(AdaptiveRate(reset=True, beta1=0.0, beta2=0.0), marching(6), [1] * 6)

    assert rounds == pytest.approx([1.0, 1 / 2, 1 / 3, 1.0, 1 / 2, 1 / 3], rel=1e-4)
    assert events == pytest.approx([1.0] * 6, rel=1e-4)


def test_weights_that_stand_still_keep_the_rate_and_wake_up_at_full_rate() -> None:
    still = [np.ones(2)] * 5

    factors = factors_of(AdaptiveRate(), [*still, np.full(2, 2.0)])

    assert factors == [1.0] * 5


def test_no_variance_after_none_is_no_change_and_some_after_none_is_the_largest() -> None:
    pace, still = AdaptiveRate(beta3=0.0), np.ones(2)
    memory: Memory = pace.memory(2)
    for _ in range(3):
        memory = pace.observe(step_of(still, still), memory)
    moved = pace.observe(step_of(still, 2.0 * still), memory)

    assert memory["ratio"].tolist() == [1.0]
    assert moved["ratio"].tolist() == [1e6]


def test_the_rate_never_dies() -> None:
    pace = AdaptiveRate()

    assert pace.factor({**pace.memory(2), "time": np.array([1e9])}) == LEAST_FACTOR


@pytest.mark.parametrize(
    "options",
    [
        {"beta1": 1.0},
        {"beta3": -0.1},
        {"time_steps": "days"},
        {"start": 0},
        {"reset": "yes"},
        {"reset": 1},
        {"t": "rounds"},
        {"seed": 1},
    ],
)
def test_wrong_options_are_refused(options: dict[str, float | str]) -> None:
    with pytest.raises(OptionError):
        pace_named("adaptive", dict(options))


def test_in_a_run_only_data_that_arrive_after_the_start_are_time_steps() -> None:
    # Windows of two intervals, both there at the start; the third arrives in round 3, the fourth in round 6.
    times = []
    for n_rounds in (1, 3, 4, 7):
        config = table(rounds=n_rounds, pace={"name": "adaptive"}, method={"name": "global"})
        result = run(config, own=Own(samples=small_pool()), page=False)
        times.append(result.checkpoint.arrays[f"{METHOD}pace/time"].tolist())

    assert times == [[[1.0]], [[1.0]], [[2.0]], [[3.0]]]
