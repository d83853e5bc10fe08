"""A round that no device answered is not spent; a device that fails is asked ever more rarely, and named."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fielding._typing import Json
from fielding.cli.app import app
from fielding.flower.wire.orders import Answer, Order, Refusal
from fielding.records.run_folder import ROUNDS
from tests.flower.same_runs import assert_same_runs
from tests.rotation import some_of
from tests.simulation.run_cases import stopped_after, table

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower.server import deployment
from tests.flower.device_wire import Deployed, deployed_config, lines

ALL: dict[str, Json] = {"budget": "all"}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "FIRST_PAUSE_S", 0.001)


def lost_pushes(deployed: Deployed, lost: Sequence[int]) -> None:
    """Let all nodes come back to life without having got the orders of some pushes."""
    wire = deployed.wire
    push, nodes, n_lost = wire.push, wire.nodes, [0]

    def lossy(orders: Sequence[tuple[int, Order]]) -> list[tuple[str | None, int]]:
        number = len(wire.pushes)
        wire.dead = set(wire.devices) if number in lost else set()
        n_lost[0] += number in lost
        return push(orders)

    def reborn() -> list[object]:
        from dataclasses import replace

        return [replace(node, activated_at=str(n_lost[0])) for node in nodes()]

    wire.push, wire.nodes = lossy, reborn  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("lost", some_of([[3], [3, 4, 5], [1]], 1), ids=str)
def test_a_round_that_no_device_answered_is_tried_again_and_leaves_no_trace(
    tmp_path: Path, lost: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    config = deployed_config(table(rounds=6, reports=ALL))
    whole, disturbed = Deployed(config, tmp_path / "whole"), Deployed(config, tmp_path / "disturbed")
    assert whole.run() is not None
    lost_pushes(disturbed, lost)

    with caplog.at_level(logging.WARNING, "fielding"):
        assert disturbed.run() is not None

    assert_same_runs(disturbed.out, whole.out)
    assert [row["round"] for row in lines(disturbed.out, ROUNDS)] == list(range(6))
    told = [one.getMessage() for one in caplog.records if "it does not count, and is tried again" in one.getMessage()]
    assert len(told) == len(lost)


def test_a_round_in_which_devices_failed_is_spent(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table(rounds=4)), tmp_path)
    answer = deployed.wire.answer

    def fails(address: int, order: Order) -> tuple[Answer, int]:
        is_ill = order.verb == "train" and order.round_index == 1
        return (Refusal(reason="failed", text="no memory"), 0) if is_ill else answer(address, order)

    deployed.wire.answer = fails  # type: ignore[method-assign]

    assert deployed.run() is not None

    rows = lines(deployed.out, ROUNDS)
    assert (rows[1]["n_participants"], rows[1]["n_failing"]) == (0, 8)


def test_a_device_that_fails_is_asked_ever_more_rarely_also_after_a_restart_and_named(tmp_path: Path) -> None:
    config, n_rounds = deployed_config(table(rounds=16, reports=ALL, training={"participants": 12})), 16
    asked: list[int] = []

    def breaking(deployed: Deployed) -> int:
        answer, ill = deployed.wire.answer, min(deployed.wire.devices)

        def fails(address: int, order: Order) -> tuple[Answer, int]:
            if address != ill:
                return answer(address, order)
            asked.append(order.round_index)
            return Refusal(reason="failed", text="disk full"), 0

        deployed.wire.answer = fails  # type: ignore[method-assign]
        return ill

    first = Deployed(config, tmp_path, with_keys=True)
    breaking(first)
    assert first.run(watch=stopped_after(6)) is None
    again = Deployed(config, tmp_path, with_keys=True)
    breaking(again)
    assert again.run() is not None

    assert sorted(set(asked)) == [0, 2, 5, 10]  # left alone for 1, 2, 4 and 8 rounds
    last = lines(again.out, ROUNDS)[-1]
    assert last["n_failing"] == 1
    assert isinstance(last["failing"], list)
    named = last["failing"][0]
    assert isinstance(named, Mapping)
    assert (named["failures"], named["asked_from"], named["said"]) == (4, 19, "disk full")
    assert n_rounds < 19
    shown = CliRunner().invoke(app, ["show", str(again.out)]).output
    assert "1 devices fail" in shown.replace("\n", " ")
    assert "(measured)" in shown
