"""Simulator = deployment: the same seed, samples and config give the same clusters, events and accuracies."""

import os
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import EVENTS, MEMBERSHIPS, newest_checkpoint
from fielding.simulation.experiment import run
from tests.simulation.run_cases import N_ROUNDS, Table, table

pytest.importorskip("flwr", reason="the flower extra is not installed")

from tests.flower.device_wire import Deployed, accuracies, decisions, deployed_config, lines

CASES: dict[str, Table] = {
    "fielding": {},
    "chi2, weighted, slower and slower": {
        "coordinator": {"detector": "chi2", "min_fresh": 3},
        "training": {"weighted": True, "lr_decay": 0.9, "lr_every": 2, "momentum": 0.5},
    },
    "global": {"method": {"name": "global"}},
    "static, nearest": {"method": {"name": "static"}, "selection": {"name": "nearest"}},
    "selected": {"method": {"name": "selected"}},
    "q-fedavg": {"aggregation": {"name": "q-fedavg"}},
}


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _file: None)


@pytest.mark.parametrize("name", CASES)
def test_a_deployment_goes_as_its_simulation(name: str, tmp_path: Path) -> None:
    config = deployed_config(table(**CASES[name]))
    simulated, deployed = tmp_path / "simulated", Deployed(config, tmp_path)
    run(config, simulated, page=False)
    assert deployed.run() is not None

    assert lines(deployed.out, MEMBERSHIPS) == lines(simulated, MEMBERSHIPS)
    assert decisions(deployed.out) == decisions(simulated)
    wanted, found = accuracies(simulated), accuracies(deployed.out)
    assert list(found) == list(wanted) == [0, 3, 7, N_ROUNDS - 1]
    assert found == pytest.approx(wanted, abs=1e-5)
    ours, theirs = (load_run(newest_checkpoint(one)) for one in (deployed.out, simulated))
    np.testing.assert_allclose(ours.models, theirs.models, rtol=0, atol=1e-5)
    assert ours.membership.tolist() == theirs.membership.tolist()


def test_the_run_that_is_compared_drifts_and_groups_clients_anew(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table()), tmp_path)
    deployed.run()
    events: list[dict[str, Json]] = lines(deployed.out, EVENTS)
    assert sum(bool(line["fired"]) for line in events) >= 1
    assert max(int(str(line["n_clusters"])) for line in events) > 1
