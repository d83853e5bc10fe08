import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.federation.evaluation import ClientScores, adjusted_rand_index


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


# ---- agreement ------------------------------------------------------------------------------------------------


GROUPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30)


@given(GROUPS)
def test_the_index_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    from sklearn.metrics import adjusted_rand_score

    first, second = np.array(pairs).T

    assert adjusted_rand_index(first, second) == pytest.approx(adjusted_rand_score(first, second), abs=1e-12)
