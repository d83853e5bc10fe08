"""The score on what comes next: today's models on samples of the next interval that no client has trained on."""

import json
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Counts, Json, Models
from fielding.client.drift import AnyChange
from fielding.runtime.observe import LabelObserver
from fielding.runtime.train import LocalRule
from fielding.simulation.assembly import Own
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.experiment import Watching, run
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


def scores_on_next(clients: SimulatedClients, models: list[Models], row: list[int]) -> dict[int, tuple[int, int]]:
    """Return the right ones and the number of samples of each client that is tested."""
    scores = clients.scores(np.stack(models), np.array(row))["next"]
    pairs = zip(scores.correct.tolist(), scores.n_test.tolist(), strict=True)
    return dict(zip(scores.clients.tolist(), pairs, strict=True))


def test_all_samples_of_the_next_interval_count_and_none_of_now() -> None:
    windows = planted_windows(one_client([1, 1, 1, 0]), n_clients=1, plan=PLAN, n_intervals=2)
    clients = clients_of(windows)
    clients.begin(0)

    assert scores_on_next(clients, [ALWAYS_A], [0]) == {0: (1, 4)}
    plain = clients.scores(ALWAYS_A[np.newaxis], np.array([0]))["window"]
    assert (plain.correct.tolist(), plain.n_test.tolist()) == ([1], [1]), "today's test sample is an a"


def test_each_client_is_tested_on_its_own_model_of_now() -> None:
    samples = [Sample(client=client, interval=interval, label=1) for client in (0, 1) for interval in (0, 1)]
    clients = clients_of(planted_windows(samples, n_clients=2, plan=PLAN, n_intervals=2))
    clients.begin(0)

    assert scores_on_next(clients, [ALWAYS_A, ALWAYS_B], [1, 0]) == {0: (1, 1), 1: (0, 1)}


def test_only_the_very_next_interval_counts_and_none_is_left_at_the_end() -> None:
    samples = [Sample(client=0, interval=at, label=at % 2) for at in (0, 1, 2)]
    clients = clients_of(planted_windows(samples, n_clients=1, plan=PLAN, n_intervals=3))

    found = []
    for at in range(5):
        clients.begin(at)
        found.append(scores_on_next(clients, [ALWAYS_A], [0]))

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
    assert scores_on_next(clients, [ALWAYS_A], everyone.tolist()) == {0: (1, 1)}
    assert who_is_tested(clients, everyone) == [0, 3], "client 1 has test samples only (ADR 13)"


def who_is_tested(clients: SimulatedClients, row: Counts) -> list[int]:
    return [int(client) for client in clients.scores(ALWAYS_A[np.newaxis], row)["window"].clients]


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

    rounds, values = result.column("next_accuracy")
    accuracy = dict(zip(*result.column("accuracy"), strict=True))
    assert rounds == [0, 1, 2, 3]
    # Every day turns the labels around: what is right today is wrong tomorrow.
    assert list(accuracy.values()) == [1.0] * 4
    assert values == [0.0] * 4
    assert result.summary is not None
    assert result.summary["final_next_accuracy"] == 0.0
    assert result.summary["final_prequential_accuracy"] == 0.0, "the old name"
    assert result.column("prequential_accuracy") == (rounds, values)


def test_a_scenario_has_a_next_interval_for_every_evaluation(tmp_path: Path) -> None:
    config = table(rounds=4, evaluation={"every": 1})
    result = run(config, tmp_path / "run", own=Own(samples=small_pool()), page=False)

    for name in ("accuracy", "newest_accuracy", "next_accuracy"):
        rounds, values = result.column(name)
        assert rounds == [0, 1, 2, 3], name
        assert all(0.0 <= value <= 1.0 for value in values), name
    lines = [json.loads(line) for line in (tmp_path / "run" / "clients.jsonl").read_text().splitlines()]
    for row, line in zip(result.rounds, lines, strict=True):
        pairs = zip(line["next_correct"], line["next_n_test"], strict=True)
        assert row["next_accuracy"] == pytest.approx(np.mean([right / whole for right, whole in pairs if whole]))


NATURAL: dict[str, Json] = {
    "trace": {"interval": "1d", "gap": 1, "window": 1},
    "model": {"name": "softmax"},
    "training": {"participants": 2, "local_steps": 1},
    "evaluation": {"every": 1},
}


def test_samples_that_all_share_are_not_new_and_the_others_are() -> None:
    trace: dict[str, Json] = {"interval": "1d", "gap": 1, "window": 1, "shared": 2}
    alone, shared = (
        run({**NATURAL, **more}, own=Own(samples=turning_trace()), page=False)
        for more in ({"rounds": 2}, {"rounds": 2, "trace": trace})
    )

    for result in (alone, shared):
        assert result.column("next_accuracy")[0] == [0, 1]


def test_a_trace_that_ends_with_the_run_has_no_next_score_at_the_end_and_says_so() -> None:
    told: list[str] = []
    result = run(
        {**NATURAL, "rounds": 5}, own=Own(samples=turning_trace()), page=False, watch=Watching(on_note=told.append)
    )

    assert result.column("next_accuracy")[0] == [0, 1, 2, 3], "the last day has none"
    assert result.rounds[-1]["next_accuracy"] is None
    assert result.summary is not None
    assert result.summary["final_next_accuracy"] is not None, "the mean of those that have one"
    assert told == []
    late = run(
        {**NATURAL, "rounds": 5, "evaluation": {"every": 5}},
        own=Own(samples=turning_trace()),
        page=False,
        watch=Watching(on_note=told.append),
    )
    assert late.summary is not None
    assert late.summary["final_next_accuracy"] is None
    assert [one for one in told if "rounds" in one] == list(late.notes)
    assert "at most 4" in late.notes[0]
