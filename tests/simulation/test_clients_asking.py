"""Questions to clients and measurements of ours: who answers about which samples, and who pays for it."""

import numpy as np
import pytest

from fielding.conformance.audited_clients import AuditedClients
from fielding.runtime.serve import Serving
from fielding.runtime.train import LocalRule
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.hardware import AlwaysAvailable, Devices, Hardware, IntervalAvailability, Intervals
from fielding.traces.histograms import WindowPlan
from fielding.traces.sliding import SlidingWindows
from fielding.training.trainer import LearningRate
from tests.runtime.plans import scripted, softmax_trainer
from tests.runtime.serving_cases import (
    EVERYONE,
    PREDICTED,
    PRIOR,
    RULE,
    labelled,
    mixed_trainer,
    model,
    serving_clients,
)
from tests.simulation.run_cases import Sample, planted_windows

BOTH = np.concatenate([model(slope=0.0), model(slope=1.0)])
"""A model in doubt, and one that is right."""
LOG_2 = float(np.log(2.0))
PASS_S = np.array([0.01, 0.02, 0.03])
"""Seconds that clients need for a pass of one sample."""


def asking(serving: Serving, *, offline: int | None = None, n_visible: int = 1) -> SimulatedClients:
    """Return three clients that transfer at once; one of them may be offline. Each interval brings 8 samples."""
    there = np.array([client for client in range(3) if client != offline])
    hours = Intervals(clients=there, start_s=np.zeros(there.size), stop_s=np.full(there.size, 1e6))
    clients = SimulatedClients(
        labelled(n_visible=n_visible),
        None,
        mixed_trainer(),
        rule=RULE,
        hardware=Hardware(
            devices=Devices(ms_per_sample=1000.0 * PASS_S, kbps=np.full(3, 1e9)),
            availability=IntervalAvailability(3, hours),
        ),
        serving=serving,
        seed=1,
    )
    clients.begin(0)
    return clients


def n_passes(clients: SimulatedClients) -> list[float]:
    """Return how many samples each has put through a model for questions."""
    return list((clients.ledger.client_seconds("probe") / PASS_S).round(3).tolist())


# ---- questions of a method ---------------------------------------------------------------------------------------


def test_losses_are_corrected_if_they_are_to_be_as_the_model_would_serve() -> None:
    raw, corrected = (asking(PRIOR).losses(np.arange(3), BOTH, corrected=corrected) for corrected in (False, True))

    assert raw[:, 0] == pytest.approx(LOG_2)
    # Smoothed by one sample of the model's even mix, 8 of 8 become 8.5 of 9.
    assert corrected[:, 0] == pytest.approx([-np.log(8.5 / 9.0)] * 2 + [LOG_2])
    assert (corrected[:2, 1] < raw[:2, 1]).all()
    assert corrected[2] == pytest.approx(raw[2])


def test_without_a_correction_models_serve_as_they_are() -> None:
    clients, who = asking(Serving()), np.array([0, 1])

    assert clients.losses(who, BOTH, corrected=True).tolist() == clients.losses(who, BOTH).tolist()


def test_who_is_offline_says_nothing_and_pays_nothing() -> None:
    clients = asking(PRIOR, offline=1)

    found = clients.losses(np.array([1, 2, 0]), BOTH, corrected=True)

    assert np.isnan(found[0]).all()
    assert found[1:].tolist() == asking(PRIOR).losses(np.array([2, 0]), BOTH, corrected=True).tolist()
    assert clients.ledger.client_bytes_down("probe").tolist() == [4 * BOTH.size, 0, 4 * BOTH.size]
    assert clients.ledger.client_bytes_up("probe").tolist() == [8, 0, 8]
    assert n_passes(clients) == [16, 0, 16]


def test_who_has_no_samples_has_no_loss_and_pays_nothing() -> None:
    clients = serving_clients(labelled(empty=(1,)))

    found = clients.losses(np.array([0, 1]), model(), corrected=True)

    assert np.isnan(found[:, 0]).tolist() == [False, True]
    assert clients.ledger.client_bytes_down("probe")[1] == 0


def test_questions_about_an_interval_are_about_its_samples_alone() -> None:
    clients = asking(PRIOR, n_visible=2)

    found = clients.losses(np.arange(3), BOTH, blocks=[np.array([1])] * 3, corrected=True)

    assert n_passes(clients) == [16, 16, 16]
    # The mix is that of the window: 16 of 16 samples become 16.5 of 17.
    assert found[:, 0] == pytest.approx([-np.log(16.5 / 17.0)] * 2 + [LOG_2])


@pytest.mark.parametrize("serving", [PRIOR, PREDICTED])
def test_a_mix_that_has_to_be_estimated_costs_passes_over_the_window_where_that_is_not_looked_at(
    serving: Serving,
) -> None:
    who, is_estimated = np.array([0, 2]), int(serving is PREDICTED)
    blocks = [np.array([1])] * 2

    for asked, passes in (
        ({"blocks": blocks, "corrected": True}, 8 + is_estimated * 16),
        ({"corrected": True}, 16),
        ({"blocks": blocks}, 8),
    ):
        clients = asking(serving, n_visible=2)
        clients.losses(who, BOTH, **asked)
        assert [n_passes(clients)[client] for client in (0, 2)] == [2 * passes] * 2
        assert clients.now_s == pytest.approx(max(clients.ledger.client_seconds("probe")))


def test_accuracies_and_sizes_are_those_of_the_samples() -> None:
    clients, everyone = asking(PRIOR, offline=1), np.arange(3)

    accuracies = clients.accuracies(everyone, BOTH)
    paid = n_passes(clients)
    sizes = clients.block_sizes(everyone, [np.array([0]), np.array([0]), np.empty(0, dtype=np.int64)])

    assert accuracies[[0, 2]].tolist() == [[1.0, 1.0], [0.5, 1.0]]
    assert np.isnan(accuracies[1]).all()
    assert sizes.tolist() == [8, 0, 0]
    assert n_passes(clients) == paid, "to count is to look at no model"


@pytest.mark.parametrize("serving", [PRIOR, PREDICTED])
def test_the_watched_door_lets_corrected_questions_through(serving: Serving) -> None:
    clients = serving_clients(serving=serving)
    watched, who = AuditedClients(serving_clients(serving=serving), AlwaysAvailable()), np.array([1, 2])

    found = watched.losses(who, model(0.5), corrected=True)

    assert (found == clients.losses(who, model(0.5), corrected=True)).all()
    assert (found != clients.losses(who, model(0.5))).any()
    watched.check_ledger()


# ---- what clients do to the model that serves them ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("serving", "seconds"),
    [
        (PRIOR, [0.0, 0.0, 0.0]),
        (PREDICTED, [0.08, 0.16, 0.24]),
        # Three steps of four samples, each as long as three passes.
        (Serving(fine_tune=3), [0.36, 0.72, 1.08]),
        (Serving(correction="predicted", fine_tune=3), [0.44, 0.88, 1.32]),
    ],
)
def test_labels_are_free_but_estimates_and_steps_are_computed_and_nobody_waits(
    serving: Serving, seconds: list[float]
) -> None:
    clients = serving_clients(serving=serving)
    clients.scores(model(), EVERYONE)

    assert clients.ledger.client_seconds("probe") == pytest.approx(seconds)
    assert clients.now_s == 0.0
    assert clients.ledger.client_bytes_down().sum() + clients.ledger.client_bytes_up().sum() == 0
    assert clients.round_costs["client_seconds"] == pytest.approx(sum(seconds))


def test_whoever_is_not_tested_takes_no_steps() -> None:
    clients = serving_clients(labelled(empty=(1,)), Serving(fine_tune=3), trainer=softmax_trainer())

    scores = clients.scores(model()[:, :-2], EVERYONE)["window"]

    assert scores.also["tuned"].clients.tolist() == [0, 2]
    assert clients.ledger.client_seconds("probe")[1] == 0.0


def test_models_are_corrected_and_tuned_for_all_three_scores() -> None:
    serving = Serving(correction="prior", smoothing=1.0, fine_tune=1)

    found = serving_clients(labelled(n_visible=2), serving).scores(model(), EVERYONE)

    assert list(found) == ["window", "newest", "next"]
    for scores in found.values():
        assert scores.accuracy.tolist() == [1.0, 0.0, 0.5]
        assert list(scores.also) == ["corrected", "tuned"]
        assert scores.also["corrected"].accuracy.tolist() == [1.0, 1.0, 0.5]


# ---- measurements ------------------------------------------------------------------------------------------------

PLAN = WindowPlan(gap=1, window=1)
MODELS = np.array([[0.0], [1.0]], dtype=np.float32)
"""Models that always say the label that they name."""


def sample(client: int, interval: int, label: int, *, for_testing: bool = False) -> Sample:
    return Sample(client=client, interval=interval, label=label, for_testing=for_testing)


SAMPLES = [
    sample(0, 0, 0),
    sample(0, 0, 1, for_testing=True),
    sample(1, 0, 1),
    sample(1, 0, 1, for_testing=True),
    sample(2, 0, 0, for_testing=True),  # nothing to train on
    sample(0, 1, 1),
    sample(0, 1, 0, for_testing=True),
    sample(2, 1, 1),
]


def measured(windows: SlidingWindows, *, round_index: int = 0) -> SimulatedClients:
    n_clients = windows.n_clients
    clients = SimulatedClients(
        windows,
        None,
        scripted(MODELS),
        rule=LocalRule(n_steps=1, batch_size=1, rate=LearningRate(initial=0.1)),
        hardware=Hardware(
            devices=Devices(ms_per_sample=np.ones(n_clients), kbps=np.ones(n_clients)), availability=AlwaysAvailable()
        ),
        seed=1,
    )
    for at in range(round_index + 1):
        clients.begin(at)
    return clients


def planted(samples: list[Sample], *, concepts: bool = False) -> SlidingWindows:
    known = np.zeros((2, 3), dtype=np.int32) if concepts else None
    return planted_windows(samples, n_clients=3, plan=PLAN, n_intervals=2, concepts=known)


@pytest.mark.parametrize("concepts", [False, True])
def test_next_counts_all_samples_of_who_trains_now(concepts: bool) -> None:
    scores = measured(planted(SAMPLES, concepts=concepts)).scores(MODELS, np.array([1, 1, 1]))["next"]

    assert (scores.clients.tolist(), scores.n_test.tolist(), scores.correct.tolist()) == ([0], [2], [1])


def test_a_window_of_one_interval_is_the_newest() -> None:
    found = measured(planted(SAMPLES)).scores(MODELS, np.array([1, 1, 1]))

    assert found["newest"] is found["window"]
    assert found["window"].clients.size == 2


def test_the_newest_counts_apart_where_windows_show_more() -> None:
    labels = [(0, 0), (1, 1), (2, 0)]
    samples = [sample(0, at, label, for_testing=for_testing) for at, label in labels for for_testing in (False, True)]
    windows = planted_windows(samples, n_clients=1, plan=WindowPlan(gap=1, window=2), n_intervals=3)

    found = [measured(windows, round_index=at).scores(MODELS, np.array([1]))["newest"] for at in range(2)]

    # A model that says b, on the a and b of the first window and the b and a of the second.
    assert [one.correct.tolist() for one in found] == [[1], [0]]
    assert [one.n_test.tolist() for one in found] == [[1], [1]]


def test_heterogeneity_is_the_mean_distance_of_histograms_in_the_same_cluster() -> None:
    labels = [[0, 0], [1, 1], [0, 1]]
    clients = measured(planted([sample(client, 0, label) for client, own in enumerate(labels) for label in own]))

    # Histograms (1, 0), (0, 1) and (1/2, 1/2): distances 2, 1 and 1.
    assert clients.heterogeneity(np.array([0, 0, 0], dtype=np.int32)) == pytest.approx(4 / 3)
    assert clients.heterogeneity(np.array([0, 1, 0], dtype=np.int32)) == pytest.approx(1.0)


@pytest.mark.parametrize("membership", [[0, 1, 2], [-1, -1, -1], [0, -1, 1], [0, -1, -1]])
def test_without_two_clients_in_a_cluster_there_is_no_heterogeneity(membership: list[int]) -> None:
    clients = measured(planted([sample(client, 0, client % 2) for client in range(3)]))

    assert clients.heterogeneity(np.array(membership, dtype=np.int32)) is None


def test_who_has_no_samples_is_like_nobody() -> None:
    # Clients 0 and 1 see one label each; client 2 has nothing to train on.
    assert measured(planted(SAMPLES)).heterogeneity(np.array([0, 0, 0], dtype=np.int32)) == pytest.approx(2.0)
