"""Simulator = deployment: the same seed, samples and config give the same clusters, events and accuracies."""

from dataclasses import replace
from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.records.run_folder import EVENTS
from fielding.reporting.client_reasons import explain_client
from tests.rotation import some_of
from tests.simulation.run_cases import N_ROUNDS, Table, table

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower.server.roster import key_id
from tests.flower.device_wire import Deployed, accuracies, deployed_config, lines
from tests.flower.named_clients import run_named
from tests.flower.same_runs import assert_same_runs, deployed_as_simulated

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


@pytest.mark.parametrize("name", some_of(CASES, 2, always=["fielding"]))
def test_a_deployment_goes_as_its_simulation(name: str, tmp_path: Path) -> None:
    config = deployed_config(table(**CASES[name]))
    deployed = deployed_as_simulated(config, tmp_path)
    assert list(accuracies(deployed.out)) == [0, 3, 7, N_ROUNDS - 1]


def test_a_deployment_tells_why_clients_moved_as_its_simulation_does(tmp_path: Path) -> None:
    deployed = deployed_as_simulated(deployed_config(table()), tmp_path)
    moves = [(one["moved"], int(str(one["round"]))) for one in lines(deployed.out, EVENTS)]
    client, round_index = next((int(str(who[0])), at) for who, at in moves if isinstance(who, list) and who)

    ours, theirs = (explain_client(one, client, round_index) for one in (deployed.out, tmp_path / "simulated"))

    assert ours.record["outcome"] == theirs.record["outcome"] != "unchanged"
    assert ours.record["distances"] == theirs.record["distances"]
    reports = [explain_client(one, client).record["reports"] for one in (deployed.out, tmp_path / "simulated")]
    assert reports[0] == reports[1]


def test_clients_with_keys_go_as_clients_that_are_named_by_them(tmp_path: Path) -> None:
    config = deployed_config(table(training={"participants": 5}))
    deployed = Deployed(config, tmp_path, with_keys=True)
    keys = {node.address: key_id(node.public_key) for node in deployed.wire.nodes()}
    assert deployed.run() is not None

    names = [keys[address] for address in sorted(deployed.wire.devices, reverse=True)]  # the first has the highest
    assert names != sorted(names)
    assert_same_runs(deployed.out, run_named(config, tmp_path / "simulated", names))


@pytest.mark.parametrize("with_keys", [False, True])
def test_it_does_not_matter_where_and_in_which_order_nodes_are_found(with_keys: bool, tmp_path: Path) -> None:
    config = deployed_config(table(training={"participants": 5}))
    plain, shuffled = (Deployed(config, tmp_path / name, with_keys=with_keys) for name in ("plain", "shuffled"))
    nodes = {node.address: node for node in shuffled.wire.nodes()}
    moved = {address: 7919 * address % 10007 for address in nodes}  # 10007 is prime: no two at one place
    shuffled.wire.devices = {moved[address]: device for address, device in shuffled.wire.devices.items()}
    shuffled.wire.nodes = lambda: [replace(nodes[one], address=moved[one]) for one in nodes]  # type: ignore[method-assign]
    assert plain.run() is not None
    assert shuffled.run() is not None

    assert_same_runs(shuffled.out, plain.out)


def test_the_run_that_is_compared_drifts_and_groups_clients_anew(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table()), tmp_path)
    deployed.run()
    events: list[dict[str, Json]] = lines(deployed.out, EVENTS)
    assert sum(bool(line["fired"]) for line in events) >= 1
    assert max(int(str(line["n_clusters"])) for line in events) > 1
