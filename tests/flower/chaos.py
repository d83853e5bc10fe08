"""A network that loses, doubles, delays and reorders messages, nodes that crash, a server that is killed; one process.

Time is that of a clock which passes when the server sleeps. Devices are real ones with files, whose trainer writes into
every model who trained it and in which round: so each change of a cluster's model tells whose updates it is made of.
"""

import contextlib
import heapq
import os
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fielding._typing import Json
from fielding.flower.device.device import Device
from fielding.flower.device.own_code import OwnCode
from fielding.flower.server import deployment as server
from fielding.flower.server.deployment import run_deployment
from fielding.flower.server.exchange import Exchange, Node, Patience, Settled
from fielding.flower.server.roster import key_id
from fielding.flower.server.server_app import deployment_from
from fielding.flower.wire.messages import n_bytes, order_from, order_records, reply_from, reply_records
from fielding.flower.wire.orders import Answer, Expected, Order, Refusal, TrainOrder, Verb
from fielding.records.logs import Logs
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import newest_checkpoint
from fielding.runtime.own_code import DeviceNode, Fitted, Job, Samples, Scored, Tensors
from tests.flower.device_wire import rule_of
from tests.flower.real_runs import n_rounds as n_committed
from tests.flower.scripted_app.scripted import client_app as scripted
from tests.flower.simulated_wire import Clock
from tests.simulation.run_cases import Crash

DEADLINE_S, TTL_S = 3.0, 9.0
N_NODES = 12
FIRST_ADDRESS = 100
LAST = 100  # messages of which copies still come
COUNTED = "zz-counted"  # after the weights in the order of names


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """How likely it is that something happens to a message, or to a node that got one."""

    request_lost: float = 0.25
    response_lost: float = 0.25
    cut: float = 0.10
    doubled: float = 0.10
    crash: float = 0.30
    not_taken: float = 0.02
    delay_s: float = 2.0
    first_push: int = 1  # that is disturbed


CALM = Odds(request_lost=0.0, response_lost=0.0, cut=0.0, doubled=0.0, crash=0.0, not_taken=0.0, delay_s=0.0)


# ---- the app -------------------------------------------------------------------------------------------------------


def first_model() -> dict[str, npt.NDArray[np.float32]]:
    return {"weights": np.zeros((5, 4), dtype=np.float32), COUNTED: np.zeros((2, N_NODES), dtype=np.float32)}


def train(model: Tensors, samples: Samples, job: Job) -> Fitted:
    """Train the weights, and add who this is and which round."""
    fitted = scripted.train({"weights": model["weights"]}, samples, job)
    assert isinstance(fitted.model, dict)
    counted = np.array(model[COUNTED])
    counted[:, int(job.node.partition or 0)] += (1.0, job.round_index + 1.0)
    # Equal weights: the change of a cluster is then the mean over its updates.
    return replace(fitted, model={**fitted.model, COUNTED: counted.astype(np.float32)}, n_samples=40)


def evaluate(model: Tensors, samples: Samples) -> Scored:
    return scripted.evaluate({"weights": model["weights"]}, samples)


OWN = OwnCode(load_data=scripted.load_data, train=train, evaluate=evaluate)


def run_config(rounds: int, seed: int) -> dict[str, Json]:
    return {
        "out": "unused",
        "classes": 4,
        "min-nodes": N_NODES,
        "start-wait": 60.0,
        "deadline": DEADLINE_S,
        "rounds": rounds,
        "seed": seed,
        "trace.gap": 1,
        "trace.window": 1,
        "training.participants": 8,
        "training.local_steps": 2,
        "training.learning_rate": 0.5,
        "clock.overcommit": 1.0,
        "coordinator.detector": "any-change",
        "coordinator.k_max": 3,
        "coordinator.participants_per_cluster": 1,
        "aggregation.clip": 0.0,
        "evaluation.every": 10,
    }


def script_of(rounds: int) -> str:
    """Return who sees which kind of samples when: two nodes change a third of the way through, one at two thirds."""
    return f"0:AAAABBBBCCCC {rounds // 3}:BAAABBBBACCC {2 * rounds // 3}:BAAABBBBACCA"


# ---- the network ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sent:
    """An order that was taken, and in which exchange."""

    ticket: str
    exchange: int
    address: int
    order: Order


class ChaoticNetwork:
    """Nodes and the way to them, as servers meet them one after the other.

    Parameters
    ----------
    folder
        Where the states of devices are.
    odds
        What happens to messages.
    """

    def __init__(self, folder: Path, config: Mapping[str, Json], script: str, odds: Odds, seed: int) -> None:
        self.odds, self.draw, self.clock = odds, random.Random(seed), Clock()
        rule = rule_of(deployment_from(config, first_model=first_model)[0])
        self.devices = {
            FIRST_ADDRESS + number: Device(
                DeviceNode(partition=number, config={**config, "script": script}, folder=folder / f"node-{number}"),
                rule,
                OWN,
            )
            for number in range(N_NODES)
        }
        self.expected: Expected | None = None
        self.happened: Counter[str] = Counter()
        self.on_step: Callable[[], None] = lambda: None
        self.pushed: list[Sent] = []  # by the server that runs now
        self.delivered: set[str] = set()  # tickets whose replies it got in the exchange in which it asked
        self.n_exchanges, self._n_pushes, self._n_tickets, self._n_events = 0, 0, 0, 0
        self._coming: list[tuple[float, int, Callable[[], object]]] = []
        self._arrived: dict[str, tuple[Answer, int]] = {}
        self._lives = dict.fromkeys(self.devices, 0)
        self._back_at = dict.fromkeys(self.devices, 0.0)

    # ---- what the server calls

    def wire_of(self, expected: Expected, _patience: Patience) -> "ChaoticNetwork":
        self.expected, self.pushed, self.delivered = expected, [], set()
        return self

    def nodes(self) -> list[Node]:
        self._pass_time()
        self.on_step()
        return [
            Node(address=at, public_key=f"-----BEGIN {at:04d}".encode(), activated_at=str(self._lives[at]))
            for at in self.devices
            if self._back_at[at] <= self.clock.now
        ]

    def push(self, orders: Sequence[tuple[int, Order]]) -> list[tuple[str | None, int]]:
        self._pass_time()
        self.on_step()
        posted: list[tuple[str | None, int]] = []
        self._n_pushes += 1
        for address, order in orders:
            records = order_records(order, {})
            self._n_tickets += 1
            ticket = None if self._happens("not_taken") else f"ticket-{self._n_tickets}"
            posted.append((ticket, n_bytes(records)))
            if ticket is None:
                continue
            self.pushed.append(Sent(ticket=ticket, exchange=self.n_exchanges, address=address, order=order))
            received = order_from(records, order.verb)
            for _ in range(1 + self._happens("doubled")):
                if not self._happens("request_lost"):
                    self._later(self._delay(), partial(self._reach_node, ticket, address, received))
            outlived = Refusal(reason="straggler", text="error 3: message outlived")
            self._later(TTL_S, partial(self._arrived.setdefault, ticket, (outlived, 0)))
        self.on_step()
        return posted

    def pull(self, asked: Mapping[str, tuple[int, Verb]]) -> dict[str, tuple[Answer, int]]:
        """Return all that has come, also what was given before or nobody asks for: the server must see to it."""
        self._pass_time()
        self.on_step()
        for one in reversed(self.pushed):
            if one.exchange != self.n_exchanges:
                break
            answer, _ = self._arrived.get(one.ticket, (None, 0))
            if one.ticket in asked and answer is not None and not isinstance(answer, Refusal):
                self.delivered.add(one.ticket)
        found = list(self._arrived.items())[-LAST:]
        self.draw.shuffle(found)
        return dict(found)

    # ---- what happens on the way

    def _happens(self, what: str) -> bool:
        is_so = self._n_pushes >= self.odds.first_push and self.draw.random() < getattr(self.odds, what)
        self.happened[what] += is_so
        return is_so

    def _delay(self) -> float:
        return self.draw.uniform(0.0, self.odds.delay_s if self._n_pushes >= self.odds.first_push else 0.0)

    def _later(self, delay_s: float, what: Callable[[], object]) -> None:
        self._n_events += 1
        heapq.heappush(self._coming, (self.clock.now + delay_s, self._n_events, what))

    def _pass_time(self) -> None:
        while self._coming and self._coming[0][0] <= self.clock.now:
            heapq.heappop(self._coming)[2]()

    def _reach_node(self, ticket: str, address: int, order: Order) -> None:
        if self._back_at[address] > self.clock.now:  # it waits at the link until the node is back
            return self._later(
                self._back_at[address] - self.clock.now, partial(self._reach_node, ticket, address, order)
            )
        n_steps = self.draw.randrange(12) if self._happens("crash") else None
        try:
            with _crashing_after(n_steps):
                reply = self.devices[address].answer(order)
            if n_steps is not None:
                raise Crash
        except Crash:
            return self._crash(ticket, address)
        records = reply_records(reply)
        assert self.expected is not None
        answer: Answer = reply_from(records, order.verb, self.expected)
        if self._happens("response_lost"):
            return None
        if self._happens("cut"):
            answer = Refusal(reason="failed", text="the reply cannot be unpacked")
        return self._later(self._delay(), partial(self._arrived.setdefault, ticket, (answer, n_bytes(records))))

    def _crash(self, ticket: str, address: int) -> None:
        """Let the process of the app die, of which the link tells, or the whole node, which comes back."""
        if self.draw.random() < 0.5:
            died = Refusal(reason="failed", text="error 8: the ClientApp process died")
            self._later(self._delay(), partial(self._arrived.setdefault, ticket, (died, 0)))
        else:
            self._lives[address] += 1
            self._back_at[address] = self.clock.now + self._delay()


@contextlib.contextmanager
def _crashing_after(n_steps: int | None) -> Iterator[None]:
    """Let a device die at its n-th step on disk, or not at all; no step of the server is counted meanwhile."""
    n_done = [0]

    def step() -> None:
        n_done[0] += 1
        if n_steps is not None and n_done[0] > n_steps:
            raise Crash

    with _steps(step):
        yield


DISK: tuple[tuple[object, str], ...] = (
    (Path, "replace"), (Path, "unlink"), (os, "truncate"), (os, "fsync"), (Logs, "append"),
)  # fmt: skip


@contextlib.contextmanager
def _steps(step: Callable[[], None]) -> Iterator[None]:
    """Call a function before all that touches the disk; nobody waits for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in DISK:
            real = REAL[name]

            def call(*words: Any, _real: Callable[..., Any] = real, _name: str = name, **named: Any) -> Any:
                step()
                return None if _name == "fsync" else _real(*words, **named)

            patch.setattr(owner, name, call)
        yield


REAL: dict[str, Callable[..., Any]] = {name: getattr(owner, name) for owner, name in DISK}


# ---- runs ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Chaos:
    """A run through a chaotic network, with a server that is killed, and what it left."""

    out: Path
    network: ChaoticNetwork
    problems: list[str]
    n_restarts: int
    counted: Counter[int]  # updates by client
    longest_s: float  # of all exchanges

    def clusters(self) -> frozenset[frozenset[int]]:
        """Return who is with whom at the end."""
        last = load_run(newest_checkpoint(self.out))
        of = {int(last.membership[at]): set[int]() for at in range(len(last.client_ids))}
        by_id = {client_id(number): number for number in range(N_NODES)}
        for at, client in enumerate(last.client_ids):
            of[int(last.membership[at])].add(by_id[str(client)])
        return frozenset(frozenset(one) for one in of.values())

    def accuracy(self) -> float:
        """Return how well the models at the end serve all nodes, on new samples of what each of them sees."""
        last, right = load_run(newest_checkpoint(self.out)), []
        by_id = {client_id(number): number for number in range(N_NODES)}
        for at, client in enumerate(last.client_ids):
            weights = last.models[last.membership[at]][:20].reshape(5, 4)
            number = by_id[str(client)]
            device = self.network.devices[FIRST_ADDRESS + number]._node
            kind = scripted._kind(str(device.config["script"]), number, 10**6)
            x, y = scripted._samples(kind, number, 10**6)
            x[:, -1] = 1.0
            right.append(float(((x @ weights).argmax(axis=1) == y).mean()))
        return float(np.mean(right))


def client_id(number: int) -> str:
    return key_id(f"-----BEGIN {FIRST_ADDRESS + number:04d}".encode())


class TimedExchange(Exchange):
    """Takes note of how long the longest exchange took."""

    def __init__(self, longest: list[float], network: ChaoticNetwork, *words: Any) -> None:
        super().__init__(*words, clock=network.clock, sleep=network.clock.sleep)
        self._longest, self._network = longest, network

    def send(self, *words: Any) -> tuple[tuple[Settled, ...], float]:
        self._network.n_exchanges += 1
        settled, seconds = super().send(*words)
        self._longest[0] = max(self._longest[0], seconds)
        return settled, seconds


def run_chaos(
    folder: Path, *, rounds: int, seed: int, odds: Odds, n_restarts: int, deadline_s: float = DEADLINE_S
) -> Chaos:
    """Run to the end, however often the server is killed, and check every round as it is committed."""
    config = run_config(rounds, seed)
    network = ChaoticNetwork(folder / "devices", config, script_of(rounds), odds, seed)
    deployment, _ = deployment_from(config, first_model=first_model)
    deployment = replace(deployment, patience=Patience(deadline_s=deadline_s, poll_s=0.05, forget_s=TTL_S))
    out = folder / "out"
    audit = Audit(out, network)
    kills = sorted(network.draw.sample(range(1, rounds), n_restarts)) if n_restarts else []
    n_done, longest = 0, [0.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "Exchange", partial(TimedExchange, longest, network))
        while True:
            step = _doom(network, audit.sent, kills[n_done]) if n_done < len(kills) else lambda: None
            network.on_step = step
            try:
                with _steps(step):
                    summary = run_deployment(
                        deployment, network.wire_of, out, watch=audit.see_round, clock=network.clock
                    )
                break
            except Crash:
                n_done += 1
                audit.check()
    audit.check()
    if summary is None:
        audit.problems.append("it stopped before its end")
    return Chaos(
        out=out,
        network=network,
        problems=audit.problems,
        n_restarts=n_done,
        counted=audit.counted,
        longest_s=longest[0],
    )


def _doom(network: ChaoticNetwork, rounds: Collection[int], in_round: int) -> Callable[[], None]:
    """Return what kills the server some steps after so many rounds were committed."""
    left = [network.draw.randrange(60)]

    def step() -> None:
        if len(rounds) >= in_round:
            if not left[0]:
                raise Crash
            left[0] -= 1

    return step


class Audit:
    """Reads from the models after each round whose updates they are made of.

    The change of a cluster's model in a round is the mean of what its participants added: one for each of them, at the
    place of its client, and the number of the round.
    """

    def __init__(self, out: Path, network: ChaoticNetwork) -> None:
        self._out, self._network = out, network
        self.problems: list[str] = []
        self.counted: Counter[int] = Counter()
        self.sent: dict[int, dict[int, tuple[bytes, bool]]] = {}  # by round and client: its model, and if it answered
        self._n_participants: dict[int, int] = {}
        self._checked = -1

    def see_round(self, row: Mapping[str, Json]) -> bool:
        """Take note of what was sent in a round that is about to be committed; the one before it is."""
        self.check()
        now = int(str(row["round"]))
        orders = [one for one in self._network.pushed if isinstance(one.order, TrainOrder)]
        last = max((one.exchange for one in orders if one.order.round_index == now), default=-1)
        self.sent[now] = {}
        for one in orders:
            if one.exchange == last and isinstance(one.order, TrainOrder):
                model, client = one.order.plan.models[0].tobytes(), one.address - FIRST_ADDRESS
                self.sent[now][client] = (model, one.ticket in self._network.delivered)
        self._n_participants[now] = int(str(row["n_participants"]))
        return True

    def check(self) -> None:
        """Check the newest committed round, if that was not done."""
        now = n_committed(self._out) - 1
        if now <= self._checked:
            return
        if now != self._checked + 1:
            self.problems.append(f"round {now} was committed after round {self._checked}")
        self._checked = now
        newest, n_counted = load_run(newest_checkpoint(self._out)), 0
        rows = {str(client): int(row) for client, row in zip(newest.client_ids, newest.membership, strict=True)}
        for row in sorted({rows[client_id(client)] for client in self.sent[now]}):
            group = {client: one for client, one in self.sent[now].items() if rows[client_id(client)] == row}
            (start,) = {model for model, _ in group.values()}
            change = (newest.models[row] - np.frombuffer(start, dtype=np.float32))[-2 * N_NODES :].reshape(2, N_NODES)
            counted = set(np.flatnonzero(change[0] > 0.01).tolist())
            shares = np.isin(np.arange(N_NODES), list(counted)) / max(len(counted), 1)
            n_counted += len(counted)
            self.counted.update(counted)
            if not np.allclose(change, np.stack([shares, (now + 1) * shares]), atol=0.01):
                self.problems.append(f"round {now}: a model is not the mean of one update each: {change.tolist()}")
            if counted != (answered := {client for client, (_, has_answered) in group.items() if has_answered}):
                self.problems.append(f"round {now}: {sorted(answered)} answered, {sorted(counted)} counted")
        if n_counted != self._n_participants[now]:
            self.problems.append(f"round {now}: {n_counted} counted, {self._n_participants[now]} in the log")
