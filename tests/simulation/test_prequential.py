"""Prequential accuracy: today's models on the samples of the next interval, before anybody trains on them."""

from pathlib import Path

import numpy as np

from fielding._typing import Counts, Json, Models
from fielding.client.drift import AnyChange
from fielding.runtime.observe import LabelObserver
from fielding.runtime.train import LocalRule
from fielding.simulation.assembly import Own
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.experiment import run
from fielding.simulation.hardware import AlwaysAvailable, Devices, Hardware
from fielding.traces.histograms import WindowPlan
from fielding.traces.sliding import SlidingWindows
from fielding.traces.trace import Trace
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import LearningRate
from tests.simulation.run_cases import Sample, planted_windows, small_pool, table

PLAN = WindowPlan(gap=2, window=2)
ALWAYS_A = np.array([0.0, 0.0, 1.0, 0.0], dtype=np.float32)
ALWAYS_B = np.array([0.0, 0.0, 0.0, 1.0], dtype=np.float32)
"""Softmax models of one feature: two weights, two biases."""


def clients_of(windows: SlidingWindows) -> SimulatedClients:
    n_clients = windows.n_clients
    return SimulatedClients(
        windows,
        LabelObserver(windows, AnyChange()),
        trainer_for(ModelRequest(name="softmax", input_shape=(1,), n_classes=2)),
        rule=LocalRule(n_steps=1, batch_size=1, rate=LearningRate(initial=0.1)),
        hardware=Hardware(
            devices=Devices(ms_per_sample=np.ones(n_clients), kbps=np.ones(n_clients)),
            availability=AlwaysAvailable(),
            overcommit=1.0,
        ),
        seed=1,
    )


def one_client(next_labels: list[int]) -> list[Sample]:
    """Return a client that sees a (to train and to test on) and next these labels, every other one for testing."""
    now = [Sample(client=0, interval=0, label=0, for_testing=at == 2) for at in range(3)]
    soon = [Sample(client=0, interval=1, label=label, for_testing=bool(at % 2)) for at, label in enumerate(next_labels)]
    return now + soon


def prequential(clients: SimulatedClients, models: list[Models], row: list[int]) -> dict[int, tuple[int, int]]:
    """Return the right ones and the number of samples of each client that is tested."""
    scores = clients.other_scores(np.stack(models), np.array(row)).get("prequential")
    assert scores is not None
    pairs = zip(scores.correct.tolist(), scores.n_test.tolist(), strict=True)
    return dict(zip(scores.clients.tolist(), pairs, strict=True))


def test_all_samples_of_the_next_interval_count_and_none_of_now() -> None:
    windows = planted_windows(one_client([1, 1, 1, 0]), n_clients=1, plan=PLAN, n_intervals=2)
    clients = clients_of(windows)
    clients.begin(0)

    assert prequential(clients, [ALWAYS_A], [0]) == {0: (1, 4)}
    plain = clients.scores(ALWAYS_A[np.newaxis], np.array([0]))
    assert (plain.correct.tolist(), plain.n_test.tolist()) == ([1], [1]), "today's test sample is an a"


def test_each_client_is_tested_on_its_own_model_of_now() -> None:
    samples = [Sample(client=client, interval=interval, label=1) for client in (0, 1) for interval in (0, 1)]
    clients = clients_of(planted_windows(samples, n_clients=2, plan=PLAN, n_intervals=2))
    clients.begin(0)

    assert prequential(clients, [ALWAYS_A, ALWAYS_B], [1, 0]) == {0: (1, 1), 1: (0, 1)}


def test_only_the_very_next_interval_counts_and_none_is_left_at_the_end() -> None:
    samples = [Sample(client=0, interval=at, label=at % 2) for at in (0, 1, 2)]
    clients = clients_of(planted_windows(samples, n_clients=1, plan=PLAN, n_intervals=3))

    found = []
    for at in range(5):
        clients.begin(at)
        found.append(prequential(clients, [ALWAYS_A], [0]))

    # Interval 1 (b) comes in round 2, interval 2 (a) in round 4.
    assert found == [{0: (0, 1)}, {0: (0, 1)}, {0: (1, 1)}, {0: (1, 1)}, {}]


def test_clients_without_training_data_are_not_tested() -> None:
    samples = [
        *one_client([0]),
        Sample(client=1, interval=0, for_testing=True),
        Sample(client=1, interval=1),
        Sample(client=2, interval=1),
        Sample(client=3, interval=0),
        Sample(client=3, interval=0, for_testing=True),
    ]
    clients = clients_of(planted_windows(samples, n_clients=4, plan=PLAN, n_intervals=2))
    clients.begin(0)

    everyone = np.zeros(4, dtype=np.int64)
    assert prequential(clients, [ALWAYS_A], everyone.tolist()) == {0: (1, 1)}
    assert who_is_tested(clients, everyone) == [0, 3], "client 1 has test samples only (ADR 13)"


def who_is_tested(clients: SimulatedClients, row: Counts) -> list[int]:
    return [int(client) for client in clients.scores(ALWAYS_A[np.newaxis], row).clients]


def test_there_is_none_where_concepts_are_known() -> None:
    windows = planted_windows(
        one_client([0]), n_clients=1, plan=PLAN, n_intervals=2, concepts=np.zeros((2, 1), dtype=np.int32)
    )
    clients = clients_of(windows)
    clients.begin(0)

    assert "prequential" not in clients.other_scores(ALWAYS_A[np.newaxis], np.array([0]))


def turning_trace() -> Trace:
    """Return two clients whose samples are all a on even days and all b on odd ones, for five days."""
    day, client = np.repeat(np.arange(5), 40), np.tile(np.arange(2, dtype=np.int32), 100)
    return Trace(
        client_ids=("one", "two"),
        client=client,
        time=(86400.0 * day + np.arange(200)).astype(np.float64),
        y=(day % 2).astype(np.int32),
        classes=("a", "b"),
        x=np.ones((200, 1), dtype=np.float32),
    )


def test_a_run_logs_what_it_would_have_got_right_of_the_next_interval(tmp_path: Path) -> None:
    config = {
        "rounds": 4,
        "trace": {"samples": 1, "interval": "1d", "gap": 1, "window": 1},
        "model": {"name": "softmax"},
        "training": {"participants": 2, "local_steps": 20, "batch_size": 5, "learning_rate": 1.0},
        "evaluation": {"every": 1},
    }
    result = run(config, tmp_path / "run", own=Own(samples=turning_trace()), page=False)

    rounds, values = result.column("prequential_accuracy")
    accuracy = dict(zip(*result.column("accuracy"), strict=True))
    assert rounds == [0, 1, 2, 3]
    # Every day turns the labels around: what is right today is wrong tomorrow.
    assert list(accuracy.values()) == [1.0] * 4
    assert values == [0.0] * 4
    assert result.summary is not None
    assert result.summary["final_prequential_accuracy"] == 0.0


def test_a_run_with_known_concepts_logs_none(tmp_path: Path) -> None:
    result = run(table(rounds=2, evaluation={"every": 1}), tmp_path, own=Own(samples=small_pool()), page=False)

    assert result.column("accuracy")[0] == [0, 1]
    assert not any("prequential_accuracy" in row for row in result.rounds)


def test_samples_that_all_share_are_not_new_so_a_run_with_them_logs_none() -> None:
    config: dict[str, Json] = {
        "rounds": 2,
        "trace": {"interval": "1d", "gap": 1, "window": 1},
        "model": {"name": "softmax"},
        "training": {"participants": 2, "local_steps": 1},
        "evaluation": {"every": 1},
    }
    alone = run(config, own=Own(samples=turning_trace()), page=False)
    trace: dict[str, Json] = {"interval": "1d", "gap": 1, "window": 1, "shared": 2}
    shared = run({**config, "trace": trace}, own=Own(samples=turning_trace()), page=False)

    assert alone.column("prequential_accuracy")[0] == [0, 1]
    assert shared.column("accuracy")[0] == [0, 1]
    assert not any("prequential_accuracy" in row for row in shared.rounds)
    assert alone.summary is not None
    assert shared.summary is not None
    assert alone.summary["final_prequential_accuracy"] is not None
    assert shared.summary["final_prequential_accuracy"] is None
