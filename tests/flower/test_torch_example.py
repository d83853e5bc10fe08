"""The example in PyTorch, in this process: its own training and test, two clusters, and a node that moves."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding._typing import Json

pytest.importorskip("torch", reason="torch is not installed; run: pip install 'fielding[torch]'")
pytest.importorskip("flwr", reason="flwr is not installed; run: pip install 'fielding[flower]'")

from examples.flower_torch.torch_digits.client_app import MOVE, MOVER, evaluate, load_data, train
from examples.flower_torch.torch_digits.server_app import first_model
from fielding.flower.device.device import Device
from fielding.flower.device.own_code import OwnCode
from fielding.flower.server.deployment import run_deployment, set_up_run
from fielding.flower.server.server_app import deployment_from
from fielding.records.run_folder import MANIFEST
from fielding.runtime.own_code import DeviceNode
from tests.flower.device_wire import DeviceWire, accuracies, decisions, rule_of

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "flower_torch"
N_NODES = 4


def run_config() -> dict[str, Json]:
    """Return the settings of the app as Flower hands them over: tables become dotted keys."""
    project: dict[str, Any] = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))
    flat: dict[str, Json] = {}
    for name, value in project["tool"]["flwr"]["app"]["config"].items():
        flat |= {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, Mapping) else {name: value}
    return flat


def test_the_app_trains_its_own_network_in_two_clusters_and_one_node_moves(tmp_path: Path) -> None:
    config = run_config()
    deployment, _ = deployment_from(config, first_model=first_model)
    own = OwnCode(load_data=load_data, train=train, evaluate=evaluate)
    nodes = {at: DeviceNode(partition=at, config=config, folder=tmp_path / f"node-{at}") for at in range(N_NODES)}
    wire = DeviceWire({1000 + at: Device(node, rule_of(deployment), own) for at, node in nodes.items()})

    run_deployment(deployment, wire.wire_of, tmp_path / "run")

    last = accuracies(tmp_path / "run")
    assert {line["round"]: line["moved"] for line in decisions(tmp_path / "run") if line["moved"]} == {
        MOVE + 1: [MOVER]
    }
    assert last[max(last)] > 0.5
    assert json.loads((tmp_path / "run" / MANIFEST).read_text())["own"]["settings"] == {"own.epochs": 3}


def test_parameters_come_before_the_running_means_and_counters_of_batch_norm() -> None:
    deployment, _ = deployment_from(run_config(), first_model=first_model)
    layout = set_up_run(deployment, deployment.checked_config(), run_id="run").layout

    assert layout.names[layout.n_parameters :] == ("norm.running_mean", "norm.running_var", "norm.num_batches_tracked")
    assert layout.shapes[-1] == ()


def test_samples_that_came_are_given_once_and_all_of_them_to_who_lost_them(tmp_path: Path) -> None:
    at_once = load_data(DeviceNode(partition=1, config={}, folder=tmp_path), 2)
    in_turn = [load_data(DeviceNode(partition=1, config={}, folder=tmp_path, since=since), 2) for since in (None, 0, 2)]

    assert [len(one) for one in in_turn] == [len(at_once), len(in_turn[1]), 0]
    np.testing.assert_array_equal(np.asarray(at_once.x)[-len(in_turn[1]) :], in_turn[1].x)
    assert set(np.unique(np.asarray(at_once.rounds))) == {0, 1, 2}


@pytest.mark.parametrize("module", ["client_app", "server_app"])
def test_torch_is_not_loaded_before_it_is_used(module: str) -> None:
    code = f"import sys, torch_digits.{module}; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=EXAMPLE, check=False)
    assert done.returncode == 0
