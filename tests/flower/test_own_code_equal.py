"""Simulator = deployment also for training and tests of the user's own: the same functions give the same runs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding import Own
from fielding.metrics import f1
from fielding.records.run_folder import ROUNDS
from fielding.simulation.experiment import run
from tests.rotation import some_of
from tests.simulation.run_cases import small_pool, table

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower.device.own_code import OwnCode
from fielding.flower.server.deployment import run_deployment
from tests.flower.device_wire import Deployed, deployed_config, deployment_of, lines
from tests.flower.same_runs import assert_same_runs
from tests.simulation.test_own_code import FIRST, embed, evaluate, own, train


@pytest.mark.parametrize(
    "sections",
    some_of(
        [
            {},
            {"serving": {"correction": "prior"}, "training": {"lr_decay": 0.9, "lr_every": 2}},
            {"coordinator": {"representation": "embedding", "detector": "ks", "shared_model": "global"}},
            {"method": {"name": "feddrift"}},
        ],
        2,
    ),
    ids=["labels", "correction", "embedding", "feddrift"],
)
def test_ones_own_code_goes_on_devices_as_in_the_simulator(sections: dict[str, Any], tmp_path: Path) -> None:
    config = deployed_config(table(trace={"file": str(small_file(tmp_path)), "samples": 40}, **sections))
    deployed = Deployed(config, tmp_path)
    for device in deployed.wire.devices.values():
        load_data = device._own.load_data
        device._own = OwnCode(load_data=load_data, train=train, evaluate=evaluate, embed=embed, metrics={"f1": f1})
    deployment = replace(deployment_of(deployed.simulation), first_model=lambda: FIRST)
    assert run_deployment(deployment, deployed.wire.wire_of, deployed.out) is not None

    run(config, tmp_path / "simulated", own=replace(own(metrics={"f1": f1}), samples=None), page=False)
    assert_same_runs(deployed.out, tmp_path / "simulated")
    assert all(row["metric/f1"] for row in lines(deployed.out, ROUNDS) if "accuracy" in row)


def test_metrics_of_what_clients_are_served_are_those_of_the_simulator(tmp_path: Path) -> None:
    file = str(small_file(tmp_path))
    sections: dict[str, Any] = {"serving": {"experts": "auto"}, "evaluation": {"every": 1}}
    config = deployed_config(table(rounds=4, trace={"file": file, "samples": 40}, **sections))
    deployed = Deployed(config, tmp_path)
    for device in deployed.wire.devices.values():
        device._own = replace(device._own, metrics={"f1": f1})
    deployed.run()

    run(config, tmp_path / "simulated", own=Own(metrics={"f1": f1}), page=False)
    assert_same_runs(deployed.out, tmp_path / "simulated")
    assert all(row["served_metric/f1"] for row in lines(deployed.out, ROUNDS) if "accuracy" in row)


def test_a_metric_of_few_devices_fills_no_log(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table(rounds=1)), tmp_path)
    for at, device in enumerate(deployed.wire.devices.values()):
        names = {"f1": f1, f"odd-{at}": f1} if at < 7 else {}
        device._own = OwnCode(load_data=device._own.load_data, metrics=names)
    deployed.run()

    (row,) = lines(deployed.out, ROUNDS)
    assert [name for name in row if "metric" in name] == ["metric/f1"]


def small_file(folder: Path) -> Path:
    """Write the pool that the functions are made for."""
    pool, path = small_pool(2400), folder / "pool.npz"
    np.savez(path, x=pool.x, y=pool.y, classes=np.array(pool.classes))
    return path
