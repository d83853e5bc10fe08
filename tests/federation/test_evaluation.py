import numpy as np

from fielding.federation.evaluation import ClientScores


def test_the_worst_tenth_of_eleven_clients_are_two() -> None:
    scores = ClientScores(
        clients=np.arange(11), n_test=np.full(11, 10), correct=np.arange(11)[::-1].copy(), loss=np.zeros(11)
    )

    assert scores.summary()["worst_decile"] == np.mean([0.0, 0.1])
    assert scores.summary()["accuracy"] == 0.5


def test_nobody_tested_gives_no_figures() -> None:
    nobody = np.empty(0, dtype=np.int64)

    summary = ClientScores(clients=nobody, n_test=nobody, correct=nobody, loss=np.empty(0)).summary()

    assert summary == {
        "accuracy": None,
        "accuracy_weighted": None,
        "worst_decile": None,
        "test_loss": None,
        "n_tested": 0,
    }
