"""The algorithm of the convergence theorem: known k, k-center, a Delta that stays, draws with replacement, one step."""

from dataclasses import replace

import numpy as np
import pytest

from fielding._typing import Json
from fielding.client.report import ReportBatch
from fielding.coordinator.decision import Decision
from fielding.errors import OptionError
from fielding.methods import METHODS, method_named
from fielding.methods.variants import ClusteredSGD
from fielding.simulation.clients import SimulatedClients
from tests.methods.settings import setting_of
from tests.simulation.small import small_clients

CATS, DOGS, BOTH = [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.0, 0.5]
NEARLY_CATS, NEARLY_DOGS = [0.95, 0.05, 0.0], [0.0, 0.05, 0.95]


def method_of(clients: SimulatedClients, options: dict[str, Json], *, participants: int = 4) -> ClusteredSGD:
    setting = setting_of(clients, participants=participants)
    method = method_named(METHODS["clustered-sgd"], setting, options)
    assert isinstance(method, ClusteredSGD)
    return method


def hear(method: ClusteredSGD, clients: SimulatedClients, reports: dict[int, list[float]]) -> Decision:
    batch = ReportBatch(client_ids=list(reports), representations=np.array(list(reports.values())))
    decision = method.adapt(batch, clients)
    assert decision is not None
    return decision


def five_to_one(**options: Json) -> tuple[ClusteredSGD, SimulatedClients]:
    """Return a method that knows five clients with cats and one with dogs."""
    clients = small_clients()
    clients.begin(0)
    method = method_of(clients, options)
    hear(method, clients, {0: CATS, 1: CATS, 2: NEARLY_CATS, 3: CATS, 4: NEARLY_CATS, 5: DOGS})
    return method, clients


def test_there_are_as_many_clusters_as_one_says() -> None:
    two, _ = five_to_one(k=2)
    one, _ = five_to_one(k=1)

    assert two.membership()[:6].tolist() == [0, 0, 0, 0, 0, 1]
    assert one.membership()[:6].tolist() == [0] * 6


def test_delta_stays_what_it_is_however_often_it_is_exceeded() -> None:
    method, clients = five_to_one(k=2, delta=0.3)

    # Two of k clusters must hold three kinds of clients: L1 0.95 and more apart, at every event anew.
    thresholds = []
    for event in range(4):
        decision = hear(method, clients, {0: BOTH, 1: NEARLY_DOGS if event % 2 else CATS})
        assert decision.reclustered
        thresholds.append(decision.threshold)

    assert thresholds == [0.3] * 4


def test_nobody_is_grouped_anew_while_all_pairs_are_near() -> None:
    method, clients = five_to_one(k=2, delta=0.3)

    decision = hear(method, clients, {0: NEARLY_CATS, 5: NEARLY_DOGS})

    assert not decision.reclustered


def test_every_cluster_draws_the_same_number_and_may_draw_a_client_again() -> None:
    method, clients = five_to_one(k=2)

    plan = method.plan(clients)

    assert np.bincount(plan.start).tolist() == [2, 2]
    assert plan.clients[plan.start == 1].tolist() == [5, 5]  # the only one with dogs
    assert plan.wanted.tolist() == [2, 2]
    assert plan.groups.tolist() == [0, 0, 1, 1]
    assert plan.n_steps == 1


def test_draws_are_spread_evenly_over_a_cluster() -> None:
    clients = small_clients()
    clients.begin(0)
    method = method_of(clients, {"k": 2}, participants=6000)
    hear(method, clients, {0: CATS, 1: CATS, 2: NEARLY_CATS, 3: CATS, 4: NEARLY_CATS, 5: DOGS})

    plan = method.plan(clients)

    counts = np.bincount(plan.clients[plan.start == 0], minlength=5)
    assert counts.sum() == 3000
    assert (np.abs(counts - 600) < 5 * np.sqrt(600 * 0.8)).all()


def test_other_rounds_draw_others() -> None:
    method, clients = five_to_one(k=2)

    first = method.plan(clients).clients.tolist()
    assert method.plan(clients).clients.tolist() == first
    drawn = []
    for number in range(1, 6):
        clients.begin(number)
        drawn.append(method.plan(clients).clients.tolist())

    assert any(others != first for others in drawn)


def test_before_the_first_report_all_clients_train_the_one_model() -> None:
    clients = small_clients()
    clients.begin(0)
    method = method_of(clients, {})

    plan = method.plan(clients)

    assert plan.start.tolist() == [0] * 4


def test_who_is_drawn_twice_counts_twice() -> None:
    method, clients = five_to_one(k=2)
    usual = method.plan(clients)
    once = clients.train(replace(usual, clients=np.array([0, 1, 5, 5]), wanted=np.array([2, 2])))

    method.learn(once)

    rows = once.models[np.isin(once.clients, [5])]
    assert rows.shape[0] == 2
    np.testing.assert_array_equal(rows[0], rows[1])  # the same samples in the same round: one gradient, counted twice
    np.testing.assert_allclose(method.models[1], rows[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k is 0; give a whole number from 1"),
        ({"k": 2.5}, "k is 2.5; give a whole number"),
        ({"delta": 0.0}, "delta is 0.0; give a positive number"),
        ({"delta": "wide"}, "delta is 'wide'; give a positive number"),
        ({"delta": True}, "delta is True; give a positive number"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Json], message: str) -> None:
    clients = small_clients()

    with pytest.raises(OptionError, match=message):
        method_of(clients, options)
