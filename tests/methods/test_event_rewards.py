import json
import math
from dataclasses import replace

import numpy as np
import pytest

from fielding.coordinator import LearnedTau
from fielding.engine.round import run_round
from fielding.federation.clients import Updates
from fielding.methods.fielding import MOST_ROUNDS, EventRewards, Fielding
from fielding.simulation.clients import SimulatedClients
from tests.methods.settings import federation_of, setting_of
from tests.simulation.small import small_clients


def told(*losses: float) -> Updates:
    """Return what a round says whose participants had these losses."""
    nobody = np.empty(0, dtype=np.int64)
    return Updates(
        clients=nobody,
        groups=nobody,
        start=nobody,
        models=np.empty((0, 1), dtype=np.float32),
        n_samples=nobody,
        loss=np.array(losses),
        square_loss=np.array(losses) ** 2,
        n_parameters=1,
        learning_rate=0.1,
    )


def test_the_reward_compares_equally_many_rounds_on_both_sides() -> None:
    rewards = EventRewards()
    for loss in (9.0, 4.0, 2.0):
        rewards.learn(told(loss))
    assert rewards.close() is None, "nothing came before the first event"
    rewards.learn(told(1.0, 2.0))
    rewards.learn(told(0.5))

    assert rewards.close() == pytest.approx(math.log(3.0 / 1.0))
    rewards.learn(told(2.0))
    assert rewards.close() == pytest.approx(math.log(0.5 / 2.0)), "worse than before is a loss"


def test_rounds_without_a_number_say_nothing() -> None:
    rewards = EventRewards()
    rewards.learn(told(1.0))
    rewards.close()
    rewards.learn(told())
    rewards.learn(told(float("inf")))

    assert rewards.close() is None
    rewards.learn(told(0.0))
    assert rewards.close() == pytest.approx(math.log(1.0 / 1e-6)), "no loss is a small one; what came before is kept"


def test_long_quiet_times_count_by_their_first_rounds_and_stay_small() -> None:
    rewards = EventRewards()
    for _ in range(2 * MOST_ROUNDS):
        rewards.learn(told(1.0))

    assert rewards.record() == [[], [1.0] * MOST_ROUNDS]


def test_a_record_is_json_and_goes_on_alike() -> None:
    rewards = EventRewards()
    for loss in (0.1, 0.7):
        rewards.learn(told(loss))
    rewards.close()
    rewards.learn(told(1.0 / 3.0))

    twin = EventRewards.from_record({"rewards": json.loads(json.dumps(rewards.record()))}, "rewards")

    assert twin.record() == rewards.record()
    assert twin.close() == rewards.close()
    assert EventRewards.from_record({}, "rewards").record() == [[], []]


def learning(clients: SimulatedClients) -> Fielding:
    setting = setting_of(clients)
    return Fielding(replace(setting, policy=replace(setting.policy, trigger=LearnedTau(tries=1))))


def test_fielding_rewards_its_trigger_and_goes_on_from_a_snapshot() -> None:
    one, other = small_clients(), small_clients()
    first, second = learning(one), learning(other)
    for at in range(5):
        run_round(federation_of(one, first), at)
        run_round(federation_of(other, second), at)
    values, arrays = second.snapshot()
    resumed = learning(other)
    resumed.restore(json.loads(json.dumps(values)), {name: array.copy() for name, array in arrays.items()})

    for at in range(5, 8):
        run_round(federation_of(one, first), at)
        run_round(federation_of(other, resumed), at)

    memory = first.coordinator.memory
    assert memory.n_assessed >= 2
    assert resumed.coordinator.memory == memory
    assert (first.models == resumed.models).all()
