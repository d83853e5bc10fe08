import numpy as np

from fielding.methods.method import draw_clients, plan_probe
from tests.methods.planted import planted_clients


def test_a_probe_waits_for_everybody_and_is_charged_as_one() -> None:
    clients = planted_clients([[0, 1, 2]])
    clients.begin(0)
    model = clients.trainer.initial_model(1)[np.newaxis]

    updates = clients.train(plan_probe(np.array([0, 2]), model, np.zeros(2, dtype=np.int64), n_steps=1))

    assert updates.clients.tolist() == [0, 2]
    assert (clients.ledger.client_bytes_up("probe") > 0).tolist() == [True, False, True]
    assert not clients.ledger.client_bytes_up("model").any()


def test_no_more_clients_are_drawn_than_are_wanted_or_there() -> None:
    clients = planted_clients([[0] * 8])
    clients.begin(0)
    among = np.arange(8) % 2 == 0

    some = draw_clients(clients, among, 2, purpose="test")

    assert some.size == 2
    assert set(some.tolist()) < {0, 2, 4, 6}
    assert sorted(some.tolist()) == some.tolist()
    assert draw_clients(clients, among, 9, purpose="test").tolist() == [0, 2, 4, 6]
    assert draw_clients(clients, among, None, purpose="test").tolist() == [0, 2, 4, 6]
