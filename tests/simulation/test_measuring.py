"""Measurements of ours: who is served how well now and next, and how alike the clients of a cluster are."""

import numpy as np
import numpy.typing as npt
import pytest
from fielding.simulation.local_training import Moment
from fielding.simulation.measuring import Measuring

from fielding._typing import Counts, Mask, Models
from fielding.traces.histograms import WindowPlan
from fielding.traces.sliding import SlidingWindows
from tests.simulation.run_cases import Sample, planted_windows

PLAN = WindowPlan(gap=1, window=1)


def sample(client: int, interval: int, label: int, *, for_testing: bool = False) -> Sample:
    return Sample(client=client, interval=interval, label=label, for_testing=for_testing)


def windows_of(samples: list[Sample], *, looks_ahead: bool = True, concepts: bool = False) -> SlidingWindows:
    known = np.zeros((2, 3), dtype=np.int32) if concepts else None
    windows = planted_windows(samples, n_clients=3, plan=PLAN, n_intervals=2, concepts=known)
    return SlidingWindows(windows.pool, windows.schedule, PLAN, looks_ahead=looks_ahead)


SAMPLES = [
    sample(0, 0, 0),
    sample(0, 0, 1, for_testing=True),
    sample(1, 0, 1),
    sample(1, 0, 1, for_testing=True),
    sample(1, 0, 0, for_testing=True),
    sample(2, 0, 0, for_testing=True),  # nothing to train on
    sample(0, 1, 1),
    sample(0, 1, 0, for_testing=True),
    sample(2, 1, 1),
]


def measuring(windows: SlidingWindows) -> tuple[Measuring, Moment]:
    """Return a scorer whose models name the one label that they always say; a wrong answer costs 2."""

    def score(model: Models, rows: Counts) -> tuple[npt.NDArray[np.float32], Mask]:
        right = windows.schedule.y[rows] == model[0]
        return np.where(right, 0.0, 2.0).astype(np.float32), right

    return Measuring(windows, score, seed=1), Moment(round_index=0, training=windows.training(0))


MODELS = np.array([[0.0], [1.0]], dtype=np.float32)


def test_everyone_with_data_is_tested_on_the_model_that_serves_it() -> None:
    measure, now = measuring(windows_of(SAMPLES))

    scores = measure.served(MODELS, np.array([0, 1, 0]), now)

    assert scores.clients.tolist() == [0, 1], "client 2 has nothing to train on yet"
    assert scores.n_test.tolist() == [1, 2]
    assert scores.correct.tolist() == [0, 1]
    assert scores.loss.tolist() == [2.0, 1.0]


def test_next_counts_all_samples_of_who_trains_now() -> None:
    measure, now = measuring(windows_of(SAMPLES))

    scores = measure.served_elsewhere(MODELS, np.array([1, 1, 1]), now)["prequential"]

    assert (scores.clients.tolist(), scores.n_test.tolist(), scores.correct.tolist()) == ([0], [2], [1])


@pytest.mark.parametrize(("looks_ahead", "concepts"), [(False, False), (True, True)])
def test_there_is_no_next_where_it_would_not_be_new_or_a_scenario_draws_it(looks_ahead: bool, concepts: bool) -> None:
    measure, now = measuring(windows_of(SAMPLES, looks_ahead=looks_ahead, concepts=concepts))

    assert measure.served_elsewhere(MODELS, np.array([1, 1, 1]), now) == {}
    assert measure.served(MODELS, np.array([1, 1, 1]), now).clients.size == 2


def test_the_newest_counts_apart_where_windows_show_more() -> None:
    labels = [(0, 0), (1, 1), (2, 0)]
    samples = [sample(0, at, label, for_testing=for_testing) for at, label in labels for for_testing in (False, True)]
    windows = planted_windows(samples, n_clients=1, plan=WindowPlan(gap=1, window=2), n_intervals=3)
    measure, _ = measuring(windows)

    found = [
        measure.served_elsewhere(MODELS, np.array([1]), Moment(round_index=at, training=windows.training(at)))
        for at in range(2)
    ]

    # A model that says b, on the a and b of the first window and the b and a of the second.
    assert [one["newest"].correct.tolist() for one in found] == [[1], [0]]
    assert [one["newest"].n_test.tolist() for one in found] == [[1], [1]]


def test_heterogeneity_is_the_mean_distance_of_histograms_in_the_same_cluster() -> None:
    labels = [[0, 0], [1, 1], [0, 1]]
    windows = windows_of([sample(client, 0, label) for client, own in enumerate(labels) for label in own])
    measure, now = measuring(windows)

    # Histograms (1, 0), (0, 1) and (1/2, 1/2): distances 2, 1 and 1.
    assert measure.heterogeneity(np.array([0, 0, 0], dtype=np.int32), now) == pytest.approx(4 / 3)
    assert measure.heterogeneity(np.array([0, 1, 0], dtype=np.int32), now) == pytest.approx(1.0)


@pytest.mark.parametrize("membership", [[0, 1, 2], [-1, -1, -1], [0, -1, 1], [0, -1, -1]])
def test_without_two_clients_in_a_cluster_there_is_no_heterogeneity(membership: list[int]) -> None:
    windows = windows_of([sample(client, 0, client % 2) for client in range(3)])
    measure, now = measuring(windows)

    assert measure.heterogeneity(np.array(membership, dtype=np.int32), now) is None


def test_who_has_no_samples_is_like_nobody() -> None:
    measure, now = measuring(windows_of(SAMPLES))

    # Clients 0 and 1 see one label each; client 2 has nothing to train on.
    assert measure.heterogeneity(np.array([0, 0, 0], dtype=np.int32), now) == pytest.approx(2.0)
