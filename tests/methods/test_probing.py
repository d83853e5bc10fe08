import numpy as np

from fielding.federation.clients import Updates
from fielding.methods.method import draw_clients, plan_probe
from fielding.methods.update_geometry import update_deltas
from tests.methods.planted import planted_clients


def answer(models: np.ndarray[tuple[int, ...], np.dtype[np.float32]], start: list[int]) -> Updates:
    n_answers = models.shape[0]
    return Updates(
        clients=np.arange(n_answers),
        groups=np.zeros(n_answers, dtype=np.int64),
        start=np.array(start),
        models=models,
        n_samples=np.ones(n_answers, dtype=np.int64),
        loss=np.ones(n_answers),
        square_loss=np.ones(n_answers),
        n_parameters=2,
        learning_rate=0.1,
    )


def test_changes_are_those_of_parameters_from_the_model_of_each_answer() -> None:
    models = np.array([[1.0, 2.0, 9.0], [5.0, 5.0, 9.0]], dtype=np.float32)

    moved = update_deltas(answer(models, [1, 0]), models)

    assert moved.tolist() == [[-4.0, -3.0], [4.0, 3.0]]


def test_changes_of_extreme_answers_stay_finite() -> None:
    most = np.finfo(np.float32).max

    moved = update_deltas(
        answer(np.full((1, 3), most, dtype=np.float32), [0]), np.full((1, 3), -most, dtype=np.float32)
    )

    assert moved.tolist() == [[most, most]]


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
