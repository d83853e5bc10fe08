import numpy as np

from fielding.engine.round import run_round
from fielding.methods.fielding import Fielding
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
