import json
import math
from dataclasses import replace

import numpy as np
import pytest

from fielding.coordinator import LearnedTau
from fielding.engine.round import run_round
from fielding.federation.clients import Updates
from fielding.methods.fielding import MOST_ROUNDS, EventRewards, Fielding
from fielding.methods.global_model import GlobalModel
from fielding.methods.method import plan_by_cluster
from fielding.simulation.clients import SimulatedClients
from tests.methods.settings import federation_of, setting_of
from tests.simulation.small import small_clients


def fielding_of(clients: SimulatedClients, *, k_max: int = 3, participants: int = 4) -> Fielding:
    return Fielding(setting_of(clients, k_max=k_max, participants=participants))


def test_one_cluster_is_federated_averaging_bit_for_bit() -> None:
    one, other = small_clients(), small_clients()
    fielding = fielding_of(one, k_max=1)
    everybody = GlobalModel(setting_of(other))

    for at in range(5):
        run_round(federation_of(one, fielding), at)
        run_round(federation_of(other, everybody), at)

    assert fielding.models.shape == everybody.models.shape == (1, 15)
    assert (fielding.models == everybody.models).all()


def test_participants_never_exceed_the_budget_and_train_their_own_cluster() -> None:
    clients = small_clients(overcommit=1.5)
    method = fielding_of(clients)

    for at in range(6):
        done = run_round(federation_of(clients, method), at)
        membership = method.membership()
        assert done.updates.clients.size <= 4
        assert (membership[done.plan.clients] == done.plan.start).all()
        assert np.unique(done.plan.clients).size == done.plan.clients.size


def test_a_cluster_that_nobody_trained_keeps_its_model() -> None:
    clients = small_clients()
    clients.begin(0)
    setting = setting_of(clients)
    models = setting.parts.cluster_models(setting.initial)
    models.mix(np.ones((3, 1)))
    membership = np.array([0, 0, 0, 2, 2, -1], dtype=np.int32)

    plan = plan_by_cluster(models, membership, clients, setting.parts)

    assert sorted(set(plan.start.tolist())) == [0, 2]
    assert 5 not in plan.clients
    assert plan.wanted.sum() == 4


def test_with_fewer_participants_than_clusters_every_cluster_trains_in_some_round() -> None:
    clients = small_clients()
    setting = setting_of(clients, participants=2)
    models = setting.parts.cluster_models(setting.initial)
    models.mix(np.ones((4, 1)))
    membership = np.array([0, 0, 0, 1, 3, -1], dtype=np.int32)
    trained = []
    for at in range(12):
        clients.begin(at)
        plan = plan_by_cluster(models, membership, clients, setting.parts)
        assert plan.wanted.tolist() == [1, 1]
        trained.append(tuple(plan.start.tolist()))

    assert set(sum(trained, ())) == {0, 1, 3}
    assert len(set(trained)) == 3, "any two"


def test_a_snapshot_goes_on_exactly_like_the_original() -> None:
    one, other = small_clients(), small_clients()
    first, second = fielding_of(one), fielding_of(other)
    for at in range(3):
        run_round(federation_of(one, first), at)
        run_round(federation_of(other, second), at)
    values, arrays = first.snapshot()
    restored = fielding_of(other)
    restored.restore(values, {name: array.copy() for name, array in arrays.items()})

    for at in range(3, 6):
        run_round(federation_of(one, first), at)
        run_round(federation_of(other, restored), at)

    assert (first.models == restored.models).all()
    assert (first.membership() == restored.membership()).all()
    assert first.cluster_ids() == restored.cluster_ids()


# ---- event rewards --------------------------------------------------------------------------------------------


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
