"""The scripted app within this process: the same code on devices and server, clients of the same ids, no network."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fielding._typing import Json
from fielding.flower.deploy.federation import LocalFederation
from fielding.flower.device.device import Device
from fielding.flower.device.own_code import OwnCode
from fielding.flower.server.deployment import Deployment, run_deployment
from fielding.flower.server.exchange import Node, Patience
from fielding.flower.server.server_app import deployment_from
from fielding.records.run_checkpoint import DRIVER, LEDGER, load_run
from fielding.records.run_folder import newest_checkpoint
from fielding.runtime.own_code import DeviceNode
from tests.flower.device_wire import DeviceWire, rule_of
from tests.flower.real_runs import APP
from tests.flower.scripted_app.scripted.client_app import evaluate, load_data, train
from tests.flower.scripted_app.scripted.server_app import first_model

OWN = OwnCode(load_data=load_data, train=train, evaluate=evaluate)
FIRST_ADDRESS = 900
"""Addresses fall with the numbers of nodes: they say nothing of their order."""


def run_config(**changes: Json) -> dict[str, Json]:
    """Return the settings of the app as Flower hands them over: tables become dotted keys."""
    table: dict[str, Any] = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    flat: dict[str, Json] = {}
    for name, value in table.items():
        flat |= {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, Mapping) else {name: value}
    return flat | {name.replace("__", ".").replace("_", "-"): value for name, value in changes.items()}


def public_keys(federation: LocalFederation) -> dict[int, bytes]:
    """Return the public keys of a real federation's nodes as its SuperLink shows them."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

    return {
        number: load_ssh_public_key(key.public.read_bytes()).public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        )
        for number, key in federation.nodes.items()
    }


class ScriptedWire(DeviceWire):
    """Devices of the scripted app, known by keys.

    Parameters
    ----------
    folder
        Where their states are.
    keys
        Their public keys, by the numbers of their nodes.
    config
        The run config.
    script
        The node config of all.
    """

    def __init__(
        self, folder: Path, keys: Mapping[int, bytes], config: Mapping[str, Json], script: Mapping[str, Json]
    ) -> None:
        rule = rule_of(deployment_from(config, first_model=first_model)[0])
        nodes = {
            number: DeviceNode(partition=number, config={**config, **script}, folder=folder / f"node-{number}")
            for number in keys
        }
        super().__init__({address(number): Device(node, rule, OWN) for number, node in nodes.items()})
        self._keys = {address(number): key for number, key in keys.items()}

    def nodes(self) -> list[Node]:
        """Return who is not hidden."""
        return [Node(address=at, public_key=key) for at, key in self._keys.items() if at not in self.hidden]


def address(number: int) -> int:
    """Return where a node is."""
    return FIRST_ADDRESS - number


def deployed(wire: ScriptedWire, config: Mapping[str, Json], out: Path) -> dict[str, Json] | None:
    """Run the app on devices in this process, or go on with it."""
    deployment, _ = deployment_from(config, first_model=first_model)
    return run_deployment(_impatient(deployment), wire.wire_of, out)


def _impatient(deployment: Deployment) -> Deployment:
    return replace(deployment, patience=Patience(deadline_s=5.0, poll_s=0.001, forget_s=60.0))


def client_records(out: Path) -> dict[str, list[Json]]:
    """Return what a run knows of its clients at its end: bytes by category and way, reports that came, samples."""
    arrays = load_run(newest_checkpoint(out)).arrays
    return {
        name: [None if one != one else one for one in np.ravel(column).tolist()]
        for name, column in arrays.items()
        if name.startswith((LEDGER, DRIVER)) and not name.endswith(".seconds")
    }
