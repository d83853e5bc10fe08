"""A real federation on this machine: a SuperLink and SuperNodes, with TLS and node keys, for trials and tests."""

import signal
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from fielding.atomic import make_private
from fielding.errors import OptionError, echo
from fielding.flower.deploy.certificates import NodeKey, issue_certificates, node_key, private_folder
from fielding.flower.deploy.environment import clean_environment, free_port
from fielding.flower.deploy.flower_program import (
    LEASE_S,
    FlowerProgram,
    Link,
    RunState,
    Value,
    found_port_taken,
    is_online,
    node_command,
    was_refused,
    write_node_config,
)
from fielding.flower.deploy.processes import Process, ProcessError, Supervisor
from fielding.records.lock import lock_folder

READY_S = 60.0  # seconds that a process has to become ready
_LINK = "superlink"
_TRIES = 5
_RETRY_S = 3.0


class LocalFederation:
    """A SuperLink and SuperNodes on loopback, as a block: all of it has ended when the block is left.

    Nothing listens on a network. On Linux the SuperLink and the nodes answer processes of their own user alone.
    Elsewhere every user of this machine can reach the ports, and Flower's open distribution lets all who reach the
    SuperLink submit an app: use machines of your own.

    A folder that was used before is gone on with: the same node keys, and so the same clients, with the same states;
    certificates and the SuperLink's database are new at every start.

    Parameters
    ----------
    folder
        For its owner only: ``keys/``, ``link-N/`` (certificates and database of the start N), ``logs/``,
        ``clients/NODE/`` (their states), ``home/`` (with Flower's settings). One federation at a time.
    n_nodes
        SuperNodes to begin with, named ``node-0`` and so on.
    environment
        Variables for all processes, beside a clean environment.
    node_config
        What every node tells its ClientApp, beside ``partition-id``, ``num-partitions`` (as at the start) and
        ``state-dir``.
    """

    def __init__(
        self,
        folder: Path | str,
        n_nodes: int,
        *,
        environment: Mapping[str, str] | None = None,
        node_config: Mapping[str, Value] | None = None,
    ) -> None:
        if n_nodes < 1:
            raise OptionError(f"n_nodes is {echo(n_nodes)}; give at least 1")
        self.folder = private_folder(Path(folder)).resolve()
        self.n_nodes = n_nodes
        self.nodes: dict[int, NodeKey] = {}
        self.supervisor = Supervisor(
            folder=self.folder, environment=clean_environment(self.folder / "home", environment)
        )
        self.flower = FlowerProgram(supervisor=self.supervisor)
        self._node_config = dict(node_config or {})
        self._link: Link | None = None
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> Self:
        """Start the SuperLink and all nodes."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything."""
        self.stop()

    @property
    def address(self) -> str:
        """Where the SuperLink listens, as host:port."""
        return self._started_link.address

    @property
    def client_ids(self) -> dict[int, str]:
        """The ids of the clients, by the numbers of their nodes."""
        return {number: key.client_id for number, key in self.nodes.items()}

    def start(self) -> None:
        """Start the SuperLink and all nodes, and wait until they are there; if anything fails, stop what was started.

        Raises
        ------
        InputError
            If another federation runs in the folder.
        ProcessError
            If a process does not come up.
        """
        if self._lock is not None:
            raise ProcessError(f"the federation in {self.folder} is running already")
        self._lock = lock_folder(self.folder)
        try:
            self.supervisor.close()  # what a killed predecessor may have left
            self._start_link()
            self.flower.connect(self.address, self._started_link.certificates.authority)
            self.register(range(self.n_nodes))
            for number, process in enumerate([self._launch_node(number) for number in range(self.n_nodes)]):
                self._admit(number, process, 0.0)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything that was started, whatever it is doing; may be called again, as when it was interrupted."""
        if self._lock is None:  # what runs in the folder was started by another federation
            return
        self.supervisor.close()
        self._lock.close()
        self._lock = None

    def register(self, numbers: Sequence[int]) -> None:
        """Make the keys of nodes known to the SuperLink: without that they are refused."""
        self.flower.register({_node_name(number): self._key(number).public for number in numbers})

    def add_node(self, *, is_registered: bool = True) -> int:
        """Start one more node and return its number once it is online.

        Raises
        ------
        ProcessError
            If the SuperLink refuses it, as it does when its key is not registered.
        """
        number = max(self.nodes, default=-1) + 1
        if is_registered:
            self.register([number])
        self._key(number)
        self._admit(number, self._launch_node(number), 0.0)
        return number

    def kill_node(self, number: int) -> None:
        """Kill a node and all it runs at once (SIGKILL): the SuperLink learns of it when its lease is over."""
        self.supervisor.kill(_node_name(self._known(number)))

    def restart_node(self, number: int, *, patience_s: float = LEASE_S) -> None:
        """Start a node again that was killed or stopped; while its old lease holds, it is tried again."""
        self._admit(number, self._launch_node(self._known(number)), patience_s)

    def kill_link(self) -> None:
        """Kill the SuperLink at once (SIGKILL); the server's side of a run notices within seconds and ends."""
        self.supervisor.kill(_LINK)

    def restart_link(self) -> None:
        """Start the SuperLink again where it was: nodes that are still there go on with it."""
        link = self._started_link
        self.supervisor.wait_until(self.supervisor.start(_LINK, link.command()), link.is_healthy, within_s=READY_S)

    def kill_server_apps(self) -> list[int]:
        """Kill the processes in which the server's side of runs goes on (Linux), and return their ids."""
        pids = self.supervisor.find_marked("flwr-serverapp")
        for pid in pids:
            self.supervisor.signal(pid, signal.SIGKILL)
        return pids

    def run_app(self, app_folder: Path | str, config: Mapping[str, Value] | None = None) -> str:
        """Submit an app and return the id of its run; it begins some seconds later.

        Its pyproject.toml must have ``[tool.flwr.app]`` and all settings that ``config`` changes. Paths in these should
        be absolute.
        """
        return self.flower.submit(Path(app_folder), config or {}, self.folder / "run-config.toml")

    def state(self, run_id: str) -> RunState:
        """Return how a run is doing, as the SuperLink sees it; takes a second or two."""
        return self.flower.state(run_id)

    def log_lines(self, run_id: str) -> list[str]:
        """Return what the server's side of a run has logged so far; takes a second or two."""
        return self.flower.log_lines(run_id)

    def _known(self, number: int) -> int:
        if number not in self.nodes:
            raise OptionError(f"no node {echo(number)} here; there are {sorted(self.nodes)}")
        return number

    def _key(self, number: int) -> NodeKey:
        if number not in self.nodes:
            self.nodes[number] = node_key(self.folder / "keys", _node_name(number))
        return self.nodes[number]

    @property
    def _started_link(self) -> Link:
        if self._link is None:
            raise ProcessError(f"the federation in {self.folder} was not started; call start() first")
        return self._link

    def _start_link(self) -> None:
        """Start the SuperLink on a free port; if another process was quicker to take it, on another.

        Every start has a database of its own: from an old one, runs that were just beginning would begin once more,
        and nodes that were killed would be refused for a minute.
        """
        for old in self.folder.glob("link-*/state.db*"):
            old.unlink()
        folder = next(one for at in count() if not (one := self.folder / f"link-{at}").exists())
        certificates = issue_certificates(folder)
        for tries_left in reversed(range(_TRIES)):
            self._link = Link(port=free_port(), certificates=certificates, database=folder / "state.db")
            try:
                return self.restart_link()
            except ProcessError:
                if not (tries_left and found_port_taken(self.supervisor.processes[_LINK])):
                    raise

    def _launch_node(self, number: int) -> Process:
        name, state = _node_name(number), self.folder / "clients" / _node_name(number)
        make_private(state)
        config = write_node_config(
            self.folder / "node-configs" / f"{name}.toml",
            {
                "partition-id": number,
                "num-partitions": self.n_nodes,
                "state-dir": str(state),
                **self._node_config,
            },
        )
        command = node_command(self._started_link, self._key(number), port=free_port(), config=config)
        return self.supervisor.start(name, command)

    def _admit(self, number: int, process: Process, patience_s: float) -> None:
        """Wait until a node is online; start it again if its port was taken, and for so long if it is refused."""
        give_up, tries_left = time.monotonic() + patience_s, _TRIES
        while True:
            try:
                return self.supervisor.wait_until(process, partial(is_online, process), within_s=READY_S)
            except ProcessError as error:
                tries_left -= 1
                if was_refused(process) and time.monotonic() >= give_up:
                    why = "its key is not registered, or a node with the same key is (or was just) there"
                    raise ProcessError(f"{process.name} was refused by the SuperLink: {why}") from error
                if not was_refused(process) and not (tries_left and found_port_taken(process)):
                    raise
            if was_refused(process):
                time.sleep(_RETRY_S)
            process = self._launch_node(number)


def _node_name(number: int) -> str:
    return f"node-{number}"
