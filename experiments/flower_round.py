"""A round of federated learning in three simulators: ours, a plain PyTorch loop, and Flower's (Ray).

    python -m experiments.flower_round [--rounds 10] [--only-one-cpu] [--workload w1] [--clients 1000]

Workload W1: 50 of 1,000 clients take 20 steps of 20 samples each; --workload takes another. A round of every contender
picks its participants, trains them and averages their models. Ours and the loop draw the batches within their time and
keep to one thread; Flower's clients read theirs from a file, in as many processes as it starts. Ours and the loop take
turns in blocks: before, between and after Flower's runs. Prints a table and JSON.
"""

import argparse
import importlib.util
import json
import logging
import os
import signal
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.simulator import trainers_of
from benchmarks.timing import in_turns
from benchmarks.workloads import (
    LEARNING_RATE,
    WORKLOADS,
    as_tensor,
    load_model,
    plain_loop,
    plain_module,
    workload_round,
    workload_windows,
)
from fielding._typing import Counts, Models
from fielding.blas_threads import ONE_BLAS_THREAD
from fielding.rng import client_key
from fielding.runtime.train import draw_batches as drawn_batches
from fielding.runtime.workers import Workers
from fielding.training.trainer import LocalWork

if TYPE_CHECKING:
    import torch

WORKLOAD, CLIENTS = "FIELDING_WORKLOAD", "FIELDING_WORKLOAD_CLIENTS"
"""Variables that tell Flower's processes, too, what the work is."""
WORK = WORKLOADS[os.environ.get(WORKLOAD, "w1")]
WORK = replace(WORK, n_clients=int(os.environ.get(CLIENTS, WORK.n_clients)))
OURS, LOOP = "fielding, 1 thread", "plain loop, 1 thread"
NAME = "experiments.flower_round"
WARM_UP = 2
"""Rounds of Flower that are not timed: its processes start and load their libraries."""
TOLERANCE = {"w1": 1e-5, "w2": 1e-4, "w3": 0.05}[WORK.name]
"""Contenders whose models differ more do not do the same work; batch norms make much of the last digits."""
FROM = {"flwr": "'flwr[simulation]==1.41.0'", "ray": "'flwr[simulation]==1.41.0'", "torch": "torch"}


@dataclass(kw_only=True)
class Contender:
    """Seconds of a contender's rounds, and to the end of its first; how far its last mean model is from ours."""

    name: str
    seconds: list[float] = field(default_factory=list)
    start_up_s: float = 0.0
    largest_difference: float = 0.0
    peak_mb: float = 0.0  # of all its processes together; 0: not looked at


class Federation:
    """The clients of the workload and their local work, for all contenders alike."""

    def __init__(self) -> None:
        self.windows = workload_windows(WORK)
        self.trainer = next(iter(trainers_of(WORK).values()))
        self.workers = Workers(self.trainer, 1)
        self.module = plain_module(WORK)

    def draws(self, clients: Counts, round_index: int) -> Counts:
        """Return the batches of some clients in a round: the same as those of the simulator's benchmark."""
        keys = np.array([client_key(int(client)) for client in clients], dtype=np.uint64)
        shape = (WORK.n_steps, WORK.batch_size)
        return drawn_batches(self.windows.training(0), clients, keys=keys, moment=(1, round_index), shape=shape)

    def ours(self, round_index: int) -> Models:
        """Return the mean model of a round of ours."""
        return self.mean(workload_round(WORK, self.windows, self.trainer, round_index))

    def loop(self, round_index: int) -> Models:
        """Return the mean model of a round of the plain loop."""
        work = workload_round(WORK, self.windows, self.trainer, round_index)
        return np.asarray(plain_loop(work, self.module, self.trainer.layout).mean(axis=0))

    def again(self, start: Models, clients: Counts, round_index: int) -> Models:
        """Return our mean model of a round that somebody else has done."""
        work, draws = workload_round(WORK, self.windows, self.trainer, round_index), self.draws(clients, round_index)
        return self.mean(replace(work, models=start[np.newaxis], start=0 * clients, draws=draws))

    def mean(self, work: LocalWork) -> Models:
        """Return the mean of the models that ours trains."""
        return np.asarray(self.workers.train(work).models.mean(axis=0))

    def write(self, folder: Path, n_rounds: int) -> None:
        """Write the samples and everybody's batches to where Flower's processes map them."""
        x, y = self.windows.gather(np.arange(WORK.n_clients * WORK.n_samples))
        draws = np.stack([self.draws(np.arange(WORK.n_clients), at) for at in range(n_rounds + 1)])
        for name, column in (("x", x), ("y", y.astype(np.int64)), ("draws", draws.astype(np.int32))):
            np.save(folder / f"{name}.npy", column, allow_pickle=False)


def train_client(message: Any, context: Any) -> Any:
    """Do the local work of one client, in one of Flower's processes."""
    app = importlib.import_module("flwr.app")
    told, client = message.content["config"], int(context.node_config["partition-id"])
    module = plain_module(WORK)
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    local_steps(module, Path(told["folder"]), client, told["server-round"])
    metrics = app.MetricRecord({"num-examples": WORK.n_samples, "client": client})
    content = app.RecordDict({"arrays": app.ArrayRecord(module.state_dict()), "metrics": metrics})
    return app.Message(content=content, reply_to=message)


def local_steps(module: "torch.nn.Module", folder: Path, client: int, round_index: int) -> None:
    """Train a module on the batches of a client, as a plain PyTorch program does."""
    import torch

    torch.set_num_threads(1)
    x, y, draws = (np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ("x", "y", "draws"))
    optimizer = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE)
    for rows in draws[round_index, client]:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(as_tensor(x[rows])), torch.from_numpy(y[rows]))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


@dataclass(kw_only=True)
class FlowerServer:
    """Flower's own FedAvg over all nodes, its rounds timed where they are made."""

    federation: Federation
    folder: Path
    n_rounds: int
    measured: Contender
    began: float = field(default_factory=time.perf_counter)
    started: set[tuple[int, int]] = field(default_factory=set)

    def serve(self, grid: Any, _context: Any) -> None:
        """Do all rounds, then the last one again with ours."""
        app, strategies = importlib.import_module("flwr.app"), importlib.import_module("flwr.serverapp.strategy")
        strategy = strategies.FedAvg(WORK.n_participants / WORK.n_clients, 0.0, min_available_nodes=WORK.n_clients)
        load_model(self.federation.module, self.federation.trainer.layout, self.federation.trainer.initial_model(1))
        after = app.ArrayRecord(self.federation.module.state_dict())
        for round_index in range(1, self.n_rounds + 1):
            start, before = time.perf_counter(), after
            config = app.ConfigRecord({"folder": str(self.folder)})
            replies = list(grid.send_and_receive(strategy.configure_train(round_index, before, config, grid)))
            after, _ = strategy.aggregate_train(round_index, replies)
            self.measured.seconds.append(time.perf_counter() - start)
            self.measured.peak_mb = max(self.measured.peak_mb, memory_mb(descendants(os.getpid())))
            if round_index == 1:
                self.measured.start_up_s = time.perf_counter() - self.began
                self.started |= descendants(os.getpid())
        self.check(before, after, [reply.content["metrics"]["client"] for reply in replies])

    def check(self, before: Any, after: Any, clients: list[int]) -> None:
        """Compare the last round's model with that of ours for the same clients and batches."""
        if len(set(clients)) != WORK.n_participants:
            raise RuntimeError(f"{len(set(clients))} clients replied; {WORK.n_participants} were asked")
        states, layout = [arrays.to_torch_state_dict() for arrays in (before, after)], self.federation.trainer.layout
        start, end = (layout.flat({name: state[name].numpy() for name in layout.names}) for state in states)
        again = self.federation.again(start, np.array(clients), self.n_rounds)
        self.measured.largest_difference = float(np.abs(again - end).max())


def run_flower(server: FlowerServer, resources: dict[str, float] | None) -> Contender:
    """Run Flower's simulation once, and see that its processes end."""
    server_app = importlib.import_module("flwr.serverapp").ServerApp()
    client_app = importlib.import_module("flwr.clientapp").ClientApp()
    simulation = importlib.import_module("flwr.simulation")
    logging.getLogger("flwr").setLevel(logging.ERROR)
    server_app.main()(server.serve)
    client_app.train()(train_client)
    backend: dict[str, Any] = {"init_args": {"_temp_dir": str(server.folder), "_node_ip_address": "127.0.0.1"}}
    if resources:
        backend["client_resources"] = resources
    try:
        simulation.run_simulation(server_app, client_app, WORK.n_clients, backend_config=backend)
    finally:
        stop(server.started)
    server.measured.seconds = server.measured.seconds[WARM_UP:]
    return server.measured


def running() -> dict[tuple[int, int], int]:
    """Return the parent of every process, known by its number and its start; nothing where there is no /proc."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # some have just ended
            state, parent, *more = path.read_text().rsplit(")", 1)[1].split()
            if state != "Z":
                parents[int(path.parent.name), int(more[17])] = int(parent)
    return parents


def descendants(process: int) -> set[tuple[int, int]]:
    """Return the processes that a process has started, and those that they have."""
    parents, found, generation = running(), set[tuple[int, int]](), {process}
    while generation:
        young = {one for one, parent in parents.items() if parent in generation}
        found |= young
        generation = {number for number, _ in young}
    return found


def memory_mb(processes: set[tuple[int, int]]) -> float:
    """Return the memory of some processes and this one, what they share counted once per process that has it."""
    pages = 0
    for number in (os.getpid(), *(number for number, _ in processes)):
        with suppress(OSError):
            pages += int(Path(f"/proc/{number}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def stop(started: set[tuple[int, int]], patience: float = 10.0) -> None:
    """Wait some seconds until processes have ended; then end the others, each by its number."""
    deadline = time.monotonic() + patience
    while started & running().keys() and time.monotonic() < deadline:
        time.sleep(0.1)
    for number, _ in started & running().keys():
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def quiet(folder: Path) -> dict[str, str]:
    """Return an environment in which Flower and Ray call nobody and write to one folder only."""
    (folder / "ray_bootstrap_config.yaml").write_text("provider: {type: local}\n")
    off = ("FLWR_TELEMETRY_ENABLED", "RAY_USAGE_STATS_ENABLED", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO")
    on = ("FLWR_DISABLE_UPDATE_CHECK", "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION")
    return {**dict.fromkeys(off, "0"), **dict.fromkeys(on, "1"), "FLWR_HOME": str(folder), "HOME": str(folder)}


def compare(folder: Path, n_rounds: int, backends: dict[str, dict[str, float] | None], n_turns: int) -> list[Contender]:
    """Time all contenders: ours and the loop in turns, before and after each run of Flower."""
    import torch

    federation, ours, loop = Federation(), Contender(name=OURS), Contender(name=LOOP)
    federation.write(folder, n_rounds)
    rounds = map(federation.ours, count()), map(federation.loop, count())
    contenders = {OURS: lambda: next(rounds[0]), LOOP: lambda: next(rounds[1])}

    def block() -> None:
        torch.set_num_threads(1)
        with ONE_BLAS_THREAD:
            timed = in_turns(contenders, n_turns)
        ours.seconds += timed[OURS].seconds
        loop.seconds += timed[LOOP].seconds
        loop.largest_difference = float(np.abs(timed[LOOP].result - timed[OURS].result).max())

    in_turns(contenders, 2)
    block()
    flowers = []
    for name, resources in backends.items():
        server = FlowerServer(federation=federation, folder=folder, n_rounds=n_rounds, measured=Contender(name=name))
        flowers.append(run_flower(server, resources))
        block()
    return [ours, loop, *flowers]


def rows(contenders: list[Contender]) -> list[dict[str, str | float]]:
    """Return what is printed of each contender; the first is the one that the others are divided by."""
    ours = statistics.median(contenders[0].seconds)
    return [
        {
            "contender": one.name,
            "median_ms": round(1e3 * statistics.median(one.seconds), 2),
            "times_ours": round(statistics.median(one.seconds) / ours, 2),
            "fastest_ms": round(1e3 * min(one.seconds), 2),
            "spread": round(max(one.seconds) / min(one.seconds), 2),
            "rounds": len(one.seconds),
            "start_up_s": round(one.start_up_s, 1),
            "peak_mb": round(one.peak_mb),
            "largest_difference": float(f"{one.largest_difference:.1e}"),
        }
        for one in contenders
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, choices=range(6, 101), metavar="6..100")
    parser.add_argument("--only-one-cpu", action="store_true", help="leave out Flower's default of 2 CPUs per client")
    parser.add_argument("--workload", choices=WORKLOADS, default=WORK.name)
    parser.add_argument("--clients", type=int, help="of which 50 train in a round of w1")
    parser.add_argument("--turns", type=int, default=10, help="of ours and of the loop in each block")
    options = parser.parse_args()
    if options.workload != WORK.name or options.clients not in {None, WORK.n_clients}:
        os.environ[WORKLOAD] = options.workload
        os.environ[CLIENTS] = str(options.clients or WORKLOADS[options.workload].n_clients)
        os.execv(sys.executable, [sys.executable, "-m", NAME, *sys.argv[1:]])
    for name, source in FROM.items():
        if importlib.util.find_spec(name) is None:
            print(f"error: {name} is not installed; pip install {source}", file=sys.stderr)
            return 2
    backends = {"flower, 1 CPU per client": {"num_cpus": 1.0}, "flower, default": None}
    if options.only_one_cpu:
        del backends["flower, default"]
    with tempfile.TemporaryDirectory(prefix="flower-", ignore_cleanup_errors=True) as folder:
        root = str(Path(__file__).parents[1])
        os.environ.update({**quiet(Path(folder)), "PYTHONPATH": os.pathsep.join([root, *sys.path[1:]])})
        table = rows(compare(Path(folder), WARM_UP + options.rounds, backends, options.turns))
    print(f"\n{' | '.join(table[0])}")
    for row in table:
        print(" | ".join(str(value) for value in row.values()))
    print(json.dumps({"workload": WORK.name, "cores": os.cpu_count(), "rows": table}))
    if max(float(row["largest_difference"]) for row in table) > TOLERANCE:
        print(f"error: the contenders' models differ by more than {TOLERANCE}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    # By its name, so that Ray sends the client's function as a name too: by value it would slow Flower down.
    sys.exit(importlib.import_module(NAME).main())
