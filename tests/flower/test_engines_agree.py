"""Simulator = deployment, on real engines: the example app goes on Ray and on SuperNodes as in the simulator."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is not installed; run: pip install 'fielding[flower]'")

from fielding.flower.deploy import reaper
from fielding.flower.deploy.federation import LocalFederation
from tests.flower.device_wire import accuracies, decisions
from tests.flower.engines import Config, RaySimulation, app_config, ray_simulation, run_on_nodes, simulate
from tests.flower.real_runs import here
from tests.flower.same_runs import TOLERANCE, assert_same_runs

needs_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason="ray is not installed; run: pip install 'flwr[simulation]'"
)
N_NODES, N_FEW = 6, 4
LONG: dict[str, dict[str, Any]] = {
    "chi2": {"coordinator": {"detector": "chi2", "min_fresh": 5, "k_max": 3}},
    "any change": {"coordinator": {"detector": "any-change", "tau": 0.1}, "training": {"momentum": 0.5}},
    "q-fedavg": {"aggregation": {"name": "q-fedavg"}},
    "static": {"method": {"name": "static"}, "training": {"weighted": True}},
}
"""Runs of 20 rounds with data that change every three."""
MODELS_WITHIN = {"q-fedavg": 1e-4}
"""It weighs by losses, which the simulator takes of many clients at once: a last bit may send a unit over its edge."""


def short_config() -> Config:
    """Return five rounds: in the third data change, in the fourth clients move and all are grouped anew."""
    return app_config(
        N_FEW,
        rounds=5,
        trace={"gap": 2, "window": 2, "share": 0.5},
        training={"participants": 2},
        coordinator={"tau": 0.1},
        evaluation={"every": 3},
    )


def long_config(name: str, n_nodes: int) -> Config:
    sections: dict[str, dict[str, Any]] = {
        "trace": {"gap": 3, "window": 6, "share": 0.3, "samples": 60},
        "training": {"participants": 3},
        "evaluation": {"every": 5},
    }
    for section, value in LONG[name].items():
        sections[section] = {**sections.get(section, {}), **value}
    return app_config(n_nodes, rounds=20, **sections)


@pytest.fixture(scope="module")
def flower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RaySimulation]:
    with ray_simulation(tmp_path_factory.mktemp("ray")) as simulation:
        yield simulation
    assert reaper.marked_processes(simulation.nodes.supervisor.mark) == []


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFederation]:
    with LocalFederation(tmp_path_factory.mktemp("nodes"), N_FEW, environment=here()) as nodes:
        yield nodes
    assert reaper.marked_processes(nodes.supervisor.mark) == []


@needs_ray
def test_flowers_simulation_goes_as_the_embedded_one(flower: RaySimulation, tmp_path: Path) -> None:
    config, found = short_config(), tmp_path / "short"
    flower.run(config, found)

    assert_same_runs(found, simulate(config, tmp_path / "simulated"))
    assert_something_happened(found)


@pytest.mark.slow
def test_supernodes_go_as_named_clients_of_the_simulator(federation: LocalFederation, tmp_path: Path) -> None:
    config, found = short_config(), tmp_path / "short"
    run_on_nodes(federation, config, found)

    names = [federation.client_ids[number] for number in range(N_FEW)]
    assert_same_runs(found, simulate(config, tmp_path / "simulated", names))
    assert_something_happened(found)


def assert_something_happened(out: Path) -> None:
    """Make sure that the runs that were compared could have differed."""
    (begun, drifted, *_), tested = decisions(out), accuracies(out)
    assert (begun["round"], begun["started"], begun["n_clusters"]) == (0, True, 2)
    assert (drifted["round"], drifted["fired"]) == (3, True)
    assert drifted["moved"]
    assert list(tested) == [0, 2, 4]


@pytest.mark.slow
@needs_ray
@pytest.mark.parametrize("name", LONG)
def test_twenty_rounds_of_flowers_simulation(name: str, flower: RaySimulation, tmp_path: Path) -> None:
    config, found = long_config(name, N_NODES), tmp_path / name.replace(" ", "-")
    flower.run(config, found)

    wanted = simulate(config, tmp_path / "simulated")
    assert_same_runs(found, wanted, models_within=MODELS_WITHIN.get(name, TOLERANCE))
    assert len(decisions(found)) > 1 or name == "static"


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_twenty_rounds_of_supernodes(name: str, federation: LocalFederation, tmp_path: Path) -> None:
    config, found = long_config(name, N_FEW), tmp_path / name.replace(" ", "-")
    run_on_nodes(federation, config, found)

    names = [federation.client_ids[number] for number in range(N_FEW)]
    wanted = simulate(config, tmp_path / "simulated", names)
    assert_same_runs(found, wanted, models_within=MODELS_WITHIN.get(name, TOLERANCE))
    assert len(decisions(found)) > 1 or name == "static"
