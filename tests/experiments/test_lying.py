import numpy as np
import pytest

from experiments.lying import METRICS, Outcome, cases, honest_accuracy, honest_ari, honest_share, table
from fielding.simulation.attacks import LIES

TEST = {
    "client": [0, 1, 2, 4],
    "cluster": [7, 7, 3, 3],
    "correct": [1, 3, 0, 4],
    "n_test": [2, 4, 4, 4],
}
"""Client 3 has nothing to be tested on."""
HONEST = np.array([True, True, True, True, False])


def test_only_honest_clients_count() -> None:
    assert honest_accuracy(TEST, HONEST) == pytest.approx((0.5 + 0.75 + 0.0) / 3)
    assert honest_ari(TEST, np.array([0, 0, 1, 1, 0], dtype=np.int32), HONEST) == 1.0
    assert honest_ari(TEST, np.array([0, 0, 1, 1, 0], dtype=np.int32), np.ones(5, dtype=np.bool_)) < 1.0
    assert honest_share(TEST, np.array([0, 1, 1, 1, 1], dtype=np.int32), HONEST) == pytest.approx(2 / 3)
    assert honest_accuracy({**TEST, "served": [2, 4, 4, 0]}, HONEST) == 1.0


def test_every_lie_meets_every_metric_and_is_compared_with_honesty_and_one_model() -> None:
    chosen = cases(2, 20, quick=False)

    assert len(set(chosen)) == len(chosen) == 2 * (1 + len(METRICS) * (1 + 3 * len(LIES)))
    assert sum(case.method == "global" for case in chosen) == 2
    assert all(case.share == 0.2 or not case.share for case in cases(2, 20, quick=True))


def test_the_table_has_means_over_seeds_and_the_lowest_agreement() -> None:
    outcomes = [
        Outcome(case=case, ari=0.5 * case.seed, among_own=1.0, accuracy=case.share, n_reclusterings=case.seed)
        for case in cases(2, 40, quick=False)
    ]
    rows = {row[0]: row[1:] for row in table(outcomes, METRICS[0])}

    assert list(rows) == ["lie", *LIES, "none", "global model"]
    assert rows["lie"][:4] == ["ARI, 10%", "ARI, 20%", "ARI, 30%", "accuracy, 10%"]
    assert rows["mimic"] == ["0.75 (0.50)"] * 3 + ["0.100", "0.200", "0.300"] + ["1.5"] * 3
    assert rows["global model"] == ["-"] * 3 + ["0.000"] * 3 + ["-"] * 3
