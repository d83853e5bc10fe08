"""The Flower app among the examples: its settings are right, and its nodes are the clients of a simulation."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding._typing import Json
from fielding.config.reader import config_from
from fielding.simulation.experiment import run
from fielding.traces.sources import deal_samples

pytest.importorskip("flwr", reason="flwr is not installed; run: pip install 'fielding[flower]'")

from examples.flower.digits_app.client_app import app as client_app
from examples.flower.digits_app.client_app import load_data
from examples.flower.digits_app.server_app import app as server_app
from fielding.federation.clients import TrainingPlan
from fielding.flower.device.device import Device
from fielding.flower.device.own_code import OwnCode
from fielding.flower.server.deployment import Deployment, RunSetup, orders_of, run_deployment, set_up_run
from fielding.flower.server.server_app import KEYS, deployment_from
from fielding.flower.wire.messages import reply_from
from fielding.flower.wire.orders import Answer, DescribeReply, EvaluateReply, Expected, Order, TrainReply
from fielding.runtime.own_code import DeviceNode
from tests.flower.device_wire import DeviceWire, decisions, rule_of
from tests.flower.mail import instruction
from tests.flower.same_runs import assert_same_runs

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "flower"
N_NODES, MOVER, DRIFT_ROUND = 4, 3, 3


def project() -> dict[str, Any]:
    return tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))


def app_table() -> dict[str, Any]:
    table: dict[str, Any] = project()["tool"]["flwr"]["app"]
    return table


def run_config() -> dict[str, Json]:
    """Return the settings of the app as Flower hands them over: tables become dotted keys."""
    flat: dict[str, Json] = {}
    for name, value in app_table()["config"].items():
        flat |= {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, Mapping) else {name: value}
    return flat


def simulated_table() -> dict[str, Any]:
    """Return the config with which the simulator does the same with as many clients as there are nodes."""
    table = {name: value for name, value in app_table()["config"].items() if name not in KEYS}
    return table | {
        "trace": {**table["trace"], "clients": N_NODES},
        "coordinator": {**table["coordinator"], "reports": "with-training"},
        "clock": {"overcommit": 1.0},
    }


def digits_deployment() -> tuple[Deployment, RunSetup]:
    deployment, out = deployment_from(run_config())
    assert out == Path("digits-run")
    return deployment, set_up_run(deployment, deployment.checked_config(), run_id="run")


def node(partition: int, folder: Path, since: int | None = None) -> DeviceNode:
    return DeviceNode(partition=partition, config=run_config(), folder=folder, since=since)


def test_the_app_can_be_run_by_flower() -> None:
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp

    table = app_table()
    places = [EXAMPLE / f"{name.partition(':')[0].replace('.', '/')}.py" for name in table["components"].values()]

    assert [place.is_file() for place in places] == [True, True]
    assert isinstance(server_app, ServerApp)
    assert isinstance(client_app, ClientApp)
    assert {"out", "rounds", "min-nodes", "deadline", "start-wait", "classes", "shape"} <= set(table["config"])


def test_flower_has_nothing_to_fetch_for_the_app() -> None:
    assert project()["project"]["dependencies"] == []  # else every run needs an index of packages that has fielding


@pytest.mark.parametrize("partition", range(N_NODES))
def test_nodes_get_the_samples_of_the_simulators_clients(partition: int, tmp_path: Path) -> None:
    config = config_from(simulated_table())
    dealt = deal_samples(config.trace, rounds=config.rounds, seed=config.seed)
    is_first = dealt.schedule.interval == 0
    is_mine = (dealt.schedule.client == partition) & (dealt.schedule.interval < 2)  # the last is there to test on

    first, later = load_data(node(partition, tmp_path), 1), load_data(node(partition, tmp_path, since=1), DRIFT_ROUND)

    np.testing.assert_array_equal(first.y, dealt.schedule.y[is_mine & is_first])
    np.testing.assert_array_equal(later.y, dealt.schedule.y[is_mine & ~is_first])
    np.testing.assert_array_equal(np.unique(np.asarray(later.rounds)), [DRIFT_ROUND])
    assert len(load_data(node(partition, tmp_path, since=DRIFT_ROUND), DRIFT_ROUND + 1)) == 0


def test_the_app_goes_as_its_simulation_and_one_node_moves(tmp_path: Path) -> None:
    deployment, _ = digits_deployment()
    rule, own = rule_of(deployment), OwnCode(load_data=load_data)
    wire = DeviceWire({1000 - at: Device(node(at, tmp_path / f"node-{at}"), rule, own) for at in range(N_NODES)})
    deployed, simulated = tmp_path / "deployed", tmp_path / "simulated"

    run(simulated_table(), simulated, page=False)
    run_deployment(deployment, wire.wire_of, deployed)

    assert_same_runs(deployed, simulated)
    assert {line["round"]: line["moved"] for line in decisions(deployed) if line["moved"]} == {DRIFT_ROUND + 1: [MOVER]}


def asked(order: Order, partition: int, folder: Path, expected: Expected) -> Answer:
    """Return what the server makes of the answer of the client app."""
    from flwr.app import Context, RecordDict

    context = Context(
        run_id=1,
        node_id=42,
        node_config={"partition-id": partition, "state-dir": str(folder)},
        state=RecordDict(),
        run_config=run_config(),  # type: ignore[arg-type]
    )
    return reply_from(client_app(instruction(order), context).content, order.verb, expected)


def test_the_client_app_describes_trains_tests_and_tells_of_its_move(tmp_path: Path) -> None:
    deployment, ground = digits_deployment()
    orders, one = orders_of(ground, deployment), np.zeros(1, dtype=np.int64)
    models = ground.initial[np.newaxis]
    plan = TrainingPlan(models=models, clients=one, groups=one, start=one, wanted=np.ones(1, dtype=np.int64))

    described = asked(orders.describe(0, confirmed=0), MOVER, tmp_path, ground.expected)
    trained = asked(orders.train(plan, 0, client="phone", round_index=0, confirmed=1), MOVER, tmp_path, ground.expected)
    assert isinstance(trained, TrainReply)
    before, after = (
        asked(orders.evaluate(model, client="phone", round_index=0), MOVER, tmp_path, ground.expected)
        for model in (ground.initial, trained.updates.models[0])
    )
    moved = asked(orders.describe(DRIFT_ROUND, confirmed=1), MOVER, tmp_path, ground.expected)

    assert isinstance(described, DescribeReply)
    assert described.report is not None
    assert described.report.number == 1
    assert trained.report is None
    assert isinstance(before, EvaluateReply)
    assert isinstance(after, EvaluateReply)
    assert after.scores.correct[0] > before.scores.correct[0]
    assert isinstance(moved, DescribeReply)
    assert moved.report is not None
    assert moved.report.number == 2
