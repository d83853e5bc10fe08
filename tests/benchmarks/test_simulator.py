import json
from functools import partial

import pytest

from benchmarks import simulator
from benchmarks.__main__ import app
from benchmarks.simulator import large_trace, method_overhead, whole_rounds
from benchmarks.workloads import WORKLOADS, Workload, workload_round, workload_windows
from fielding.cli.app import run_app
from tests.cli.in_process import Command
from tests.cli.invoke import assert_one_line_error, benchmarks


def nothing(_amount: int) -> None:
    """Show no progress."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every workload small."""
    sizes = {"n_clients": 6, "n_participants": 3, "n_steps": 2, "n_samples": 30, "batch_size": 4}
    for name, workload in list(WORKLOADS.items()):
        loop = {"loop_threads": 1, "name": name, "model": workload.model, "shape": workload.shape}
        monkeypatch.setitem(WORKLOADS, name, Workload(**loop, **sizes))  # type: ignore[arg-type]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["w1", "w2"])
def test_all_contenders_train_to_the_same_models(name: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from benchmarks.simulator import compare_training

    rows = compare_training(name, repeat=1, on_turn=nothing)

    assert rows[0].contender == "plain loop"
    assert rows[-1].contender == "one large batch (bound)"
    ours = [row for row in rows if row.contender.startswith("fielding")]
    assert ours
    for row in ours:
        assert row.largest_difference is not None
        assert 0.0 < row.largest_difference < 1e-4 or row.largest_difference == 0.0
        assert row.times_as_fast > 0.0


@pytest.mark.usefixtures("small")
def test_both_ways_to_evaluate_find_the_same_samples_right(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setattr(simulator, "N_CLIENTS", 12)

    rows = simulator.compare_evaluation("w1", repeat=1, on_turn=nothing)

    assert [row.largest_difference for row in rows] == [0.0, 0.0, 0.0]


@pytest.mark.usefixtures("small")
def test_a_whole_round_takes_longer_than_its_training() -> None:
    measured = whole_rounds(n_rounds=6)

    assert isinstance(measured["whole_to_training"], float)
    assert isinstance(measured["whole_to_steps"], float)
    assert 1.0 < measured["whole_to_training"] < measured["whole_to_steps"]


@pytest.mark.usefixtures("small")
def test_rounds_of_methods_are_held_against_a_bare_round() -> None:
    measured = method_overhead(n_rounds=3, methods=("global", "fielding"))

    methods = measured["methods"]
    assert isinstance(measured["bare_ms"], float)
    assert isinstance(methods, dict)
    for one in methods.values():
        assert isinstance(one, dict)
        assert one["to_bare"] == pytest.approx(float(str(one["round_ms"])) / measured["bare_ms"])


def test_a_large_trace_is_set_up_and_advanced() -> None:
    measured = large_trace(n_clients=50, n_labels=5)

    assert measured["samples"] == 50 * 25 * 20


def test_participants_of_a_workload_draw_from_their_own_samples() -> None:
    from fielding.training.factory import ModelRequest, trainer_for

    workload = WORKLOADS["w1"]
    windows = workload_windows(workload)
    trainer = trainer_for(ModelRequest(name="mlp", input_shape=workload.shape, n_classes=10))

    work = workload_round(workload, windows, trainer, 0)

    assert work.draws.shape == (50, 20, 20)
    owners = windows.schedule.client[work.draws]
    assert (owners == owners[:, :1, :1]).all()


def test_an_unknown_workload_is_named() -> None:
    assert_one_line_error(benchmarks("simulator", "--workloads", "w4"), "unknown workload 'w4'", "w1, w2, w3")


@pytest.mark.usefixtures("small")
def test_the_command_prints_a_table_and_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setattr(simulator, "large_trace", partial(large_trace, n_clients=50, n_labels=5))
    monkeypatch.setattr(simulator, "method_overhead", partial(method_overhead, methods=("global", "fielding")))
    command = Command(monkeypatch, capsys, partial(run_app, app))

    assert command("simulator", "--workloads", "w1", "--repeat", "1", "--rounds", "5", "--json") == 0

    record = json.loads(command.out)
    assert {row["workload"] for row in record["rows"]} == {"w1", "w1 evaluation"}
    assert record["large_trace"]["clients"] == 50
    assert set(record["method_overhead"]["methods"]) == {"global", "fielding"}
