"""A round in Flower's simulation (Ray), beside Flower's own FedAvg: seconds and bytes as nodes become many."""

import json
import shutil
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import tomli_w

from benchmarks.contenders import Contender, code_paths, log_of, run_config, wait_for_end, write_app
from benchmarks.shared_work import SharedWork
from benchmarks.traffic import END, PUSH, REPLY
from fielding._typing import Json
from fielding.flower.deploy.certificates import private_folder
from fielding.flower.deploy.environment import clean_environment, free_port, program
from fielding.flower.deploy.flower_program import CONNECTION, FlowerProgram, RunState
from fielding.flower.deploy.processes import ProcessError, Supervisor

N_TRAINED = 5  # nodes that train in a round
TESTED = 5  # nodes that are tested, where a contender tests
HIDDEN = 64
START_S, SUBMIT_S = 300.0, 300.0
_HEALTH_S = 2.0

FEDAVG = Contender(name="FedAvg", engine="fedavg", tests=False)
FIELDING = Contender(name="Fielding", engine="fielding")
SILENT = Contender(name="Fielding, no questions", engine="fielding", method="global")
CONTENDERS = (FEDAVG, FIELDING, SILENT)
"""In the order of their turns; the first is the one that the others are held against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedNodes:
    """A SuperLink that hands its runs to Flower's simulation, with as many nodes as a run wants."""

    supervisor: Supervisor
    n_nodes: int

    @property
    def _flower(self) -> FlowerProgram:
        return FlowerProgram(supervisor=self.supervisor)

    def run_app(self, app: Path) -> str:
        """Submit an app and return the id of its run; a node has one core."""
        done = subprocess.run(
            [
                *(program("flwr"), "run", str(app), CONNECTION, "--format", "json"),
                *("--federation-config", f"num-supernodes={self.n_nodes} client-resources-num-cpus=1"),
            ],
            env=self.supervisor.marked_environment,
            cwd=self.supervisor.folder,
            capture_output=True,
            text=True,
            timeout=SUBMIT_S,
            check=False,
        )
        if done.returncode:
            raise ProcessError(f"flwr run failed; it said: {(done.stdout + done.stderr)[-500:]}")
        return str(json.loads(done.stdout)["run-id"])

    def state(self, run_id: str) -> RunState:
        """Return how a run is doing; takes a second or two."""
        return self._flower.state(run_id)

    def log_lines(self, run_id: str) -> list[str]:
        """Return what the server's side of a run has logged so far."""
        return self._flower.log_lines(run_id)


@contextmanager
def simulated_nodes(folder: Path, environment: Mapping[str, str]) -> Iterator[SimulatedNodes]:
    """Start a SuperLink for Flower's simulation; what it started in turn, Ray above all, ends with it."""
    home = private_folder(folder) / "home"
    (home / "flwr").mkdir(parents=True)
    # Without a provider Ray asks cloud services which of them it runs on.
    (home / "ray_bootstrap_config.yaml").write_text("provider: {type: local}\ncluster_name: local\n")
    port = free_port()
    link = {"default": CONNECTION, CONNECTION: {"address": f"127.0.0.1:{port}", "insecure": True}}
    (home / "flwr" / "config.toml").write_text(tomli_w.dumps({"superlink": link}))
    scratch = tempfile.mkdtemp(prefix="ray-")  # paths of sockets must be short
    try:
        # Ray's processes are to count as much as others: on a busy machine they would starve.
        given = {**environment, "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": scratch, "RAY_worker_niceness": "0"}
        with Supervisor(folder=folder, environment=clean_environment(home, given)) as supervisor:
            running = supervisor.start(
                "superlink",
                [
                    *(program("flower-superlink"), "--insecure", "--simulation"),
                    *("--host", "127.0.0.1", "--port", port, "--database", folder / "state.db"),
                ],
            )
            supervisor.wait_until(running, lambda: _is_healthy(port), within_s=START_S)
            yield SimulatedNodes(supervisor=supervisor, n_nodes=1)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _is_healthy(port: int) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/health", timeout=_HEALTH_S) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCost:
    """What rounds of a contender took: medians over all its turns, of rounds after the second without a test.

    ``times_fedavg``, ``bytes_times``: seconds and bytes over those of the first contender with as many nodes.
    ``messages``: to nodes, in a round. ``spread``: slowest over fastest round.
    """

    nodes: int
    contender: str
    seconds: float
    times_fedavg: float
    messages: float
    bytes_down: float
    bytes_up: float
    bytes_times: float
    spread: float
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    seconds: float
    messages: int
    bytes_down: int
    bytes_up: int


def rounds_of(rows: Sequence[Mapping[str, Any]]) -> list[_Round]:
    """Return the rounds of a log that say what a round takes: those after the second, up to the last, without tests.

    Raises
    ------
    ProcessError
        If an order to train had no good reply, or the log has no end.
    """
    pushes = [row for row in rows if row["what"] == PUSH]
    replies = [row for row in rows if row["what"] == REPLY]
    n_trained = sum(push["messages"].get("train", 0) for push in pushes)
    n_good = sum(row["kind"] == "train" and row["is_good"] for row in replies)
    if n_good != n_trained or not rows or rows[-1]["what"] != END:
        raise ProcessError(f"{n_good} of {n_trained} models came back, so the run says nothing; try again")
    starts = [push["at_s"] for push in pushes if "train" in push["messages"]]
    found = []
    for start, end in pairwise(starts[2:]):
        sent = [push for push in pushes if start <= push["at_s"] < end]
        if any("evaluate" in push["messages"] for push in sent):
            continue
        found.append(
            _Round(
                seconds=end - start,
                messages=sum(sum(push["messages"].values()) for push in sent),
                bytes_down=sum(sum(push["bytes"].values()) for push in sent),
                bytes_up=sum(row["bytes"] for row in replies if start <= row["at_s"] < end),
            )
        )
    return found


def compare_rounds(
    sizes: Sequence[int],
    *,
    n_rounds: int,
    repeat: int,
    contenders: Sequence[Contender] = CONTENDERS,
    show: Callable[[str], None] = lambda _words: None,
) -> list[RoundCost]:
    """Let contenders take turns with each number of nodes: the same model, samples and local steps."""
    work = SharedWork(n_rounds=n_rounds, hidden=HIDDEN)
    measured: dict[tuple[int, Contender], list[_Round]] = {(n, one): [] for n in sizes for one in contenders}
    with tempfile.TemporaryDirectory(prefix="fielding-bench-") as name:
        scratch = Path(name).resolve()
        with simulated_nodes(scratch / "federation", code_paths()) as link:
            for turn in range(repeat):
                for number, ((n_nodes, one), rounds) in enumerate(measured.items()):
                    show(f"{one.name}, {n_nodes} nodes, turn {turn + 1} of {repeat}")
                    place = scratch / f"turn-{turn}-{number}"
                    rounds += _run(replace(link, n_nodes=n_nodes), one, work, place)
    return [
        _cost(n_nodes, one, rounds, measured[n_nodes, contenders[0]]) for (n_nodes, one), rounds in measured.items()
    ]


def _run(nodes: SimulatedNodes, contender: Contender, work: SharedWork, place: Path) -> list[_Round]:
    out = place / "run"
    config = run_config(contender, work, nodes.n_nodes, out)
    training = config["training"]
    assert isinstance(training, dict)
    training["participants"] = min(N_TRAINED, nodes.n_nodes)
    config["evaluation"] = {"every": work.n_rounds, "clients": TESTED}
    config["state-dir"] = str(place / "devices")
    run_id = nodes.run_app(write_app(place / "app", contender, config))
    rounds = rounds_of(wait_for_end(nodes, run_id, log_of(out)))
    while not nodes.state(run_id).is_ended:  # its processes would share the cores of the next one
        time.sleep(1.0)
    return rounds


def _cost(n_nodes: int, contender: Contender, rounds: Sequence[_Round], peer: Sequence[_Round]) -> RoundCost:
    def median(of: Sequence[_Round], name: str) -> float:
        return float(statistics.median(getattr(one, name) for one in of))

    both = [median(of, "bytes_down") + median(of, "bytes_up") for of in (rounds, peer)]
    return RoundCost(
        nodes=n_nodes,
        contender=contender.name,
        seconds=median(rounds, "seconds"),
        times_fedavg=median(rounds, "seconds") / median(peer, "seconds"),
        messages=median(rounds, "messages"),
        bytes_down=median(rounds, "bytes_down"),
        bytes_up=median(rounds, "bytes_up"),
        bytes_times=both[0] / both[1],
        spread=max(one.seconds for one in rounds) / min(one.seconds for one in rounds),
        rounds=len(rounds),
    )


def cost_rows(costs: Sequence[RoundCost]) -> list[list[Json]]:
    """Return a table, heads first."""
    return [[name.replace("_", " ") for name in asdict(costs[0])], *[list(asdict(one).values()) for one in costs]]
