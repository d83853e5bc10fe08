"""The command lines of a SuperLink and a SuperNode on loopback, and how to tell that they are up."""

import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import tomli_w

from fielding.flower.certificates import LOOPBACK, Certificates, NodeKey
from fielding.flower.environment import program
from fielding.flower.processes import Process

LEASE_S = 60.0
"""Seconds for which a SuperLink believes that a killed node is still there, and refuses its return."""
_HEALTH_S = 2.0
_ONLINE = "SuperNode ID:"
_REFUSED = "Failed to activate SuperNode"
_TAKEN = "address already in use"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A SuperLink on loopback that only talks TLS and only to nodes whose keys are registered.

    Parameters
    ----------
    port
        The one port for everything.
    certificates
        Of its own and of the authority.
    database
        The file that keeps nodes and runs over a restart.
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
            *(program("flower-superlink"), "--host", LOOPBACK, "--port", self.port),
            *("--ssl-ca-certfile", files.authority, "--ssl-certfile", files.server, "--ssl-keyfile", files.server_key),
            *("--enable-supernode-auth", "--database", self.database),
        ]

    def is_healthy(self) -> bool:
        """Return whether it answers, with a certificate of the right authority."""
        trust = ssl.create_default_context(cafile=str(self.certificates.authority))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),  # loopback needs no proxy, whatever the environment says
            urllib.request.HTTPSHandler(context=trust),
        )
        try:
            with opener.open(f"https://{self.address}/health", timeout=_HEALTH_S) as answer:
                return bool(answer.status == HTTPStatus.OK)
        except OSError:
            return False


def node_command(link: Link, key: NodeKey, *, port: int, config: Path) -> list[str | Path | int]:
    """Return the command line of a SuperNode; its config is a TOML file, see :func:`write_node_config`."""
    return [
        *(program("flower-supernode"), "--superlink", link.address, "--root-certificates", link.certificates.authority),
        *("--auth-supernode-private-key", key.private, "--port", port, "--node-config", config),
    ]


def write_node_config(path: Path, config: Mapping[str, str | int | float | bool]) -> Path:
    """Write what a node tells its ClientApp, as a file, so that any text may be in it; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tomli_w.dumps(dict(config)))
    return path


def is_online(node: Process) -> bool:
    """Return whether a SuperNode has been accepted by its SuperLink."""
    return _ONLINE in node.words()


def was_refused(node: Process) -> bool:
    """Return whether the SuperLink did not accept a SuperNode: unknown key, or a twin that is (or was just) there."""
    return _REFUSED in node.words()


def found_port_taken(process: Process) -> bool:
    """Return whether a process ended because somebody else listens on its port."""
    return _TAKEN in process.words().lower()
