"""Flower's command line: register nodes, submit an app, see how it is doing, stop it."""

import json
import os
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import tomli_w

from fielding._typing import Json
from fielding.errors import InputError
from fielding.flower.deploy import access, flwr_calls
from fielding.flower.deploy.certificates import LOOPBACK, Certificates, NodeKey
from fielding.flower.deploy.environment import program
from fielding.flower.deploy.processes import Process, ProcessError, Supervisor
from fielding.flower.flwr_inside import (
    HEALTH,
    KEY_KNOWN,
    NO_DETAILS,
    NODE_ONLINE,
    NODE_REFUSED,
    PORT_TAKEN,
    RAISED_BY_SERVER,
    RUN_ENDED,
)

LEASE_S = 60.0  # seconds for which a SuperLink believes that a killed node is still there, and refuses its return
_HEALTH_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A SuperLink on loopback that only talks TLS, on one port, and only to nodes whose keys are registered.

    On Linux it answers processes of its own user alone (:mod:`fielding.flower.deploy.access`). The file ``database``
    keeps nodes and runs over a restart.
    """

    port: int
    certificates: Certificates
    database: Path

    @property
    def address(self) -> str:
        """Where it listens, as host:port."""
        return f"{LOOPBACK}:{self.port}"

    def command(self) -> list[str | Path | int]:
        """Return its command line."""
        files = self.certificates
        return [
            *_for_own_user("flower-superlink"),
            *("--host", LOOPBACK, "--port", self.port),
            *("--ssl-ca-certfile", files.authority, "--ssl-certfile", files.server, "--ssl-keyfile", files.server_key),
            *("--enable-supernode-auth", "--database", self.database),
        ]

    def is_healthy(self) -> bool:
        """Return whether it answers, with a certificate of the right authority.

        Raises
        ------
        ProcessError
            If it answers other users of this machine as well, though it was told not to.
        """
        trust = ssl.create_default_context(cafile=str(self.certificates.authority))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),  # loopback needs no proxy, whatever the environment says
            urllib.request.HTTPSHandler(context=trust),
        )
        try:
            with opener.open(f"https://{self.address}{HEALTH}", timeout=_HEALTH_S) as answer:
                is_there, users = bool(answer.status == HTTPStatus.OK), answer.headers[access.HEADER]
        except OSError:
            return False
        if is_there and access.can_tell_users() and users != str(os.getuid()):
            raise ProcessError(
                "the SuperLink answers every user of this machine: this release of flwr serves in another way than "
                f"{access.__name__} knows; install flwr 1.41 or 1.42"
            )
        return is_there


def _for_own_user(name: str) -> list[str]:
    """Return how to start one of Flower's servers so that it answers processes of this user alone, where that can be.

    By its path, since the processes of a federation do not see where this fielding is.
    """
    path = program(name)
    return [sys.executable, "-P", access.__file__, name] if access.can_tell_users() else [path]


def node_command(link: Link, key: NodeKey, *, port: int, config: Path) -> list[str | Path | int]:
    """Return the command line of a SuperNode; its config is a TOML file, see :func:`write_node_config`."""
    return [
        *_for_own_user("flower-supernode"),
        *("--superlink", link.address),
        *("--root-certificates", link.certificates.authority),
        *("--auth-supernode-private-key", key.private, "--port", port, "--node-config", config),
    ]


def write_node_config(path: Path, config: Mapping[str, str | int | float | bool]) -> Path:
    """Write what a node tells its ClientApp, as a file, so that any text may be in it; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tomli_w.dumps(dict(config)))
    return path


def is_online(node: Process) -> bool:
    """Return whether a SuperNode has been accepted by its SuperLink."""
    return NODE_ONLINE in node.words()


def was_refused(node: Process) -> bool:
    """Return whether the SuperLink did not accept a SuperNode: unknown key, or a twin that is (or was just) there."""
    return NODE_REFUSED in node.words()


def found_port_taken(process: Process) -> bool:
    """Return whether a process ended because another one listens on its port."""
    return PORT_TAKEN in process.words().lower()


CONNECTION = "here"  # the name of the SuperLink in Flower's own settings
Value = str | int | float | bool
_CALL_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """How a run is doing, as the SuperLink sees it.

    Parameters
    ----------
    status
        ``pending``, ``starting``, ``running``, ``finished:completed``, ``finished:failed`` or ``finished:stopped``.
    bytes_to_nodes, bytes_from_nodes
        What went over the wire since the start of the run, in bytes.
    details
        Why it ended so, in the SuperLink's words.
    """

    status: str
    bytes_to_nodes: int
    bytes_from_nodes: int
    details: str = ""

    @property
    def is_ended(self) -> bool:
        """Whether nothing more will come."""
        return self.status.startswith(RUN_ENDED)

    @property
    def is_completed(self) -> bool:
        """Whether it came to its own end."""
        return self.status == f"{RUN_ENDED}completed"

    @property
    def own_error(self) -> str | None:
        """What the app itself failed with; None if it did not, but was stopped, killed or lost its SuperLink."""
        return (
            self.details.removeprefix(RAISED_BY_SERVER).strip() if self.details.startswith(RAISED_BY_SERVER) else None
        )

    @property
    def was_lost(self) -> bool:
        """Whether its process died without an error of its own: the same app can be submitted again."""
        return self.status == f"{RUN_ENDED}failed" and self.own_error is None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowerProgram:
    """Flower's command line, with the environment of a supervisor, with whose processes it ends."""

    supervisor: Supervisor

    @property
    def settings(self) -> Path:
        """The file with the address of the SuperLink."""
        return Path(self.supervisor.environment["FLWR_HOME"]) / "config.toml"

    def connect(self, address: str, authority: Path) -> None:
        """Write where the SuperLink is, and whose certificate it must show."""
        here = {"address": address, "root-certificates": str(authority)}
        self.settings.parent.mkdir(parents=True, exist_ok=True)
        self.settings.write_text(tomli_w.dumps({"superlink": {"default": CONNECTION, CONNECTION: here}}))

    def register(self, keys: Mapping[str, Path]) -> None:
        """Make public keys known to the SuperLink, by the names of their nodes; known ones are no mistake."""
        calls = [
            ["supernode", "register", str(path), CONNECTION, "--name", name, "--format", "json"]
            for name, path in keys.items()
        ]
        for name, call in zip(keys, self._calls(calls), strict=True):
            if _answer(call) is None and KEY_KNOWN not in _said(call).lower():
                raise ProcessError(f"the key of {name} could not be registered; Flower said: {_said(call)}")

    def submit(self, app: Path, config: Mapping[str, Value], overrides: Path) -> str:
        """Submit the app of a folder and return the id of its run.

        ``config`` is what to change in the app's settings: keys that it has. It goes through the file ``overrides``,
        which is replaced if it is there, so that any text may be in it.
        """
        if not (app / "pyproject.toml").is_file():
            raise InputError(f"{app} holds no pyproject.toml; name the folder of a Flower app")
        overrides.write_text(tomli_w.dumps(dict(config)))
        call = ["run", str(app.resolve()), CONNECTION, "--format", "json"]
        answer = self._ask([*call, "-c", str(overrides)] if config else call)
        return str(answer["run-id"])

    def state(self, run_id: str) -> RunState:
        """Return how a run is doing; takes a second or two."""
        runs = self._ask(["list", CONNECTION, "--format", "json"]).get("runs")
        for run in runs if isinstance(runs, list) else []:
            if isinstance(run, dict) and str(run.get("run-id")) == run_id:
                traffic = run.get("network-traffic")
                traffic = traffic if isinstance(traffic, dict) else {}
                return RunState(
                    status=str(run.get("status")),
                    bytes_to_nodes=int(str(traffic.get("outbound-bytes", 0))),
                    bytes_from_nodes=int(str(traffic.get("inbound-bytes", 0))),
                    details=str(run.get("status-details") or "").removeprefix(NO_DETAILS),
                )
        raise InputError(f"the SuperLink knows no run {run_id}; give an id that run_app returned")

    def log_lines(self, run_id: str) -> list[str]:
        """Return what the server's side of a run has logged so far; takes a second or two."""
        (call,) = self._calls([["log", run_id, CONNECTION, "--show"]])
        if call.code:
            raise ProcessError(f"no log of run {run_id}; Flower said: {_said(call)}")
        return (call.out + call.err).splitlines()

    def _ask(self, words: list[str]) -> dict[str, Json]:
        """Run one command that answers in JSON."""
        (call,) = self._calls([words])
        if (answer := _answer(call)) is None:
            raise ProcessError(f"flwr {words[0]} failed; it said: {_said(call)}")
        return answer

    def _calls(self, commands: Sequence[Sequence[str]]) -> list["_Call"]:
        """Run commands one after another in one process."""
        try:
            done = subprocess.run(
                [sys.executable, "-P", str(Path(flwr_calls.__file__))],
                input=json.dumps(commands).encode(),
                capture_output=True,
                cwd=self.supervisor.folder,
                env=self.supervisor.marked_environment,
                timeout=_CALL_S + len(commands),
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ProcessError(f"flwr {commands[0][0]} gave no answer within {_CALL_S:g} s") from None
        try:
            return [_Call(**row) for row in json.loads(done.stdout)]
        except ValueError:
            broken = _Call(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode(errors="replace"))
            raise ProcessError(f"flwr {commands[0][0]} failed; it said: {_said(broken)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


def _answer(call: _Call) -> dict[str, Json] | None:
    """Return the JSON that a command wrote; None if it failed."""
    try:
        answer = json.loads(call.out[call.out.index("{") :])
    except ValueError:
        return None
    has_failed = bool(call.code) or not isinstance(answer, dict) or answer.get("success") is False
    return None if has_failed else answer


def _said(call: _Call) -> str:
    """Return the last words of a command as one line."""
    return " ".join(f"{call.out} {call.err}".split())[-500:] or "nothing"
