"""What holds for every pace."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from fielding._typing import Floats
from fielding.errors import OptionError
from fielding.federation.pace import LEAST_FACTOR, PACES, Memory, PaceStep, mix_memory, pace_named

N_NUMBERS = 4
every_pace = pytest.mark.parametrize("name", sorted(PACES))
models = nps.arrays(np.float32, N_NUMBERS, elements=st.floats(allow_nan=False, allow_infinity=False, width=32))
steps = st.builds(
    PaceStep,
    before=models,
    after=models,
    loss=st.floats(allow_nan=False, allow_infinity=False),
    has_new_data=st.booleans(),
    round_index=st.integers(0, 10**9),
)


def random_steps(seed: int, n_steps: int = 80) -> list[PaceStep]:
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((n_steps + 1, N_NUMBERS)).astype(np.float32)
    return [
        PaceStep(
            before=weights[index],
            after=weights[index + 1],
            loss=float(rng.exponential()),
            has_new_data=bool(rng.integers(0, 2)),
            round_index=2 * index,
        )
        for index in range(n_steps)
    ]


def copied(memory: Memory) -> dict[str, np.ndarray]:
    return {name: rows.copy() for name, rows in memory.items()}


def same(one: Memory, other: Memory) -> bool:
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


@every_pace
def test_the_first_state_is_flat_floats_and_the_first_round_runs_at_full_rate(name: str) -> None:
    pace = pace_named(name)
    memory = pace.memory(N_NUMBERS)

    for rows in memory.values():
        assert rows.ndim == 1
        assert rows.dtype in (np.float32, np.float64)
        assert rows.dtype != np.float32 or rows.size == N_NUMBERS
    assert pace.factor(memory) == 1.0
    assert not pace.restarts(memory)


@every_pace
def test_equal_steps_give_equal_states_and_nothing_is_edited(name: str) -> None:
    memory: Memory = pace_named(name).memory(N_NUMBERS)
    for step in random_steps(0):
        before, weights = copied(memory), (step.before.copy(), step.after.copy())

        after = pace_named(name).observe(step, memory)
        again = pace_named(name).observe(step, before)

        assert same(after, again)
        assert same(memory, before)
        assert (step.before == weights[0]).all()
        assert (step.after == weights[1]).all()
        memory = after


@every_pace
def test_states_keep_their_names_shapes_and_types(name: str) -> None:
    pace = pace_named(name)
    first = pace.memory(N_NUMBERS)
    memory: Memory = first

    for step in random_steps(1):
        memory = pace.observe(step, memory)
        assert {one: (rows.shape, rows.dtype) for one, rows in memory.items()} == {
            one: (rows.shape, rows.dtype) for one, rows in first.items()
        }


@every_pace
@given(rounds=st.lists(steps, max_size=12))
def test_no_finite_step_makes_anything_non_finite(name: str, rounds: list[PaceStep]) -> None:
    pace = pace_named(name)
    memory: Memory = pace.memory(N_NUMBERS)

    for step in rounds:
        memory = pace.observe(step, memory)
        assert all(np.isfinite(rows).all() for rows in memory.values())
        assert LEAST_FACTOR <= pace.factor(memory) <= 1.0


@every_pace
@given(losses=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=20, max_size=40))
def test_no_finite_loss_makes_anything_non_finite_in_a_long_run(name: str, losses: list[float]) -> None:
    pace = pace_named(name)
    memory: Memory = pace.memory(N_NUMBERS)

    for step, loss in zip(random_steps(2, len(losses)), losses, strict=True):
        memory = pace.observe(replace(step, loss=loss, has_new_data=True), memory)
        assert all(np.isfinite(rows).all() for rows in memory.values())
        assert LEAST_FACTOR <= pace.factor(memory) <= 1.0


@every_pace
def test_states_of_clusters_can_be_stacked_mixed_and_gone_on_with(name: str) -> None:
    pace = pace_named(name)
    states: list[Memory] = []
    for seed in range(2):
        memory: Memory = pace.memory(N_NUMBERS)
        for step in random_steps(seed):
            memory = pace.observe(step, memory)
        states.append(memory)
    rows: dict[str, Floats] = {one: np.array([state[one] for state in states]) for one in states[0]}

    mixed = mix_memory(rows, np.array([[0.3, 0.7]]))
    child = {one: array[0] for one, array in mixed.items()}

    assert pace.factor(child) == pace.factor(states[1])
    after = pace.observe(random_steps(5)[0], child)
    assert all(np.isfinite(array).all() for array in after.values())


@every_pace
def test_options_are_those_of_the_constructor_and_wrong_names_are_refused(name: str) -> None:
    assert pace_named(name, PACES.options(name)) == pace_named(name)
    with pytest.raises(OptionError):
        pace_named(name, {"speed": 1.0})
    with pytest.raises(OptionError):
        pace_named(f"{name}s")


def test_a_steady_pace_remembers_nothing() -> None:
    assert pace_named("steady", seed=3).memory(10**6) == {}
