import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.federation.evaluation import ClientScores, adjusted_rand_index, sample_half_width
from fielding.rng import stream


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


# ---- a sample of the clients ---------------------------------------------------------------------------------------


def test_intervals_of_samples_hold_the_mean_of_all_in_about_95_of_100_cases() -> None:
    accuracies = stream(1, "accuracies").beta(8, 2, size=60)
    n_held = 0
    for at in range(1000):
        sample = stream(1, "sample", at).choice(accuracies, size=20, replace=False)
        half = sample_half_width(sample, 60)
        assert half is not None
        n_held += abs(sample.mean() - accuracies.mean()) <= half
    assert 920 <= n_held <= 975


def test_a_sample_says_of_how_many_it_is_and_all_say_nothing() -> None:
    three = ClientScores(clients=np.arange(3), n_test=np.full(3, 4), correct=np.array([1, 2, 3]), loss=np.zeros(3))
    assert "accuracy_ci95" not in three.summary()
    of_nine = ClientScores(
        clients=np.arange(3), n_test=np.full(3, 4), correct=np.array([1, 2, 3]), loss=np.zeros(3), n_of=9
    )
    assert of_nine.summary()["n_testable"] == 9
    assert of_nine.summary()["accuracy_ci95"] == pytest.approx(4.303 * 0.25 / np.sqrt(3) * np.sqrt(6 / 9), rel=1e-3)
    assert sample_half_width(np.array([0.5]), 9) is None


# ---- agreement ------------------------------------------------------------------------------------------------


GROUPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30)


@given(GROUPS)
def test_the_index_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    from sklearn.metrics import adjusted_rand_score

    first, second = np.array(pairs).T

    assert adjusted_rand_index(first, second) == pytest.approx(adjusted_rand_score(first, second), abs=1e-12)
