"""The example app on three engines: the embedded simulator, Flower's simulation (Ray), a SuperLink with SuperNodes."""

import shutil
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from benchmarks.simulated_nodes import SimulatedNodes, simulated_nodes
from fielding._typing import ClientId
from fielding.flower.deploy.federation import LocalFederation
from fielding.flower.deploy.flower_program import FlowerProgram, RunState
from fielding.flower.server.server_app import KEYS
from fielding.records.run_folder import SUMMARY
from tests.flower.named_clients import run_named
from tests.flower.real_runs import here

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "flower"
LONGEST_S, ASK_S = 900.0, 10.0
"""Seconds: no run that is compared takes longer, however loaded the machine is; and between two looks at its state."""
Config = dict[str, Any]


def app_config(n_nodes: int, **sections: Any) -> Config:
    """Return the example's settings for so many nodes; sections that are given count more, key by key."""
    config = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["flwr"]["app"]["config"]
    patient: Config = {"min-nodes": n_nodes, "deadline": 300.0, "start-wait": 300.0, "clock": {"overcommit": 1.0}}
    patient["reports"] = {"budget": "all"}  # else nobody waits for those who only report, and rounds differ by chance
    for name, value in {**patient, **sections}.items():
        config[name] = {**config.get(name, {}), **value} if isinstance(value, Mapping) else value
    config["trace"]["clients"] = n_nodes
    assert isinstance(config, dict)
    return config


def written_app(config: Config, folder: Path) -> Path:
    """Write the example app with other settings, and return where."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    project["tool"]["flwr"]["app"]["config"] = config
    (folder / "pyproject.toml").write_text(tomli_w.dumps(project), encoding="utf-8")
    return folder


def simulate(config: Config, out: Path, names: Sequence[ClientId] | None = None) -> Path:
    """Run the embedded simulator on the same settings, and return its run folder; clients may have names."""
    table = {name: value for name, value in config.items() if name not in KEYS}
    table["coordinator"] = {**table["coordinator"], "reports": "with-training"}
    return run_named(table, out, range(config["trace"]["clients"]) if names is None else names)


# ---- Flower's simulation -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RaySimulation:
    """A SuperLink of our own that hands its runs to Flower's simulation."""

    nodes: SimulatedNodes

    def run(self, config: Config, out: Path) -> RunState:
        """Run the example, one simulated node per client, and return how it ended."""
        folder = self.nodes.supervisor.folder
        app = written_app({**config, "out": str(out), "state-dir": f"{out}-devices"}, folder / f"app-{out.name}")
        run_id = replace(self.nodes, n_nodes=config["trace"]["clients"]).run_app(app)
        return ended(FlowerProgram(supervisor=self.nodes.supervisor), run_id, out)


@contextmanager
def ray_simulation(folder: Path) -> Iterator[RaySimulation]:
    """Start a SuperLink for Flower's simulation; all of it ends with the context."""
    with simulated_nodes(folder, here()) as nodes:
        yield RaySimulation(nodes=nodes)


# ---- a SuperLink with SuperNodes ---------------------------------------------------------------------------------


def run_on_nodes(federation: LocalFederation, config: Config, out: Path) -> RunState:
    """Run the example on a federation of real processes, and return how it ended."""
    app = written_app({**config, "out": str(out)}, federation.folder / f"app-{out.name}")
    return ended(federation.flower, federation.run_app(app), out)


def ended(flower: FlowerProgram, run_id: str, out: Path) -> RunState:
    """Wait for the end of a run, and tell what it said if it failed."""
    give_up, asked = time.monotonic() + LONGEST_S, time.monotonic()
    while True:
        time.sleep(0.5)
        if (out / SUMMARY).exists() or time.monotonic() - asked > ASK_S:  # asking costs a second of a core
            state, asked = flower.state(run_id), time.monotonic()
            assert state.is_completed or not state.is_ended, flower.log_lines(run_id)[-20:]
            if state.is_ended:
                return state
        assert time.monotonic() < give_up, flower.log_lines(run_id)[-20:]
