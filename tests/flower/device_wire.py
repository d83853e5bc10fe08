"""A wire to devices in this process: orders and replies take the form of Flower's records, but no network."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fielding._typing import Json
from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.engine.runner import Watch
from fielding.flower.device.delivered import OnModel
from fielding.flower.device.device import Device
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.rule import DeviceRule, rule_from
from fielding.flower.server.contacts import Presence
from fielding.flower.server.deployment import Deployment, run_deployment
from fielding.flower.server.device_rule import device_record
from fielding.flower.server.exchange import Node, Patience
from fielding.flower.wire.messages import n_bytes, order_from, order_records, reply_from, reply_records
from fielding.flower.wire.orders import Answer, Expected, Order, Refusal, TrainReply, Verb
from fielding.records.logs import Logs
from fielding.records.run_folder import EVENTS, ROUNDS
from fielding.runtime.own_code import DeviceNode, Samples
from fielding.simulation.assembly import Own, Simulation, assemble, simulated_noise
from fielding.traces.sources import sort_samples
from fielding.traces.trace import read_trace
from tests.simulation.run_cases import Table

HIDDEN_HEARTBEAT_S = 1e300
FIRST_ADDRESS = 1000
START, DAY = 1_704_067_200.0, 86_400.0  # where traces with times begin


class DeviceWire:
    """Nodes that answer at once; a dead one takes orders and never answers, a sick one sends NaN for a model.

    A slow one answers only when the next orders go out, and a hidden one is not seen.

    Parameters
    ----------
    devices
        Who is there, by address.
    with_keys
        Whether they have public keys, as in a deployment.

    Attributes
    ----------
    dead, sick, slow, hidden
        Addresses.
    pushes
        The orders of every push.
    """

    def __init__(self, devices: Mapping[int, Device], *, with_keys: bool = False) -> None:
        self.devices = dict(devices)
        self.expected: Expected | None = None
        self._with_keys = with_keys
        self.dead: set[int] = set()
        self.sick: set[int] = set()
        self.slow: set[int] = set()
        self.hidden: set[int] = set()
        self.pushes: list[list[tuple[int, Order]]] = []
        self.on_push: Callable[[], None] = lambda: None
        self._ready: dict[str, tuple[int, Order]] = {}

    def nodes(self) -> list[Node]:
        there = sorted(set(self.devices) - self.hidden)
        if self._with_keys:
            return [Node(address=at, public_key=f"-----BEGIN {at}".encode()) for at in there]
        return [Node(address=at, public_key=b"random", heartbeat_s=HIDDEN_HEARTBEAT_S) for at in there]

    def push(self, orders: Sequence[tuple[int, Order]]) -> list[tuple[str | None, int]]:
        self.pushes.append(list(orders))
        self.on_push()
        posted: list[tuple[str | None, int]] = []
        for at, (address, order) in enumerate(orders):
            records = order_records(order, {})
            ticket = f"{len(self.pushes)}/{at}"
            if address not in self.dead:
                self._ready[ticket] = (address, order_from(records, order.verb))
            posted.append((ticket, n_bytes(records)))
        return posted

    def pull(self, asked: Mapping[str, tuple[int, Verb]]) -> dict[str, tuple[Answer, int]]:
        ready = [ticket for ticket in asked if ticket in self._ready and self._is_done(ticket)]
        return {ticket: self.answer(*self._ready.pop(ticket)) for ticket in ready}

    def _is_done(self, ticket: str) -> bool:
        return self._ready[ticket][0] not in self.slow or int(ticket.split("/")[0]) < len(self.pushes)

    def answer(self, address: int, order: Order) -> tuple[Answer, int]:
        try:
            reply = self.devices[address].answer(order)
        except Exception as error:  # as Flower does
            return Refusal(reason="failed", text=str(error)), 0
        if address in self.sick and isinstance(reply, TrainReply):
            sick = np.full_like(reply.updates.models, np.nan)
            reply = replace(reply, updates=replace(reply.updates, models=sick))
        records = reply_records(reply)
        assert self.expected is not None
        return reply_from(records, order.verb, self.expected), n_bytes(records)

    def wire_of(self, expected: Expected, _patience: Patience) -> "DeviceWire":
        """Return this wire, as a server asks for it."""
        self.expected = expected
        return self


def deployed_config(table: Table) -> Config:
    """Return a config under which simulator and deployment do the same."""
    return config_from(
        {
            **table,
            "clock": {"overcommit": 1.0},
            "coordinator": {**_section(table, "coordinator"), "reports": "with-training"},
        }
    )


def _section(table: Table, name: str) -> Table:
    section = table.get(name, {})
    assert isinstance(section, dict)
    return section


def devices_of(simulation: Simulation, folder: Path, on_model: OnModel | None = None) -> dict[int, Device]:
    """Return the clients of a simulation as devices, in an order of addresses of no meaning."""
    windows = simulation.clients.windows
    rule = rule_from(device_record(simulation.config, classes=windows.n_classes))
    n_clients = windows.n_clients
    return {
        FIRST_ADDRESS + n_clients - at: _device(simulation, at, rule, folder / f"device-{at}", on_model)
        for at in range(n_clients)
    }


def _device(simulation: Simulation, client: int, rule: DeviceRule, folder: Path, on_model: OnModel | None) -> Device:
    windows = simulation.clients.windows
    schedule, plan = windows.schedule, windows.plan
    rows = np.flatnonzero(schedule.client == client)
    arrivals = (schedule.interval[rows].astype(np.int64) + 1) * plan.gap - plan.lead
    times = None if plan.seconds is None else sort_samples(read_trace(str(simulation.config.trace.file))).time

    def load(node: DeviceNode, round_index: int) -> Samples:
        since = -(10**6) if node.since is None else node.since
        is_new = (arrivals > since) & (arrivals <= round_index)
        x, y = windows.gather(rows[is_new])
        is_test = windows.pool.is_test()[schedule.sample[rows[is_new]]]
        own = schedule.sample[rows[is_new]]
        return Samples(
            x, y, is_test=is_test, rounds=arrivals[is_new], times=None if times is None else times[own] - START
        )

    def clock(_node: DeviceNode, round_index: int) -> float:
        """Return the end of the newest day that is complete; the trace begins at midnight."""
        return DAY * windows.n_complete(round_index)

    purpose = "private training" if simulation.config.privacy.training == "sample" else "privacy"
    noise = simulated_noise(simulation.config.seed, schedule.client_ids, purpose)  # else no two runs would be the same
    return Device(
        DeviceNode(partition=client, config={}, folder=folder),
        rule,
        OwnCode(load_data=load, on_model=on_model, clock=clock),
        noise_of=lambda _me, round_index: noise(client, round_index),
    )


def rule_of(deployment: Deployment) -> DeviceRule:
    """Return the rule that comes with every order of a deployment."""
    record = device_record(
        deployment.checked_config(),
        classes=deployment.classes,
        own_vectors=deployment.own_vectors,
        memory=deployment.memory_rounds,
    )
    return rule_from(record)


def simulation_of(config: Config) -> Simulation:
    return assemble(config, Own(), n_workers=1)


def deployment_of(simulation: Simulation, *, min_nodes: int | None = None) -> Deployment:
    """Return the deployment of a simulation's config on its devices."""
    pool = simulation.dealt.pool
    return Deployment(
        config=simulation.config,
        classes=len(pool.classes),
        shape=pool.shape,
        presence=Presence(min_nodes=min_nodes or simulation.dealt.schedule.n_clients, within_s=0.2),
        patience=Patience(deadline_s=0.1, poll_s=0.01, forget_s=60.0),
    )


DECISIONS = ("round", "fired", "started", "n_clusters", "cluster_ids", "reported", "moved", "joined", "silenced")


def lines(folder: Path, name: str) -> list[dict[str, Json]]:
    return list(Logs(folder, (name,)).lines(name))


def decisions(folder: Path) -> list[dict[str, Json]]:
    return [{name: line[name] for name in DECISIONS} for line in lines(folder, EVENTS)]


def accuracies(folder: Path) -> dict[int, float]:
    """Return the accuracy of each round that was evaluated."""
    rows = [line for line in lines(folder, ROUNDS) if line.get("accuracy") is not None]
    return {int(str(line["round"])): float(str(line["accuracy"])) for line in rows}


class Deployed:
    """A simulation's clients as devices, and a server that runs into a folder; every run is a new process to both."""

    def __init__(
        self, config: Config, folder: Path, *, with_keys: bool = False, on_model: OnModel | None = None
    ) -> None:
        self.simulation = simulation_of(config)
        self._folder, self._with_keys, self._on_model = folder, with_keys, on_model
        self.out = folder / "deployed"
        self.wire = self.restarted()

    def restarted(self) -> DeviceWire:
        """Return a wire to the same devices, as a new server meets them."""
        devices = devices_of(self.simulation, self._folder, self._on_model)
        self.wire = DeviceWire(devices, with_keys=self._with_keys)
        return self.wire

    def run(
        self, *, watch: Watch = lambda _row: True, min_nodes: int | None = None, deliveries: int | None = None
    ) -> dict[str, Json] | None:
        deployment = replace(deployment_of(self.simulation, min_nodes=min_nodes), deliveries=deliveries)
        return run_deployment(deployment, self.wire.wire_of, self.out, watch=watch)

    def run_with(self, config: Config) -> dict[str, Json] | None:
        """Run another config on the same devices."""
        deployment = replace(deployment_of(self.simulation), config=config)
        return run_deployment(deployment, self.wire.wire_of, self.out)
