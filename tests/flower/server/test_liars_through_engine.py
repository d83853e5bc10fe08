"""Liars among the devices of a deployment: the run ends as usual, and whoever is honest is served as before."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json, Models
from fielding.flower.server.deployment import run_deployment
from fielding.flower.wire.orders import Answer, DescribeReply, EvaluateReply, Order, Report, TrainReply
from fielding.records.container import read_contents
from fielding.records.run_folder import CLIENTS, EVENTS, ROUNDS
from fielding.runtime.own_code import Samples
from tests.simulation.run_cases import table

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower.wire.messages import n_bytes, reply_from, reply_records
from tests.flower.device_wire import FIRST_ADDRESS, Deployed, deployed_config, deployment_of, lines

Lie = Callable[[TrainReply | DescribeReply | EvaluateReply], TrainReply | DescribeReply | EvaluateReply]
N_CLIENTS, N_ROUNDS = 12, 5
FIRST, SECOND = FIRST_ADDRESS + 1, FIRST_ADDRESS + 2
"""Devices that answer before all others."""
NOTHING = np.empty(0, dtype=np.float32)
CONFUSION: Json = {"representation": "confusion", "shared_model": "global", "shared_rounds": 1}


def with_liars(deployed: Deployed, lie: Lie, liars: Sequence[int]) -> None:
    """Let devices send something else than they should, in the form of Flower's records."""
    wire = deployed.wire
    answer = wire.answer

    def lied(address: int, order: Order) -> tuple[Answer, int]:
        told, _ = answer(address, order)
        if address not in liars or not isinstance(told, (TrainReply, DescribeReply, EvaluateReply)):
            return told, 1
        records = reply_records(lie(told))
        assert wire.expected is not None
        return reply_from(records, order.verb, wire.expected), n_bytes(records)

    wire.answer = lied  # type: ignore[method-assign]


def reporting(report: Callable[[Report | None], Report | None]) -> Lie:
    def lie(told: TrainReply | DescribeReply | EvaluateReply) -> TrainReply | DescribeReply | EvaluateReply:
        return told if isinstance(told, EvaluateReply) else replace(told, report=report(told.report))

    return lie


def own_vector(samples: Samples, n_classes: int) -> Models:
    return (np.bincount(samples.y, minlength=n_classes) / max(1, len(samples))).astype(np.float32)


def with_own_vectors(folder: Path, lie: Lie, liars: Sequence[int]) -> Deployed:
    """Run a deployment whose devices describe their windows by code of their own."""
    deployed = Deployed(deployed_config(table(rounds=N_ROUNDS)), folder)
    for device in deployed.wire.devices.values():
        device._own = replace(device._own, describe=own_vector)
    with_liars(deployed, lie, liars)
    deployment = replace(deployment_of(deployed.simulation), own_vectors=True)
    assert run_deployment(deployment, deployed.wire.wire_of, deployed.out) is not None
    return deployed


def with_shared_model(folder: Path, lie: Lie, liars: Sequence[int]) -> Deployed:
    deployed = Deployed(deployed_config(table(rounds=N_ROUNDS, coordinator=CONFUSION)), folder)
    with_liars(deployed, lie, liars)
    assert deployed.run() is not None
    return deployed


def reported(deployed: Deployed) -> set[int]:
    """Return whose reports ever acted."""
    return {int(str(one)) for line in lines(deployed.out, EVENTS) for one in list(line["reported"])}  # type: ignore[arg-type]


def client(address: int) -> int:
    return FIRST_ADDRESS + N_CLIENTS - address


def assert_sound(deployed: Deployed, liars: Sequence[int] = ()) -> None:
    """Check that all rounds were done, and that honest clients have clusters and all models finite numbers."""
    assert [line["round"] for line in lines(deployed.out, ROUNDS)] == list(range(N_ROUNDS))
    last = lines(deployed.out, CLIENTS)[-1]
    cluster = dict(zip(last["client"], last["cluster"], strict=True))  # type: ignore[arg-type]
    honest = set(range(N_CLIENTS)) - {client(address) for address in liars}
    assert all(int(str(cluster[one])) >= 0 for one in honest)
    arrays = read_contents(max((deployed.out / "checkpoints").iterdir())).arrays
    models = [array for name, array in arrays.items() if array.dtype == np.float32 and "model" in name]
    assert models
    assert all(np.isfinite(array).all() for array in models)


def test_sums_without_a_shared_model_are_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sums = Report(number=9, representation=NOTHING, n_samples=3, tally=np.ones(3))
    deployed = with_own_vectors(tmp_path, reporting(lambda _report: sums), [FIRST])
    assert_sound(deployed, [FIRST])
    assert reported(deployed) == set(range(N_CLIENTS)) - {client(FIRST)}
    assert "client 11 reports sums, but no model is shared: refused" in caplog.text


def test_a_liar_that_comes_first_does_not_decide_how_long_vectors_are(tmp_path: Path) -> None:
    other = Report(number=9, representation=np.ones(7, dtype=np.float32), n_samples=3)
    deployed = with_own_vectors(tmp_path, reporting(lambda _report: other), [FIRST])
    assert_sound(deployed, [FIRST])
    assert reported(deployed) == set(range(N_CLIENTS)) - {client(FIRST)}


def test_vectors_before_there_is_a_reference_are_refused(tmp_path: Path) -> None:
    other = Report(number=9, representation=np.full(7, 1 / 7, dtype=np.float32), n_samples=3)
    deployed = with_shared_model(tmp_path, reporting(lambda _report: other), [FIRST])
    assert_sound(deployed, [FIRST])
    assert reported(deployed) == set(range(N_CLIENTS)) - {client(FIRST)}


@pytest.mark.parametrize("factor", [0.0, 1e200])
def test_sums_without_measure_leave_the_reference_finite(tmp_path: Path, factor: float) -> None:
    def huge(report: Report | None) -> Report | None:
        if report is None or report.tally is None:
            return report
        return replace(report, tally=report.tally * factor + (0.0 if factor else 1.5e308))

    deployed = with_shared_model(tmp_path, reporting(huge), [FIRST, SECOND])
    assert_sound(deployed, [FIRST, SECOND])
    honest = set(range(N_CLIENTS)) - {client(FIRST), client(SECOND)}
    assert honest <= reported(deployed)
    arrays = read_contents(max((deployed.out / "checkpoints").iterdir())).arrays
    (reference,) = (array for name, array in arrays.items() if name.endswith("shared.reference"))
    assert reference.size
    assert np.isfinite(reference).all()


def test_losses_without_measure_count_as_failures_and_means_stay_finite(tmp_path: Path) -> None:
    def huge(told: TrainReply | DescribeReply | EvaluateReply) -> TrainReply | DescribeReply | EvaluateReply:
        if isinstance(told, TrainReply):
            loss = np.array([1.7e308])
            return replace(told, updates=replace(told.updates, loss=loss, square_loss=loss))
        return told

    def huge_in_tests(told: TrainReply | DescribeReply | EvaluateReply) -> TrainReply | DescribeReply | EvaluateReply:
        if isinstance(told, EvaluateReply):
            return replace(told, scores=replace(told.scores, loss=np.full_like(told.scores.loss, 1.7e308)))
        return told

    deployed = Deployed(deployed_config(table(rounds=N_ROUNDS)), tmp_path)
    with_liars(deployed, huge, [FIRST])
    with_liars(deployed, huge_in_tests, [SECOND])
    assert deployed.run() is not None
    assert_sound(deployed, [FIRST])
    rows = lines(deployed.out, ROUNDS)
    assert all(float(str(row["train_loss"])) < 10.0 for row in rows)
    failed = {int(str(one)) for row in rows for one in list(row.get("failed", []))}  # type: ignore[arg-type]
    assert failed == {client(FIRST)}
    assert rows[-1]["test_loss"] is None
